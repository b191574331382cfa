"""Deliveries: the heads of the pairs, what is due, and the rows that a step writes."""

from dataclasses import dataclass
from datetime import datetime

from msh.protocol.kinds import IncidentKind
from msh.store.engine import Key, Statement, Write


@dataclass(frozen=True, slots=True, kw_only=True)
class NewHead:
    """The first undelivered message of a pair, which has no delivery yet."""

    message_key: int
    link_id: int
    partner_id: int
    consumer_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NewHeadToPost(NewHead):
    """`size`: bytes of payload. `turn`: its place among those of its consumer."""

    size: int
    large: bool
    waits_since: int
    turn: int


@dataclass(frozen=True, slots=True, kw_only=True)
class UnclaimedHead:
    """The first undelivered message of a pair, which no consumer takes."""

    message_key: int
    link_id: int
    partner_id: int
    consumer_id: None


@dataclass(frozen=True, slots=True, kw_only=True)
class DueDelivery:
    id: int
    state: str
    consumer_id: int
    link_id: int
    partner_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DueDeliveryToPost(DueDelivery):
    """`size`: bytes of payload. `turn`: its place among those of its consumer."""

    message_key: int
    size: int
    large: bool
    waits_since: datetime
    turn: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """The message of a delivery."""

    message_key: int
    message_id: str
    message_state: str
    semantics: str
    partner_id: int
    now: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class LockedDelivery(Subject):
    id: int
    consumer_id: int
    state: str
    attempt: int
    failures: int
    due: datetime | None
    started_at: datetime
    external_id: str
    detail: str


@dataclass(frozen=True, slots=True)
class Had:
    """Whether a lock was free."""

    had: bool


@dataclass(frozen=True, kw_only=True)
class DeliveryRow:
    """What `INSERT` and `UPDATE` store."""

    state: str
    attempt: int
    failures: int
    due: datetime | None
    started_at: datetime | None
    ended_at: datetime | None
    external_id: str
    detail: str


# Those of the partner and those of all, apart: together they would be looked for among all.
_CONSUMERS = """
    SELECT id, kind, enabled, partner_id, service_interface, action FROM msh_consumer
    WHERE partner_id {0} AND service_interface IN ('', head.service_interface)
      AND action IN ('', head.action)
"""
CONSUMER_OF_HEAD = f"""
    SELECT id, kind, enabled FROM (
        {_CONSUMERS.format("= link.partner_id")} UNION ALL {_CONSUMERS.format("IS NULL")}) fitting
    ORDER BY partner_id IS NULL, service_interface = '', action = '' LIMIT 1
"""


# Each consumer has so many places for POSTs. Large messages have a window of their own, for they
# may wait until others have left. Of each consumer the first, then of each the second.
_IN_PLACES = """
    sized AS (
        SELECT fitting.*, part.size, part.size >= %(large)s AS large
        FROM fitting CROSS JOIN LATERAL (
            SELECT coalesce(sum(octet_length(content)), 0) AS size FROM msh_inboundpayload
            WHERE message_id = fitting.message_key) part),
    turns AS (
        SELECT *, row_number() OVER (
            PARTITION BY consumer_id, large ORDER BY waits_since, message_key) AS turn
        FROM sized)
    (SELECT * FROM turns WHERE turn <= %(of_consumer)s AND NOT large
     ORDER BY turn, waits_since LIMIT %(limit)s)
    UNION ALL
    (SELECT * FROM turns WHERE turn <= %(of_consumer)s AND large
     ORDER BY turn, waits_since LIMIT %(limit_of_large)s)
    ORDER BY turn, waits_since, message_key
"""


# The head of each pair's undelivered messages, read by leaps: one index probe for each pair that
# has some, none for a pair that has none. A head stays head, whatever became of its delivery.
LEAP_TO_HEADS = """
    WITH RECURSIVE head AS (
        (SELECT link_id, id, service_interface, action FROM msh_inboundmessage
         WHERE state = 'accepted' ORDER BY link_id, id LIMIT 1)
        UNION ALL
        SELECT next.* FROM head CROSS JOIN LATERAL (
            SELECT link_id, id, service_interface, action FROM msh_inboundmessage
            WHERE state = 'accepted' AND link_id > head.link_id
            ORDER BY link_id, id LIMIT 1) next)
"""
_HEAD_OF_LINK = """(
    SELECT link_id, id, service_interface, action FROM msh_inboundmessage
    WHERE link_id = {0} AND state = 'accepted' ORDER BY id LIMIT 1) head
"""
# The LIMIT has each head look up its own link: joined, all links might be read.
_CONSUMERS_OF = f"""
    SELECT head.id AS message_key, head.link_id, link.partner_id, consumer.id AS consumer_id
    FROM {{0}} CROSS JOIN LATERAL (
        SELECT partner.id AS partner_id
        FROM msh_inboundlink JOIN partners_partner partner ON partner.id = partner_id
        WHERE msh_inboundlink.id = head.link_id AND partner.delivers LIMIT 1) link
    LEFT JOIN LATERAL ({CONSUMER_OF_HEAD}) consumer ON true
"""
_HEADS = _CONSUMERS_OF.format("head")
# A head with a delivery is not new, and what waits behind it has to wait (001-23).
_IS_NEW = "NOT EXISTS (SELECT FROM msh_delivery WHERE message_id = head.id)"
_NO_CONSUMER = f"""
    direction = 'in' AND kind = '{IncidentKind.NO_CONSUMER}' AND resolved_at IS NULL
"""

