"""Outbound messages and their attempts."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar

from msh.store.engine import Order, Statement, Write
from msh.store.history import insert_one
from msh.store.partner_columns import PARTNER_AS_READ, ROUTE_COLUMNS, RouteColumns

from .queue_sql import HEAD, QUEUE_OF_LINK, TERMS, VERSION_OF_NEXT

LARGE = 256 * 1024
"""Bytes of payload of a large message. What has fewer is bounded by the number of slots: large
messages to partners that are slow are not to keep it waiting."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyRow(RouteColumns):
    """A message as far as a copy of it needs it. `head` is None until the first copy is composed,
    `forwarded_header` is the header document of the message that is forwarded as this one."""

    id: int
    message_id: str
    semantics: str
    conversation_id: str
    service_interface: str
    action: str
    ref_to_message_id: str
    submitted_at: datetime
    boundary: str
    head: bytes | None
    body_sha256: bytes | None
    tpa_id: str
    our_party: str
    our_party_context: str
    their_party: str
    their_party_context: str
    wires: Sequence[bytes] | None
    sealed: ClassVar[None] = None
    """What has a stored head here is not encrypted: a BestEffort message has one copy."""
    content_ids: Sequence[str] | None
    labels: Sequence[str] | None
    descriptions: Sequence[str] | None
    forwarded_header: bytes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PromisedCopy(CopyRow):
    """A copy that was promised as this attempt. `seconds_left`: until others may claim it."""

    attempt: int
    seconds_left: float


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowingCopy(CopyRow):
    """A copy of a message that is queued while another is in flight, with the terms of its
    agreement. `version`: of the rows of message and agreement; `as_read`: of the partner."""

    as_read: str | None
    version: str
    size: int
    earlier_attempts: int
    forwards_id: int | None
    timeout: int
    retries: int
    retry_interval: int
    transient_count_limit: int
    transient_time_limit: int
    transient_wait_limit: int
    early_warning: int


@dataclass(frozen=True, slots=True)
class SentMessage:
    """A message of ours that a signal refers to."""

    id: int
    message_id: str
    state: str
    outcome: str
    forwards_id: int | None


@dataclass(frozen=True, slots=True)
class MessageOfLink:
    """A message to this partner. `flies`: it has a flight, or had one until it ended."""

    id: int
    partner_id: int
    flies: bool


@dataclass(frozen=True, slots=True)
class LockedMessage:
    """A message of ours that this transaction has locked."""

    id: int
    message_id: str
    state: str
    sequence_number: int | None
    partner_id: int


COPIES = f"""
    SELECT message.id, message.message_id, message.semantics, message.conversation_id,
           message.service_interface, message.action, message.ref_to_message_id,
           message.submitted_at, message.boundary, message.head, message.body_sha256,
           agreement.tpa_id, agreement.our_party, agreement.our_party_context,
           agreement.their_party, agreement.their_party_context,
           part.wires, part.content_ids, part.labels, part.descriptions,
           forwarded.header AS forwarded_header, {{2}} {ROUTE_COLUMNS}
    FROM {{0}}
    JOIN partners_agreement agreement ON agreement.id = message.agreement_id
    JOIN partners_partner partner ON partner.id = agreement.partner_id
    LEFT JOIN partners_ownidentity own ON true
    LEFT JOIN msh_inboundmessage forwarded
           ON forwarded.id = message.forwards_id AND message.head IS NULL
    LEFT JOIN LATERAL (
        SELECT array_agg(wire ORDER BY position) AS wires,
               array_agg(content_id ORDER BY position) AS content_ids,
               array_agg(content_type ORDER BY position) AS content_types,
               array_agg(label ORDER BY position) AS labels,
               array_agg(description ORDER BY position) AS descriptions
        FROM msh_outboundpayload WHERE message_id = message.id) part ON true
    WHERE {{1}}
    ORDER BY message.id
"""
LOAD_COPIES = Statement(
    COPIES.format("msh_outboundmessage message", "message.id = ANY(%(ids)s)", ""),
    CopyRow,
    binary=True,
)

