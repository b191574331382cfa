"""Statements of the hot path: set-based, prepared by the server, several a round trip.

They run on Django's own connection and in its transaction, under the same constraints as the ORM.
Only `flows.advance` calls those that write (DESIGN 4).
"""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import psycopg
from django.db import DEFAULT_DB_ALIAS, connections
from psycopg.rows import namedtuple_row

from partners.models import Identity, Partner
from partners.models.partner import AS_READ

Cursor = psycopg.Cursor[Any]
Statement = tuple[str, Sequence[Any]]
"""SQL and its parameters."""


@contextmanager
def pipeline() -> Iterator[Cursor]:
    """A cursor whose statements go to the server in one round trip.

    Results are read after the block. Parameters are bound by the server.
    """
    database = _database()
    with database.wrap_database_errors, database.connection.pipeline():
        yield _cursor(database)


def run(*statements: Statement) -> list[list[Any]]:
    """Run (statement, parameters) pairs in one round trip; the rows of each."""
    if whole := TOGETHER.get(tuple(statement for statement, _ in statements)):
        statements = ((whole, [value for _, values in statements for value in values]),)
    database = _database()
    cursors = [_cursor(database) for _ in statements]
    with database.wrap_database_errors:
        if len(statements) == 1:
            cursors[0].execute(*statements[0])
        elif statements:
            with database.connection.pipeline():
                for cursor, (statement, parameters) in zip(cursors, statements, strict=True):
                    cursor.execute(statement, parameters)
        return [cursor.fetchall() if cursor.description else [] for cursor in cursors]


def fetch(statement: str, parameters: Sequence[Any]) -> list[Any]:
    """The rows of one statement in PostgreSQL's binary format: bytes come as they are."""
    database = _database()
    with database.wrap_database_errors:
        return _cursor(database).execute(statement, parameters, binary=True).fetchall()


def _database() -> Any:
    """Django's own connection of this thread, connected. Looked up once: the look-up is dear."""
    database = connections[DEFAULT_DB_ALIAS]
    database.ensure_connection()
    return database


def _cursor(database: Any) -> Cursor:
    return psycopg.Cursor(database.connection, row_factory=namedtuple_row)


def route_of(row: Any) -> tuple[Partner, Identity]:
    """The partner and who we are, of a row with the columns of a route."""
    names = ("our_uri", "uri", "address", "error_address", "outgoing_kind", "outgoing_secret")
    values = [row.partner_id, *(getattr(row, name) for name in names)]
    partner = Partner.from_db(DEFAULT_DB_ALIAS, ("id", *names), values)
    return partner, Identity.given(row.own_uri, row.own_error_uri)


def _given(statement: str, rows: str) -> str:
    """The statement, done only if the CTE `rows` has a row."""
    if found := _VALUES.search(statement):
        insert, values, rest = statement[: found.start()], found[1], statement[found.end() :]
        return f"{insert} SELECT {values} FROM {rows} {rest}"
    return f"{statement} AND EXISTS (SELECT FROM {rows})"


_VALUES = re.compile(r"VALUES \(([^()]*(?:\(\)[^()]*)*)\)")

CLOCK = "SELECT clock_timestamp() AS now"
"""One clock for all: the database's (D13)."""

LOCK_LANES = """
    SELECT id FROM msh_outboundlink WHERE partner_id = ANY(%s) ORDER BY id FOR NO KEY UPDATE
"""

LOCK_DUE_LANES = """
    SELECT partner_id FROM msh_outboundlink
    WHERE state IN ('waiting', 'transient')
      AND (due <= statement_timestamp() OR due > statement_timestamp() + interval '70 minutes')
    ORDER BY due LIMIT %s
    FOR NO KEY UPDATE SKIP LOCKED
"""

LOCK_IDLE_LANES_WITH_QUEUE = """
    SELECT partner_id FROM msh_outboundlink link
    WHERE state = 'idle' AND (
        EXISTS (
            SELECT FROM msh_outboundmessage
            WHERE link_id = link.id AND state = 'queued' AND semantics = 'OnceAndOnlyOnce')
        OR EXISTS (
            SELECT FROM msh_outboundmessage WHERE link_id = link.id AND state = 'rewound'))
    LIMIT %s
    FOR NO KEY UPDATE SKIP LOCKED
"""

