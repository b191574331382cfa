"""Flights: found and written."""

from msh.store import incidents
from msh.store.channel_columns import CHANNEL_OF_MESSAGE, terms
from msh.store.engine import Key, Order, Statement, Write
from msh.store.partner_columns import ROUTE_COLUMNS
from msh.store.sending.submission_sql import ONE_PART, PARTS, inserting

from .rows import Candidate, ClockAndFlights, FlightRow, FlyingCopy, FoundFlight, LastFailure

# Asked with the poll of links: where there are no flights they cost no statement of their own.
CLOCK_AND_FLIGHTS = Statement(
    """
    SELECT clock_timestamp() AS now,
           EXISTS (SELECT FROM msh_flight ORDER BY message_id DESC LIMIT 1) AS has_flights
    """,
    ClockAndFlights,
)

# The flight is ready at once. One that is sent in order waits for its turn.
_FLIGHT = f"""
    flight AS (
        INSERT INTO msh_flight (message_id, link_id, due, waits_turn)
        SELECT message.id, link_id, submitted_at, {terms("ordered")}
        FROM message JOIN partners_agreement agreement ON agreement.id = %(agreement_id)s
        {CHANNEL_OF_MESSAGE}),
"""
INSERT = inserting("'flying'", PARTS, _FLIGHT)
INSERT_WITH_ONE_PART = inserting("'flying'", ONE_PART, _FLIGHT)

_COLUMNS = f"""
    message.id, link.partner_id, message.message_id, message.size,
    message.state AS message_state, message.terms,
    message.first_sent_at, message.order_number,
    {terms("retries", "retry_interval", "time_to_live", "persist_duration")},
    agreement.transient_wait_limit, agreement.early_warning, agreement.on_failure,
    flight.state, flight.attempt, flight.copies, flight.under_way, flight.carried, flight.reached,
    flight.unreached, flight.due, flight.expires_at, flight.persists_until, flight.held_for,
    flight.unsent,
    COALESCE(flight.waits_turn, false) AS waits_turn,
    COALESCE(flight.ordered_in_id, CASE WHEN message.order_number IS NOT NULL THEN (
        SELECT id FROM msh_outboundconversation
        WHERE agreement_id = message.agreement_id AND conversation_id = message.conversation_id)
        END) AS ordered_in_id,
    CASE WHEN flight.message_id IS NULL AND message.order_number IS NOT NULL THEN (
        SELECT max(number) FROM msh_attempt WHERE message_id = message.id) END AS last_attempt,
    clock_timestamp() AS now
"""
_OF_FLIGHT = f"""
    JOIN msh_outboundmessage message ON message.id = flight.message_id
    JOIN msh_outboundlink link ON link.id = message.link_id
    JOIN partners_agreement agreement ON agreement.id = message.agreement_id
    {CHANNEL_OF_MESSAGE}
"""
# Those whose attempts have ended: waited for.
LOCK_ENDED = Statement(
    f"""
    SELECT {_COLUMNS}
    FROM (SELECT * FROM msh_flight WHERE message_id = ANY(%(keys)s)
          ORDER BY message_id FOR NO KEY UPDATE) flight {_OF_FLIGHT}
    """,
    FlightRow,
)

# Found by the two indexes of times, over all links: with the links in the condition all flights of
# a long queue would be read.
LOCK_TIMED = Statement(
    f"""
    SELECT {_COLUMNS}
    FROM (SELECT * FROM msh_flight
          WHERE message_id = ANY(ARRAY(
              (SELECT message_id FROM msh_flight
               WHERE state = 'waiting' AND due <= statement_timestamp()
               ORDER BY due LIMIT %(limit)s)
              UNION ALL
              (SELECT message_id FROM msh_flight
               WHERE ends_at <= statement_timestamp()
               ORDER BY ends_at LIMIT %(limit)s)))
            AND link_id = ANY(%(link_ids)s)
            AND (state = 'waiting' AND due <= statement_timestamp()
                 OR ends_at <= statement_timestamp())
          ORDER BY message_id FOR NO KEY UPDATE SKIP LOCKED) flight {_OF_FLIGHT}
    """,
    FlightRow,
)

# Of each link no more than it has slots for.
LOCK_READY = Statement(
    f"""
    SELECT {_COLUMNS}
    FROM unnest(%(link_ids)s::bigint[]) AS of (link_id) CROSS JOIN LATERAL (
        SELECT * FROM msh_flight
        WHERE link_id = of.link_id AND state = 'ready' AND NOT waits_turn
        ORDER BY under_way DESC, message_id LIMIT %(of_partner)s
        FOR NO KEY UPDATE SKIP LOCKED) flight {_OF_FLIGHT}
    """,
    FlightRow,
)

