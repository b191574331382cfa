"""Deliveries: locked, and the rows that a step writes."""

from dataclasses import dataclass
from datetime import datetime

from msh.store.engine import Key, Order, Statement, Write
from msh.store.history import insert_one


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
    rejected_at: datetime | None
    replay_of_id: int | None


@dataclass(frozen=True, slots=True)
class Had:
    """Whether a lock was free."""

    had: bool


@dataclass(frozen=True, kw_only=True)
class DeliveryRow:
    """The columns that `INSERT` and `UPDATE` write."""

    state: str
    attempt: int
    failures: int
    due: datetime | None
    started_at: datetime | None
    ended_at: datetime | None
    external_id: str
    detail: str
    rejected_at: datetime | None


_SUBJECT = """
    message.id AS message_key, message.message_id, message.state AS message_state,
    message.semantics, link.partner_id, clock_timestamp() AS now
"""
_LOCK = f"""
    SELECT delivery.id, delivery.consumer_id, delivery.state, delivery.attempt, delivery.failures,
           delivery.due, delivery.started_at, delivery.external_id, delivery.detail,
           delivery.rejected_at, delivery.replay_of_id, {_SUBJECT}
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
    ORDER BY partner_id, array_position(%(kinds)s::text[], kind::text) FOR NO KEY UPDATE
""",
    Key,
)

# A new one has no row to lock. The row of its message stays free: a copy that arrives meanwhile
# is counted there, and must not wait for the consumer.
TRY_LOCK_NEW = Statement(
    "SELECT pg_try_advisory_xact_lock(%(space)s, %(key)s::int) AS had",
    Had,
)
LOCK_NEW = Statement(
    "SELECT pg_advisory_xact_lock(%(space)s, %(key)s::int) IS NOT NULL AS had",
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
                              ended_at, external_id, detail, rejected_at)
    VALUES (%(consumer_id)s, %(message_key)s, %(state)s, %(attempt)s, %(failures)s, %(due)s,
            %(started_at)s, %(ended_at)s, %(external_id)s, %(detail)s, %(rejected_at)s)
    RETURNING id
""",
    Key,
)
UPDATE = Write(
    """
    UPDATE msh_delivery
    SET state = %(state)s, attempt = %(attempt)s, failures = %(failures)s, due = %(due)s,
        started_at = %(started_at)s, ended_at = %(ended_at)s, external_id = %(external_id)s,
        detail = %(detail)s, rejected_at = %(rejected_at)s
    WHERE id = %(key)s
""",
    order=Order.DELIVERY,
    many=Write("""
    UPDATE msh_delivery delivery
    SET state = one.state, attempt = one.attempt, failures = one.failures, due = one.due,
        started_at = one.started_at, ended_at = one.ended_at, external_id = one.external_id,
        detail = one.detail, rejected_at = one.rejected_at
    FROM json_to_recordset(%(rows)s::json) AS one (
        key bigint, state text, attempt int, failures int, due timestamptz, started_at timestamptz,
        ended_at timestamptz, external_id text, detail text, rejected_at timestamptz)
    WHERE delivery.id = one.key
"""),
)
LEAVE = Write(
    """
    UPDATE msh_inboundmessage SET state = %(state)s, delivered_at = %(at)s WHERE id = %(key)s
""",
    order=Order.INBOUND_MESSAGE,
    many=Write("""
    UPDATE msh_inboundmessage message SET state = one.state, delivered_at = one.at
    FROM json_to_recordset(%(rows)s::json) AS one (key bigint, state text, at timestamptz)
    WHERE message.id = one.key
"""),
)
PARK = Write(
    "UPDATE msh_inboundmessage SET state = 'parked' WHERE id = %(key)s",
    order=Order.INBOUND_MESSAGE,
    many=Write("""
    UPDATE msh_inboundmessage SET state = 'parked'
    WHERE id IN (SELECT key FROM json_to_recordset(%(rows)s::json) AS one (key bigint))
"""),
)
_RESOLVED = insert_one(
    partner_id="%(partner_id)s",
    direction="'in'",
    event="'IncidentResolved'",
    message_id="%(message_id)s",
    detail="concat_ws('; ', kind, NULLIF(%(resolution)s::text, ''))",
    subject="'link'",
    actor="%(actor)s",
    at="%(at)s",
)
_RESOLVE_UNLESS = f"""
    WITH resolved AS (
    UPDATE msh_incident incident
    SET resolved_at = %(at)s, resolved_by = %(actor)s, resolution = %(resolution)s
    WHERE partner_id = %(partner_id)s AND direction = 'in' AND kind = %(kind)s
      AND resolved_at IS NULL
      AND NOT EXISTS (
        SELECT FROM msh_delivery delivery
        JOIN msh_inboundmessage message ON message.id = delivery.message_id
        JOIN msh_inboundlink link ON link.id = message.link_id
        WHERE link.partner_id = %(partner_id)s AND {{}})
    RETURNING kind)
    {_RESOLVED}
    FROM resolved
"""
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
    order=Order.INCIDENT,
)
RESOLVE_IF_LAST = Write(
    _RESOLVE_UNLESS.format("delivery.state = ANY(%(states)s)"), order=Order.INCIDENT
)
# What was rejected before it was opened belonged to an earlier one, which a person resolved.
RESOLVE_IF_NOT_REJECTED = Write(
    _RESOLVE_UNLESS.format("delivery.id <> %(key)s AND delivery.rejected_at >= incident.opened_at"),
    order=Order.INCIDENT,
)