_LANE_COLUMNS = """
           link.id, link.partner_id, link.state, link.next_number, link.epoch, link.due,
           link.unsent, link.attempt, link.retries_spent, link.transients, link.transient_since,
           link.late_ack, link.suspended_since, link.suspended_for, link.suspended_detail,
           link.in_flight_id, flying.message_id, flying.sequence_number, flying.terms,
           flying.relays_id,
           head.id AS head_id, head.message_id AS head_message_id,
           head.sequence_number AS head_sequence_number, head.epoch AS head_epoch,
           head.earlier_attempts AS head_earlier_attempts,
           agreement.timeout, agreement.retries, agreement.retry_interval,
           agreement.transient_count_limit, agreement.transient_time_limit,
           agreement.transient_wait_limit, agreement.early_warning,
           clock_timestamp() AS now
"""
_LANE_TABLES = """
    msh_outboundlink link
    LEFT JOIN msh_outboundmessage flying ON flying.id = link.in_flight_id
    LEFT JOIN LATERAL (
        (SELECT id, message_id, agreement_id, sequence_number, epoch, earlier_attempts, 0 AS turn
         FROM msh_outboundmessage WHERE link_id = link.id AND state = 'rewound'
         ORDER BY epoch, sequence_number LIMIT 1)
        UNION ALL
        (SELECT id, message_id, agreement_id, sequence_number, epoch, earlier_attempts, 1
         FROM msh_outboundmessage
         WHERE link_id = link.id AND state = 'queued' AND semantics = 'OnceAndOnlyOnce'
         ORDER BY id LIMIT 1)
        ORDER BY turn LIMIT 1) head ON true
    LEFT JOIN partners_agreement agreement ON agreement.id = head.agreement_id
"""

# A statement of its own, after the lock: it must see what the lock's holder committed. Rewound
# messages go before the queue, in the order of their numbers.
LOAD_LANES = f"""
    SELECT {_LANE_COLUMNS} FROM {_LANE_TABLES}
    WHERE link.partner_id = ANY(%s) ORDER BY link.id
"""

# Whether the partner is as it was when it was found by this credential.
_AS_READ = f"""
    (SELECT {AS_READ}
     FROM partners_credential credential
     JOIN partners_partner partner ON partner.id = credential.partner_id
     LEFT JOIN partners_ownidentity own ON true
     WHERE credential.id = %s AND partner.id = link.partner_id) AS as_read
"""

READ_LANE = f"""
    SELECT {_LANE_COLUMNS}, link.xmin::text AS version, {_AS_READ},
           sent.state AS sent_state
    FROM {_LANE_TABLES}
    LEFT JOIN msh_outboundmessage sent ON sent.link_id = link.id AND sent.message_id = %s
    WHERE link.partner_id = %s
"""

# A partner as far as sending to it needs one, and who we are: see `route_of`.
_ROUTE_COLUMNS = """
    partner.id AS partner_id, partner.our_uri, partner.uri, partner.address,
    partner.error_address, partner.outgoing_kind, partner.outgoing_secret,
    own.msh_uri AS own_uri, own.error_uri AS own_error_uri
"""

LOAD_COPIES = f"""
    SELECT message.id, message.message_id, message.semantics, message.conversation_id,
           message.service_interface, message.action, message.ref_to_message_id,
           message.submitted_at, message.boundary, message.head, message.body_sha256,
           agreement.tpa_id, agreement.our_party, agreement.our_party_context,
           agreement.their_party, agreement.their_party_context,
           part.wires, part.content_ids, part.labels, part.descriptions,
           relayed.header AS relayed_header, {_ROUTE_COLUMNS}
    FROM msh_outboundmessage message
    JOIN partners_agreement agreement ON agreement.id = message.agreement_id
    JOIN partners_partner partner ON partner.id = agreement.partner_id
    LEFT JOIN partners_ownidentity own ON true
    LEFT JOIN msh_inboundmessage relayed
           ON relayed.id = message.relays_id AND message.head IS NULL
    LEFT JOIN LATERAL (
        SELECT array_agg(wire ORDER BY position) AS wires,
               array_agg(content_id ORDER BY position) AS content_ids,
               array_agg(label ORDER BY position) AS labels,
               array_agg(description ORDER BY position) AS descriptions
        FROM msh_outboundpayload WHERE message_id = message.id) part ON true
    WHERE message.id = ANY(%s)
    ORDER BY message.id
"""