# The oldest without a number, of conversations of which one may start: what waits in the others
# costs nothing. Behind the first of a conversation only one that has begun lets others start.
LOCK_HEADS = Statement(
    f"""
    WITH starting AS (
        SELECT conversation.id, conversation.state
        FROM unnest(%(link_ids)s::bigint[]) AS of (link_id) CROSS JOIN LATERAL (
            SELECT id, state FROM msh_outboundconversation
            WHERE link_id = of.link_id AND state IN ('beginning', 'running') AND head IS NOT NULL
            ORDER BY head LIMIT %(of_partner)s) conversation),
    first AS (
        SELECT next.message_id
        FROM starting CROSS JOIN LATERAL (
            SELECT ordered_in_id, message_id FROM msh_flight
            WHERE ordered_in_id IS NOT NULL
              AND (ordered_in_id, waits_turn, message_id) >= (starting.id, true, 0)
            ORDER BY ordered_in_id, waits_turn, message_id
            LIMIT CASE starting.state WHEN 'beginning' THEN 1 ELSE %(of_partner)s END) next
        WHERE next.ordered_in_id = starting.id)
    SELECT {_COLUMNS}
    FROM (SELECT * FROM msh_flight
          WHERE waits_turn AND state = 'ready'
            AND message_id = ANY(ARRAY(SELECT message_id FROM first))
          ORDER BY message_id FOR NO KEY UPDATE SKIP LOCKED) flight {_OF_FLIGHT}
    """,
    FlightRow,
)

# Nothing of it is decoded: for a round that is done again one by one.
FIND_CANDIDATES = Statement(
    """
    SELECT flight.message_id AS key, message.message_id, link.partner_id
    FROM msh_flight flight
    JOIN msh_outboundmessage message ON message.id = flight.message_id
    JOIN msh_outboundlink link ON link.id = flight.link_id
    LEFT JOIN msh_outboundconversation conversation
      ON conversation.id = flight.ordered_in_id AND conversation.head = flight.message_id
    WHERE (flight.state = 'ready' AND link.state <> 'suspended'
           AND (NOT flight.waits_turn OR conversation.state IN ('beginning', 'running'))
        OR flight.state = 'waiting' AND flight.due <= statement_timestamp()
        OR flight.ends_at <= statement_timestamp())
    ORDER BY flight.message_id LIMIT %(limit)s
    """,
    Candidate,
)

# The message without its flight too, which may have ended. Locked in the order flight, message; the
# link before them, which the condition asks for before any row is found.
LOCK_ONE = Statement(
    """
    WITH gate AS MATERIALIZED (
        SELECT id FROM msh_outboundlink
        WHERE partner_id = %(partner_id)s AND (%(refused)s OR refusals > 0)
        FOR NO KEY UPDATE)
    SELECT message_id AS id, (SELECT id FROM gate) AS gate
    FROM msh_flight WHERE (SELECT count(*) FROM gate) >= 0 AND message_id = (
        SELECT message.id FROM msh_outboundmessage message
        JOIN msh_outboundlink link ON link.id = message.link_id
        WHERE link.partner_id = %(partner_id)s AND message.message_id = %(message_id)s)
    FOR NO KEY UPDATE OF msh_flight
    """,
    FoundFlight,
)
LOAD_ONE = Statement(
    f"""
    SELECT {_COLUMNS}
    FROM msh_outboundlink link
    JOIN msh_outboundmessage message
      ON message.link_id = link.id AND message.message_id = %(message_id)s
    JOIN partners_agreement agreement ON agreement.id = message.agreement_id
    {CHANNEL_OF_MESSAGE}
    LEFT JOIN msh_flight flight ON flight.message_id = message.id
    WHERE link.partner_id = %(partner_id)s
      AND (%(agreement_id)s::bigint IS NULL OR message.agreement_id = %(agreement_id)s)
      AND agreement.dialect <> 'trp' AND message.semantics <> 'BestEffort'
    FOR NO KEY UPDATE OF message
    """,
    FlightRow,
)

_READ = f"""
    SELECT {_COLUMNS}
    FROM msh_outboundmessage message
    JOIN msh_outboundlink link ON link.id = message.link_id
    JOIN partners_agreement agreement ON agreement.id = message.agreement_id
    {CHANNEL_OF_MESSAGE}
    LEFT JOIN msh_flight flight ON flight.message_id = message.id
    WHERE message.id = ANY(%(keys)s)
"""
# For those who look only, at messages that fly or flew.
READ = Statement(_READ, FlightRow)