# What these links are likely to send now, read with them: the message in flight that was not sent,
# or the head of the queue. Large messages are read when they have a slot.
LOAD_NEXT_COPIES = Statement(
    COPIES.format(
        f"""
        msh_outboundlink link
        LEFT JOIN LATERAL ({HEAD.format("id")}) head ON link.state = 'idle'
        JOIN msh_outboundmessage message
          ON message.id = CASE WHEN link.unsent THEN link.in_flight_id ELSE head.id END
        """,
        "link.partner_id = ANY(%(partner_ids)s) AND message.size < %(large)s",
        "",
    ),
    CopyRow,
    binary=True,
)

# The queue while another message is in flight: what the Acknowledgement of that one has sent next,
# and after that those that have, with all before them, no more than so many bytes. Not what is
# rewound, which is composed already.
LOAD_FOLLOWING = Statement(
    COPIES.format(
        f"""
        msh_outboundlink link
        JOIN LATERAL (
            SELECT id, row_number() OVER (ORDER BY id) AS place,
                   sum(size) OVER (ORDER BY id) AS bytes
            FROM (
                SELECT id, size FROM msh_outboundmessage WHERE {QUEUE_OF_LINK}
                LIMIT %(limit)s) first) queue ON true
        JOIN msh_outboundmessage message ON message.id = queue.id
        """,
        """link.partner_id = %(partner_id)s AND message.head IS NULL AND message.size < %(large)s
        AND (place = 1 OR bytes <= %(bytes)s)""",
        f"""{PARTNER_AS_READ}, {VERSION_OF_NEXT} AS version, message.size,
        message.earlier_attempts, message.forwards_id, {TERMS},""",
    ),
    FollowingCopy,
    binary=True,
)

# Nothing is locked: until `due` no worker but the one that the wake-up has named sends it. In the
# last tenth of that second a POST would hardly begin before another has claimed the copy.
READ_PROMISED = Statement(
    COPIES.format(
        """
        unnest(%(partner_ids)s::bigint[], %(keys)s::bigint[], %(attempts)s::int[])
            AS asked (partner_id, key, attempt)
        JOIN msh_outboundlink link ON link.partner_id = asked.partner_id
        JOIN msh_outboundmessage message ON message.id = link.in_flight_id
        """,
        """link.promised AND link.in_flight_id = asked.key AND link.attempt = asked.attempt
        AND link.due > statement_timestamp() + interval '0.1 second'""",
        """link.attempt,
        EXTRACT(EPOCH FROM link.due - clock_timestamp())::float8 AS seconds_left,""",
    ),
    PromisedCopy,
    binary=True,
)

FIND_SENT = Statement(
    """
    SELECT message.id, message.message_id, message.state, message.outcome, message.forwards_id
    FROM msh_outboundmessage message JOIN msh_outboundlink link ON link.id = message.link_id
    WHERE link.partner_id = %(partner_id)s AND message.message_id = %(message_id)s
    """,
    SentMessage,
)

# Whatever becomes of them, these messages, in the order of their ids.
LOCK = Statement(
    """
    SELECT message.id, message.message_id, message.state, message.sequence_number, link.partner_id
    FROM msh_outboundmessage message JOIN msh_outboundlink link ON link.id = message.link_id
    WHERE message.id = ANY(%(keys)s) ORDER BY message.id FOR NO KEY UPDATE OF message
    """,
    LockedMessage,
)
FIND_LINKS = Statement(
    """
    SELECT message.id, link.partner_id,
           agreement.dialect <> 'trp' AND message.semantics <> 'BestEffort' AS flies
    FROM msh_outboundmessage message
    JOIN msh_outboundlink link ON link.id = message.link_id
    JOIN partners_agreement agreement ON agreement.id = message.agreement_id
    WHERE message.id = ANY(%(keys)s)
    """,
    MessageOfLink,
)

PUT_IN_FLIGHT = Write("""
    UPDATE msh_outboundmessage
    SET state = 'in_flight', sequence_number = %(sequence_number)s, epoch = %(epoch)s,
        terms = %(terms)s
    WHERE id = %(key)s
""")

COMPLETE = Write("""
    UPDATE msh_outboundmessage SET state = %(state)s, completed_at = %(at)s, due = NULL
    WHERE id = %(key)s
""")