FIND_SENT_MESSAGE = """
    SELECT message.id, message.message_id, message.state, message.outcome, message.relays_id
    FROM msh_outboundmessage message JOIN msh_outboundlink link ON link.id = message.link_id
    WHERE link.partner_id = %s AND message.message_id = %s
"""

WRITE_LANE = """
    UPDATE msh_outboundlink
    SET state = %s, next_number = %s, epoch = %s, in_flight_id = %s, due = %s, unsent = %s,
        attempt = %s, retries_spent = %s, transients = %s, transient_since = %s, late_ack = %s,
        suspended_since = %s, suspended_for = %s, suspended_detail = %s
    WHERE id = %s
"""

PUT_IN_FLIGHT = """
    UPDATE msh_outboundmessage
    SET state = 'in_flight', sequence_number = %s, epoch = %s, terms = %s WHERE id = %s
"""

COMPLETE_MESSAGE = """
    UPDATE msh_outboundmessage SET state = %s, completed_at = %s, due = NULL WHERE id = %s
"""

CANCEL_MESSAGE = """
    UPDATE msh_outboundmessage
    SET state = 'cancelled', completed_at = %s, outcome = %s,
        sequence_number = CASE WHEN %s THEN NULL ELSE sequence_number END
    WHERE id = %s
"""

# It was never accepted, so another head with another number makes no second message of it.
REQUEUE_MESSAGE = """
    UPDATE msh_outboundmessage
    SET state = 'queued', sequence_number = NULL, epoch = NULL, terms = NULL, head = NULL,
        body_sha256 = NULL, first_sent_at = NULL,
        earlier_attempts = COALESCE(
            (SELECT max(number) FROM msh_attempt WHERE message_id = msh_outboundmessage.id), 0)
    WHERE id = %s
"""

REWIND_MESSAGES = """
    WITH again AS (
        UPDATE msh_outboundmessage message
        SET state = 'rewound', completed_at = NULL, outcome = '',
            earlier_attempts = COALESCE(
                (SELECT max(number) FROM msh_attempt WHERE message_id = message.id), 0)
        FROM msh_outboundmessage before
        WHERE before.id = message.id AND message.link_id = %s
          AND (message.epoch, message.sequence_number) > (%s, %s)
          AND (message.state IN ('acknowledged', 'in_flight')
               OR (message.state = 'cancelled' AND message.outcome = 'received'))
        RETURNING message.message_id, before.state)
    INSERT INTO msh_history
        (at, actor, partner_id, direction, subject, message_id, event, from_state, to_state, detail)
    SELECT %s, %s, %s, 'out', 'message', message_id, 'SequenceRewound', state, 'rewound', %s
    FROM again
"""

NOTE_ON_INCIDENTS = """
    UPDATE msh_incident SET detail = detail || %s
    WHERE partner_id = %s AND direction = 'out' AND message_id = %s
"""

RECORD_LATE_VERDICT = "UPDATE msh_outboundmessage SET outcome = 'received' WHERE id = %s"

COUNT_DUPLICATE_ACK = """
    UPDATE msh_outboundmessage SET duplicate_acks = duplicate_acks + 1 WHERE id = %s
"""

COMPOSE_MESSAGE = """
    UPDATE msh_outboundmessage SET head = %s, body_sha256 = %s, first_sent_at = %s WHERE id = %s
"""

LEASE_BEST_EFFORT = """
    UPDATE msh_outboundmessage SET state = 'in_flight', due = %s WHERE id = %s
"""

CLAIM_ATTEMPT = """
    INSERT INTO msh_attempt (message_id, number, claimed_at) VALUES (%s, %s, %s)
"""