# For operators: the flights first, then the messages, also those whose flight has ended.
LOCK_NAMED = Statement(
    """
    SELECT message_id AS id FROM msh_flight WHERE message_id = ANY(%(keys)s)
    ORDER BY message_id FOR NO KEY UPDATE
    """,
    Key,
)
LOAD_NAMED = Statement(
    f"""
    {_READ} AND agreement.dialect <> 'trp' AND message.semantics <> 'BestEffort'
    ORDER BY message.id FOR NO KEY UPDATE OF message
    """,
    FlightRow,
)

LOAD_COPIES = Statement(
    f"""
    SELECT message.id, message.message_id, message.semantics, message.conversation_id,
           message.service_interface, message.action, message.ref_to_message_id,
           message.boundary, message.head, message.body_sha256,
           agreement.id AS agreement_id, agreement.dialect, agreement.tpa_id, agreement.our_party,
           agreement.our_party_context, agreement.their_party, agreement.their_party_context,
           message.from_role AS our_role, message.to_role AS their_role, message.service_type,
           {terms("ack", "ack_actor", "eliminates", "sync_reply", "soap_action")},
           {terms("signed", "ack_signed", "signature_method", "encrypted")},
           channel.address AS channel_address,
           agreement.encryption_method,
           COALESCE(NULLIF(agreement.encryption_certificate, ''), agreement.certificate)
               AS encryption_certificate,
           part.wires, part.sealed, part.content_ids, part.content_types, part.labels,
           part.descriptions, {ROUTE_COLUMNS}
    FROM msh_outboundmessage message
    JOIN partners_agreement agreement ON agreement.id = message.agreement_id
    {CHANNEL_OF_MESSAGE}
    JOIN partners_partner partner ON partner.id = agreement.partner_id
    LEFT JOIN partners_ownidentity own ON true
    LEFT JOIN LATERAL (
        SELECT array_agg(wire ORDER BY position) AS wires,
               array_agg(encrypted ORDER BY position) FILTER (WHERE encrypted IS NOT NULL)
                   AS sealed,
               array_agg(content_id ORDER BY position) AS content_ids,
               array_agg(content_type ORDER BY position) AS content_types,
               array_agg(label ORDER BY position) AS labels,
               array_agg(description ORDER BY position) AS descriptions
        FROM msh_outboundpayload WHERE message_id = message.id) part ON true
    WHERE message.id = ANY(%(keys)s)
    ORDER BY message.id
    """,
    FlyingCopy,
    binary=True,
)

# Nothing if the partner took the last copy.
LAST_FAILURE = Statement(
    """
    SELECT detail, reason FROM (
        SELECT detail, reason, outcome FROM msh_attempt WHERE message_id = %(key)s
        ORDER BY number DESC LIMIT 1) last
    WHERE outcome IN ('failed', 'doubted')
    """,
    LastFailure,
)

WRITE = Write(
    """
    UPDATE msh_flight
    SET state = %(state)s, attempt = %(attempt)s, copies = %(copies)s, under_way = %(under_way)s,
        carried = %(carried)s, reached = %(reached)s, unreached = %(unreached)s, due = %(due)s,
        expires_at = %(expires_at)s, persists_until = %(persists_until)s, ends_at = %(ends_at)s,
        held_for = %(held_for)s, number = %(number)s, unsent = %(unsent)s,
        waits_turn = waits_turn AND %(number)s::int IS NULL
    WHERE message_id = %(key)s
    """,
    order=Order.FLIGHT,
    many=Write(
        """
    UPDATE msh_flight flight
    SET state = one.state, attempt = one.attempt, copies = one.copies, under_way = one.under_way,
        carried = one.carried, reached = one.reached, unreached = one.unreached, due = one.due,
        expires_at = one.expires_at, persists_until = one.persists_until, ends_at = one.ends_at,
        held_for = one.held_for, number = one.number, unsent = one.unsent,
        waits_turn = flight.waits_turn AND one.number IS NULL
    FROM json_to_recordset(%(rows)s::json) AS one (
        key bigint, state text, attempt int, copies int, under_way bool, carried bool, reached bool,
        unreached int, due timestamptz, expires_at timestamptz, persists_until timestamptz,
        ends_at timestamptz, held_for text, number int, unsent int)
    WHERE flight.message_id = one.key
    """,
        order=Order.FLIGHT,
    ),
)