FIND_NEW_TO_POST = Statement(
    f"""
    {LEAP_TO_HEADS}, fitting AS (
        SELECT waiting.*, message_key AS waits_since FROM ({_HEADS}
            WHERE head.link_id <> ALL(%(busy_links)s) AND consumer.enabled
              AND consumer.kind = 'http' AND consumer.id <> ALL(%(full)s) AND {_IS_NEW}) waiting),
    {_IN_PLACES}
""",
    NewHeadToPost,
)
FIND_NEW_TO_CALL = Statement(
    f"""
    {LEAP_TO_HEADS} {_HEADS}
    WHERE head.link_id <> ALL(%(busy_links)s) AND consumer.enabled
      AND consumer.kind = 'in_process' AND consumer.id <> ALL(%(threadless)s) AND {_IS_NEW}
    ORDER BY head.id LIMIT %(limit)s
""",
    NewHead,
)
FIND_NEW_OF_LINK = Statement(
    f"""
    {_CONSUMERS_OF.format(_HEAD_OF_LINK.format("%(link_id)s"))} WHERE consumer.enabled AND {_IS_NEW}
""",
    NewHead,
)
FIND_NEW_OF_CONSUMER = Statement(
    f"""
    {LEAP_TO_HEADS} {_HEADS}
    WHERE consumer.id = %(consumer_id)s AND consumer.enabled AND {_IS_NEW}
    ORDER BY head.id LIMIT %(limit)s
""",
    NewHead,
)
FIND_UNCLAIMED = Statement(
    f"""
    {LEAP_TO_HEADS} {_HEADS}
    WHERE consumer.id IS NULL AND NOT EXISTS (
        SELECT FROM msh_incident WHERE partner_id = link.partner_id AND {_NO_CONSUMER})
""",
    UnclaimedHead,
)
# By open incident. OFFSET keeps the searches of each from being joined with those of all.
RESOLVE_CLAIMED = Write(
    f"""
    WITH claimed AS (
        SELECT id FROM msh_incident incident
        WHERE {_NO_CONSUMER}
          AND EXISTS (
            SELECT FROM partners_partner WHERE id = incident.partner_id AND delivers OFFSET 0)
          AND NOT EXISTS (
            {
        _CONSUMERS_OF.format(
            _HEAD_OF_LINK.format(
                "(SELECT id FROM msh_inboundlink WHERE partner_id = incident.partner_id)"
            )
        )
    }
            WHERE consumer.id IS NULL OFFSET 0)
        ORDER BY partner_id FOR NO KEY UPDATE SKIP LOCKED)
    UPDATE msh_incident incident
    SET resolved_at = statement_timestamp(), resolved_by = %(actor)s,
        resolution = %(resolution)s
    FROM claimed WHERE incident.id = claimed.id
"""
)
# What is due first; each row then looks up its own, as above.
_OF_DUE = """
    FROM msh_delivery delivery
    CROSS JOIN LATERAL (
        SELECT id, kind, enabled FROM msh_consumer WHERE id = delivery.consumer_id LIMIT 1) consumer
    CROSS JOIN LATERAL (
        SELECT id, link_id FROM msh_inboundmessage WHERE id = delivery.message_id LIMIT 1) message
    CROSS JOIN LATERAL (
        SELECT partner_id FROM msh_inboundlink WHERE id = message.link_id LIMIT 1) link
    CROSS JOIN LATERAL (
        SELECT delivers FROM partners_partner WHERE id = link.partner_id LIMIT 1) partner
"""
# Those that need a thread and those that need a POST apart: either may have to wait.
FIND_DUE_TO_CALL = Statement(
    f"""
    SELECT delivery.id, delivery.state, delivery.consumer_id, message.link_id, link.partner_id
    {_OF_DUE}
    WHERE delivery.due <= statement_timestamp() AND delivery.id <> ALL(%(busy)s)
      AND (delivery.state <> 'failed'
           OR (consumer.enabled AND consumer.kind = 'in_process' AND partner.delivers))
      AND (delivery.state IN ('completed', 'rejected') OR consumer.id <> ALL(%(threadless)s))
    ORDER BY delivery.due LIMIT %(limit)s
""",
    DueDelivery,
)
FIND_DUE_TO_POST = Statement(
    f"""
    WITH fitting AS (
        SELECT delivery.id, delivery.state, delivery.consumer_id, message.link_id, link.partner_id,
               message.id AS message_key, delivery.due AS waits_since
        {_OF_DUE}
        WHERE delivery.due <= statement_timestamp() AND delivery.id <> ALL(%(busy)s)
          AND delivery.state = 'failed' AND consumer.enabled AND consumer.kind = 'http'
          AND partner.delivers AND consumer.id <> ALL(%(full)s)),
    {_IN_PLACES}
""",
    DueDeliveryToPost,
)
FIND_DUE_OF_CONSUMER = Statement(
    f"""
    SELECT delivery.id {_OF_DUE}
    WHERE delivery.consumer_id = %(consumer_id)s AND consumer.enabled AND partner.delivers
      AND delivery.state = 'failed' AND delivery.due <= statement_timestamp()
    ORDER BY delivery.message_id LIMIT %(limit)s
""",
    Key,
)
_SUBJECT = """
    message.id AS message_key, message.message_id, message.state AS message_state,
    message.semantics, link.partner_id, clock_timestamp() AS now
"""
_LOCK = f"""
    SELECT delivery.id, delivery.consumer_id, delivery.state, delivery.attempt, delivery.failures,
           delivery.due, delivery.started_at, delivery.external_id, delivery.detail, {_SUBJECT}
    FROM msh_delivery delivery
    JOIN msh_inboundmessage message ON message.id = delivery.message_id
    JOIN msh_inboundlink link ON link.id = message.link_id
    WHERE delivery.id = ANY(%(keys)s)
    ORDER BY delivery.id
    FOR NO KEY UPDATE OF delivery
"""
LOCK = Statement(_LOCK, LockedDelivery)
LOCK_FREE = Statement(f"{_LOCK} SKIP LOCKED", LockedDelivery)
# What steps of several deliveries may write, locked in the order that others lock it in: messages
# as the feed does, incidents as a single step does.
LOCK_MESSAGES = Statement(
    """
    SELECT id FROM msh_inboundmessage WHERE id = ANY(%(keys)s) ORDER BY id FOR NO KEY UPDATE
""",
    Key,
)
LOCK_INCIDENTS = Statement(
    """
    SELECT id FROM msh_incident
    WHERE partner_id = ANY(%(partner_ids)s) AND direction = 'in' AND kind = ANY(%(kinds)s)
      AND resolved_at IS NULL
    ORDER BY partner_id, kind FOR NO KEY UPDATE
""",
    Key,
)