END_ATTEMPT = """
    UPDATE msh_attempt SET ended_at = %s, outcome = %s, status = %s, detail = %s, body_sent = %s
    WHERE message_id = %s AND number = %s
"""

WRITE_HISTORY = """
    INSERT INTO msh_history
        (at, actor, partner_id, direction, subject, message_id, event, from_state, to_state, detail)
    VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s)
"""

OPEN_INCIDENT = """
    INSERT INTO msh_incident (partner_id, direction, kind, message_id, detail, opened_at, last_at)
    VALUES (%s, %s, %s, %s, %s, %s, %s)
    ON CONFLICT (partner_id, direction, kind) WHERE resolved_at IS NULL
    DO UPDATE SET count = msh_incident.count + 1, last_at = EXCLUDED.last_at,
                  detail = EXCLUDED.detail
"""

RESOLVE_INCIDENTS = """
    UPDATE msh_incident SET resolved_at = %s, resolved_by = %s, resolution = %s
    WHERE partner_id = %s AND direction = 'out' AND resolved_at IS NULL
"""

NOTIFY_FROM_PARTY = """
    INSERT INTO msh_partyevent (event_id, message_id, kind, detail, at, due)
    VALUES (gen_random_uuid(), %s, %s, %s, %s, %s)
"""

# No row without a link in use, and none for a MessageId that is known.
SUBMIT_MESSAGE = f"""
    WITH message AS (
        INSERT INTO msh_outboundmessage
            (link_id, agreement_id, message_id, semantics, state, conversation_id,
             service_interface, action, ref_to_message_id, submitted_at, content_digest, size,
             boundary, relays_id)
        SELECT link.id, %s, %s, %s, 'queued', %s, %s, %s, %s, %s, %s, %s, %s,
               %s::bigint
        FROM msh_outboundlink link JOIN partners_partner partner ON partner.id = link.partner_id
        WHERE link.partner_id = %s AND partner.in_use
        ON CONFLICT (link_id, message_id) DO NOTHING
        RETURNING id, link_id),
    parts AS (
        INSERT INTO msh_outboundpayload
            (message_id, position, content_type, content_id, label, description, wire)
        SELECT message.id, part.*
        FROM message,
             unnest(%s::int[], %s::text[], %s::text[], %s::text[], %s::text[], %s::bytea[]) part),
    story AS ({_given(WRITE_HISTORY, "message")})
    SELECT id, link_id FROM message
"""

LOCK_INBOUND_LINK = "SELECT id FROM msh_inboundlink WHERE partner_id = %s FOR NO KEY UPDATE"

# D63: a party configured without context is compared by its text alone.
LOAD_INBOUND = f"""
    SELECT link.id, link.last_number, link.epoch, link.reset_allowed,
           link.xmin::text AS version, {_AS_READ},
           known.id AS known_id, known.content_digest AS known_digest,
           known.state AS known_state, route.id AS route_id,
           agreement.id AS agreement_id, agreement.on_unexpected_first,
           agreement.timeout + agreement.retries * agreement.retry_interval AS retry_horizon,
           clock_timestamp() AS now
    FROM msh_inboundlink link
    LEFT JOIN msh_inboundmessage known ON known.link_id = link.id AND known.message_id = %s
    LEFT JOIN partners_agreement agreement
           ON agreement.partner_id = link.partner_id AND agreement.tpa_id = %s
          AND agreement.their_party = %s AND agreement.their_party_context IN ('', %s)
          AND agreement.our_party = %s AND agreement.our_party_context IN ('', %s)
    LEFT JOIN LATERAL (
        SELECT id FROM partners_route
        WHERE to_party = agreement.our_party
          AND to_party_context IN ('', agreement.our_party_context)
        ORDER BY to_party_context DESC LIMIT 1) route ON true
    WHERE link.partner_id = %s
"""