# For a failed message that still blocks its conversation.
INSERT_AGAIN = Write(
    """
    INSERT INTO msh_flight
        (message_id, link_id, state, attempt, copies, under_way, carried, reached, unreached, due,
         expires_at, persists_until, ends_at, held_for, ordered_in_id, number, unsent)
    VALUES (%(key)s, (SELECT link_id FROM msh_outboundmessage WHERE id = %(key)s), %(state)s,
            %(attempt)s, %(copies)s, %(under_way)s, %(carried)s, %(reached)s, %(unreached)s,
            %(due)s, %(expires_at)s, %(persists_until)s, %(ends_at)s, %(held_for)s,
            %(ordered_in_id)s, %(number)s, %(unsent)s)
    """,
    order=Order.FLIGHT,
)
REVIVE_MESSAGE = Write(
    "UPDATE msh_outboundmessage SET state = 'flying', completed_at = NULL WHERE id = %(key)s",
    order=Order.MESSAGE_AFTER_LINK,
)

REMOVE = Write(
    "DELETE FROM msh_flight WHERE message_id = %(key)s",
    order=Order.FLIGHT,
    many=Write(
        """
    DELETE FROM msh_flight USING json_to_recordset(%(rows)s::json) AS one (key bigint)
    WHERE message_id = one.key
    """,
        order=Order.FLIGHT,
    ),
)

COMPOSE = Write(
    """
    UPDATE msh_outboundmessage
    SET head = %(head)s, body_sha256 = %(body_sha256)s, first_sent_at = %(at)s, terms = %(terms)s
    WHERE id = %(key)s
    """,
    order=Order.MESSAGE_AFTER_LINK,
)

END_MESSAGE = Write(
    """
    UPDATE msh_outboundmessage
    SET state = %(state)s, completed_at = %(at)s, outcome = %(outcome)s,
        terms = COALESCE(terms, %(terms)s)
    WHERE id = %(key)s
    """,
    order=Order.MESSAGE_AFTER_LINK,
    many=Write(
        """
    UPDATE msh_outboundmessage message
    SET state = one.state, completed_at = one.at, outcome = one.outcome,
        terms = COALESCE(message.terms, one.terms::jsonb)
    FROM json_to_recordset(%(rows)s::json)
         AS one (key bigint, state text, outcome text, at timestamptz, terms text)
    WHERE message.id = one.key
    """,
        order=Order.MESSAGE_AFTER_LINK,
    ),
)

# One incident counts those of several messages: it stays open while others are among them, held, or
# failed and not submitted again. The flight, its message or its copy was written before.
_RESOLVE = """
    UPDATE msh_incident
    SET resolved_at = done.at, resolved_by = done.actor, resolution = done.resolution
    FROM ({0}) done
    WHERE msh_incident.partner_id = done.partner_id AND direction = 'out' AND resolved_at IS NULL
      AND kind NOT IN ('conversation_stopped', 'went_ahead_alone') {1}
      AND (message_id = ANY({2}) AND count = 1
           OR kind IN ('retries_spent', 'processing_failed', 'refused_by_peer', 'error_received',
                       'message_expired')
              AND NOT EXISTS (
                  SELECT FROM msh_outboundlink link
                  JOIN msh_flight flight ON flight.link_id = link.id AND flight.state = 'held'
                  WHERE link.partner_id = done.partner_id AND flight.held_for = msh_incident.kind)
              AND NOT EXISTS (
                  SELECT FROM msh_outboundlink link
                  JOIN msh_outboundmessage failed
                    ON failed.link_id = link.id AND failed.state = 'failed'
                  WHERE link.partner_id = done.partner_id
                    AND (failed.semantics = 'OnceAndOnlyOnce' OR kind = 'error_received')
                    AND failed.completed_at >= msh_incident.opened_at - interval '10 seconds'
                    AND NOT EXISTS (SELECT FROM msh_outboundmessage copy
                                    WHERE copy.corrects_id = failed.id)))
"""
# Those of several partners are locked in one order.
_IN_ORDER = """
    AND msh_incident.id = ANY(ARRAY(
        SELECT id FROM msh_incident
        WHERE partner_id IN (
            SELECT one.partner_id
            FROM json_to_recordset(%(rows)s::json) AS one (partner_id bigint))
          AND direction = 'out' AND resolved_at IS NULL
          AND kind NOT IN ('conversation_stopped', 'went_ahead_alone')
        ORDER BY partner_id, kind FOR NO KEY UPDATE))
"""
_OF_PARTNER = """ARRAY(
    SELECT message_id
    FROM json_to_recordset(%(rows)s::json) AS one (partner_id bigint, message_id text)
    WHERE one.partner_id = done.partner_id)
"""
RESOLVE_OF_MESSAGE = Write(
    _RESOLVE.format(incidents.DONE, "", "ARRAY[%(message_id)s::text]"),
    order=Order.INCIDENT,
    many=Write(_RESOLVE.format(incidents.DONE_MANY, _IN_ORDER, _OF_PARTNER), order=Order.INCIDENT),
)