CANCEL = Write(
    """
    UPDATE msh_outboundmessage
    SET state = 'cancelled', completed_at = %(at)s, outcome = %(outcome)s,
        sequence_number = CASE WHEN %(free_number)s THEN NULL ELSE sequence_number END
    WHERE id = %(key)s
""",
    many=Write("""
    UPDATE msh_outboundmessage message
    SET state = 'cancelled', completed_at = one.at, outcome = one.outcome,
        sequence_number = CASE WHEN one.free_number THEN NULL ELSE sequence_number END
    FROM json_to_recordset(%(rows)s::json)
         AS one (key bigint, at timestamptz, outcome text, free_number bool)
    WHERE message.id = one.key
"""),
)

# It was never accepted, so another head with another number makes no second message of it.
REQUEUE = Write(
    """
    UPDATE msh_outboundmessage
    SET state = 'queued', sequence_number = NULL, epoch = NULL, terms = NULL, head = NULL,
        body_sha256 = NULL, first_sent_at = NULL,
        earlier_attempts = COALESCE(
            (SELECT max(number) FROM msh_attempt WHERE message_id = msh_outboundmessage.id), 0)
    WHERE id = %(key)s
""",
    order=Order.MESSAGE_AFTER_LINK,
)

_SEQUENCE_REWOUND = insert_one(
    at="%(at)s",
    actor="%(actor)s",
    partner_id="%(partner_id)s",
    direction="'out'",
    message_id="message_id",
    event="'SequenceRewound'",
    from_state="state",
    to_state="'rewound'",
    detail="%(reason)s",
)
REWIND = Write(
    f"""
    WITH again AS (
        UPDATE msh_outboundmessage message
        SET state = 'rewound', completed_at = NULL, outcome = '',
            earlier_attempts = COALESCE(
                (SELECT max(number) FROM msh_attempt WHERE message_id = message.id), 0)
        FROM msh_outboundmessage before
        WHERE before.id = message.id AND message.link_id = %(link_id)s
          AND (message.epoch, message.sequence_number) > (%(epoch)s, %(sequence_number)s)
          AND (message.state IN ('acknowledged', 'in_flight')
               OR (message.state = 'cancelled' AND message.outcome = 'received'))
        RETURNING message.message_id, before.state)
    {_SEQUENCE_REWOUND} FROM again
""",
    order=Order.MESSAGE_AFTER_LINK,
)

RECORD_LATE_VERDICT = Write("""
    UPDATE msh_outboundmessage SET outcome = 'received' WHERE id = %(key)s
""")

COUNT_DUPLICATE_ACK = Write("""
    UPDATE msh_outboundmessage SET duplicate_acks = duplicate_acks + 1 WHERE id = %(key)s
""")

STORE_HEAD = Write("""
    UPDATE msh_outboundmessage
    SET head = %(head)s, body_sha256 = %(body_sha256)s, first_sent_at = %(at)s
    WHERE id = %(key)s
""")

SEAL = Write(
    """
    UPDATE msh_outboundpayload part SET encrypted = sealed.part
    FROM unnest(%(parts)b::bytea[]) WITH ORDINALITY sealed (part, position)
    WHERE part.message_id = %(key)s AND part.position = sealed.position
""",
    order=Order.MESSAGE_AFTER_LINK,
)

INSERT_ATTEMPT = Write(
    """
    INSERT INTO msh_attempt (message_id, number, claimed_at)
    VALUES (%(key)s, %(number)s, %(at)s)
""",
    order=Order.ATTEMPT,
)

# Of messages that are complete, so that nothing depends on it: neither links nor messages are read.
END_ATTEMPTS = Write(
    """
    UPDATE msh_attempt attempt
    SET ended_at = statement_timestamp(), outcome = 'transmitted', status = ended.status,
        detail = ended.detail, reason = ended.reason, body_sent = true
    FROM unnest(%(keys)s::bigint[], %(attempts)s::int[], %(statuses)s::int[], %(details)s::text[],
                %(reasons)s::text[])
         AS ended (key, attempt, status, detail, reason)
    WHERE attempt.message_id = ended.key AND attempt.number = ended.attempt
""",
    order=Order.ATTEMPT,
)

END_ATTEMPT = Write(
    """
    UPDATE msh_attempt
    SET ended_at = %(at)s, outcome = %(outcome)s, status = %(status)s, detail = %(detail)s,
        reason = %(reason)s, body_sent = %(body_sent)s
    WHERE message_id = %(key)s AND number = %(number)s
""",
    order=Order.ATTEMPT,
)