_ACCEPTED = """
    message AS (
        INSERT INTO msh_inboundmessage
            (link_id, agreement_id, message_id, semantics, state, epoch, sequence_number,
             conversation_id, service_interface, action, ref_to_message_id, sent_at, received_at,
             content_digest, header)
        VALUES (%s, %s, %s, %s, 'accepted', %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)
        RETURNING id),
    parts AS (
        INSERT INTO msh_inboundpayload
            (message_id, position, content_type, content_id, label, description, content)
        SELECT message.id, part.*
        FROM message,
             unnest(%s::int[], %s::text[], %s::text[], %s::text[], %s::text[], %s::bytea[]) part)
"""
ACCEPT_MESSAGE = f"WITH {_ACCEPTED} SELECT id FROM message"

WRITE_LAST_NUMBER = """
    UPDATE msh_inboundlink
    SET last_number = %s, epoch = %s, reset_allowed = %s, last_message_id = %s WHERE id = %s
"""

COUNT_DUPLICATE = "UPDATE msh_inboundmessage SET duplicates = duplicates + 1 WHERE id = %s"

# One row per message: a flood of copies owes many signals and stays one row. While one of them is
# being carried, the next waits for it, but not for long: its worker may be dead.
OWE_SIGNAL = """
    INSERT INTO msh_signal
        (link_id, kind, ref_to_message_id, tpa_id, conversation_id, code, location, description,
         min_retry_secs, sequence_number, first_at, due, expires_at)
    VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)
    ON CONFLICT (link_id, kind, code, ref_to_message_id) DO UPDATE
    SET owed = msh_signal.owed + 1, expires_at = EXCLUDED.expires_at,
        description = EXCLUDED.description, min_retry_secs = EXCLUDED.min_retry_secs,
        sequence_number = EXCLUDED.sequence_number,
        due = CASE WHEN msh_signal.sending
                   THEN LEAST(msh_signal.due, EXCLUDED.due + interval '1 second')
                   ELSE EXCLUDED.due END
"""

# At most so many of a partner as it has free places, and none of a partner that has none.
LOCK_OWED_SIGNALS = f"""
    WITH owed AS (
        SELECT signal.id, link_id, due
        FROM msh_signal signal JOIN msh_inboundlink link ON link.id = signal.link_id
        WHERE owed > 0 AND due <= statement_timestamp() AND link.partner_id <> ALL(%s)
        ORDER BY due LIMIT 1000),
    candidate AS (
        SELECT id, row_number() OVER (PARTITION BY link_id ORDER BY due) AS place FROM owed)
    SELECT signal.id, signal.kind, signal.ref_to_message_id, signal.tpa_id,
           signal.conversation_id, signal.code, signal.location, signal.description,
           signal.min_retry_secs, signal.content_type, signal.body, {_ROUTE_COLUMNS},
           EXISTS (
               SELECT FROM msh_inboundmessage message
               WHERE message.link_id = signal.link_id AND message.state = 'routed'
                 AND message.message_id = signal.ref_to_message_id) AS routed
    FROM msh_signal signal
    JOIN candidate ON candidate.id = signal.id
    JOIN msh_inboundlink link ON link.id = signal.link_id
    JOIN partners_partner partner ON partner.id = link.partner_id
    LEFT JOIN partners_ownidentity own ON true
    WHERE place <= %s AND owed > 0 AND due <= statement_timestamp()
    LIMIT %s
    FOR NO KEY UPDATE OF signal SKIP LOCKED
"""

CLAIM_SIGNAL = """
    UPDATE msh_signal
    SET sending = true, tries = tries + 1, due = %s, content_type = %s, body = %s WHERE id = %s
"""

SIGNAL_CARRIED = """
    UPDATE msh_signal
    SET owed = GREATEST(owed - 1, 0), carried = carried + 1, sending = false, tries = 0,
        due = statement_timestamp(), body = NULL, last_status = %s, last_detail = %s
    WHERE id = %s AND sending
"""

# Back-off doubles from a second to a minute, until the horizon is over.
SIGNAL_FAILED = """
    UPDATE msh_signal
    SET sending = false,
        due = statement_timestamp() + interval '1 second' * LEAST(60, 2 ^ LEAST(tries - 1, 10)),
        owed = CASE WHEN expires_at < statement_timestamp() THEN 0 ELSE owed END,
        body = CASE WHEN expires_at < statement_timestamp() THEN NULL ELSE body END,
        last_status = %s, last_detail = %s
    WHERE id = %s
"""