# A new one has no row to lock. The row of its message stays free: a copy that arrives meanwhile
# is counted there, and must not wait for the consumer.
TRY_LOCK_NEW = Statement(
    "SELECT pg_try_advisory_xact_lock(%(space)s, %(key)s::int) AS had",
    Had,
)
LOCK_SPACE = 0x6D7368  # "msh"
LOAD_NEW = Statement(
    f"""
    SELECT {_SUBJECT} FROM msh_inboundmessage message
    JOIN msh_inboundlink link ON link.id = message.link_id
    WHERE message.id = %(message_key)s AND message.state = 'accepted'
      AND NOT EXISTS (SELECT FROM msh_delivery WHERE message_id = message.id)
""",
    Subject,
)

INSERT = Statement(
    """
    INSERT INTO msh_delivery (consumer_id, message_id, state, attempt, failures, due, started_at,
                              ended_at, external_id, detail)
    VALUES (%(consumer_id)s, %(message_key)s, %(state)s, %(attempt)s, %(failures)s, %(due)s,
            %(started_at)s, %(ended_at)s, %(external_id)s, %(detail)s)
    RETURNING id
""",
    Key,
)
UPDATE = Write(
    """
    UPDATE msh_delivery
    SET state = %(state)s, attempt = %(attempt)s, failures = %(failures)s, due = %(due)s,
        started_at = %(started_at)s, ended_at = %(ended_at)s, external_id = %(external_id)s,
        detail = %(detail)s
    WHERE id = %(key)s
"""
)
LEAVE = Write(
    """
    UPDATE msh_inboundmessage SET state = %(state)s, delivered_at = %(at)s WHERE id = %(key)s
"""
)
PARK = Write("UPDATE msh_inboundmessage SET state = 'parked' WHERE id = %(key)s")
# First the lock, then RESOLVE_IF_LAST with a snapshot of its own: it must see the deliveries of who
# held the incident before.
LOCK_INCIDENT = Statement(
    """
    SELECT id FROM msh_incident
    WHERE partner_id = %(partner_id)s AND direction = 'in' AND kind = %(kind)s
      AND resolved_at IS NULL
    FOR NO KEY UPDATE
""",
    Key,
)
RESOLVE_IF_LAST = Write(
    """
    UPDATE msh_incident
    SET resolved_at = %(at)s, resolved_by = %(actor)s, resolution = %(resolution)s
    WHERE partner_id = %(partner_id)s AND direction = 'in' AND kind = %(kind)s
      AND resolved_at IS NULL
      AND NOT EXISTS (
        SELECT FROM msh_delivery delivery
        JOIN msh_inboundmessage message ON message.id = delivery.message_id
        JOIN msh_inboundlink link ON link.id = message.link_id
        WHERE link.partner_id = %(partner_id)s AND delivery.state = ANY(%(states)s))
"""
)