SIGNAL_REFUSED = """
    UPDATE msh_signal
    SET sending = false, owed = 0, body = NULL, last_status = %s, last_detail = %s
    WHERE id = %s
"""

LOCK_BEST_EFFORT = """
    WITH candidate AS (
        SELECT message.id, row_number() OVER (PARTITION BY link_id ORDER BY message.id) AS place
        FROM msh_outboundmessage message JOIN msh_outboundlink link ON link.id = message.link_id
        WHERE message.semantics = 'BestEffort' AND message.state = 'queued'
          AND link.state IN ('idle', 'waiting') AND link.partner_id <> ALL(%s)
        ORDER BY message.id LIMIT 1000)
    SELECT message.id FROM msh_outboundmessage message
    JOIN candidate ON candidate.id = message.id
    WHERE place <= %s AND message.state = 'queued'
    ORDER BY message.id LIMIT %s
    FOR NO KEY UPDATE OF message SKIP LOCKED
"""

LOCK_LOST_BEST_EFFORT = """
    SELECT message.id, message.message_id, link.partner_id
    FROM msh_outboundmessage message JOIN msh_outboundlink link ON link.id = message.link_id
    WHERE message.semantics = 'BestEffort' AND message.state = 'in_flight'
      AND message.due <= statement_timestamp()
    LIMIT %s
    FOR NO KEY UPDATE OF message SKIP LOCKED
"""

LOCK_BEST_EFFORT_IN_FLIGHT = """
    SELECT message.id FROM msh_outboundmessage message
    WHERE message.id = ANY(%s) AND message.state = 'in_flight' AND semantics = 'BestEffort'
    ORDER BY id FOR NO KEY UPDATE
"""


def _together(*statements: str) -> str:
    """One statement that does the same. No two of them may write the same row."""
    named = (f"step_{number} AS ({text})" for number, text in enumerate(statements))
    return f"WITH {', '.join(named)} SELECT"


def _if_unchanged(update: str, *statements: str) -> str:
    """One statement that does all of them if `update` finds its row in the version given, or else
    nothing. Returns a row if it did.

    The parameters of `update` come first, and after them the version. Who changes without this
    row what was decided by must write the row nevertheless: see docs/decisions.
    """
    done = ", ".join(
        f"step_{number} AS ({_given(text, 'guard')})" for number, text in enumerate(statements)
    )
    return f"WITH guard AS ({update} AND xmin = %s RETURNING id), {done} SELECT id FROM guard"


_STEPS = [
    (COMPLETE_MESSAGE, PUT_IN_FLIGHT, WRITE_LANE, NOTIFY_FROM_PARTY, WRITE_HISTORY, WRITE_HISTORY),
    (COMPLETE_MESSAGE, WRITE_LANE, NOTIFY_FROM_PARTY, WRITE_HISTORY),
    (COMPOSE_MESSAGE, WRITE_LANE, CLAIM_ATTEMPT),
    (WRITE_LANE, CLAIM_ATTEMPT),
    (WRITE_LANE, END_ATTEMPT),
    (SIGNAL_CARRIED, WRITE_HISTORY),
]
_ACK_STEPS = [
    (COMPLETE_MESSAGE, PUT_IN_FLIGHT, NOTIFY_FROM_PARTY, WRITE_HISTORY, WRITE_HISTORY),
    (COMPLETE_MESSAGE, NOTIFY_FROM_PARTY, WRITE_HISTORY),
]

IF_UNCHANGED = {steps: _if_unchanged(WRITE_LANE, *steps) for steps in _ACK_STEPS}
"""What comes with every Ack, as one statement for a lane that was read without a lock."""

TOGETHER = {steps: _together(*steps) for steps in _STEPS}
"""What is written again and again, as one statement each: the server reads and runs one."""

ACCEPT_IF_UNCHANGED = f"""
    WITH guard AS ({WRITE_LAST_NUMBER} AND xmin = %s RETURNING id),
         {_given(_ACCEPTED, "guard")},
         story AS ({_given(WRITE_HISTORY, "guard")}),
         signal AS ({_given(OWE_SIGNAL, "guard")})
    SELECT id FROM guard
"""
