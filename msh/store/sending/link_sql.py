"""Outbound links: one row a partner, its message in flight, and the head of its queue."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from msh.store.engine import Key, Order, Statement, Write
from msh.store.partner_columns import PARTNER_AS_READ

from .queue_sql import HEAD, TERMS


@dataclass(frozen=True, slots=True)
class Found:
    """A link that a poll has found and locked."""

    partner_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneRow:
    """A link with its message in flight: what `lane_of` reads."""

    partner_id: int
    state: str
    next_number: int
    epoch: int
    due: datetime | None
    unsent: bool
    promised: bool
    attempt: int
    retries_spent: int
    transients: int
    transient_since: datetime | None
    late_ack: bool
    suspended_for: str
    in_flight_id: int | None
    message_id: str | None
    sequence_number: int | None
    terms: Any
    now: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkRow(LaneRow):
    """Also the head of its queue, with the terms of the head's agreement. `size` is that of the
    message in flight, of the head if there is none."""

    id: int
    suspended_since: datetime | None
    suspended_detail: str
    suspended_reason: str
    forwards_id: int | None
    size: int | None
    head_id: int | None
    head_message_id: str | None
    head_sequence_number: int | None
    head_epoch: int | None
    head_earlier_attempts: int | None
    timeout: int | None
    retries: int | None
    retry_interval: int | None
    transient_count_limit: int | None
    transient_time_limit: int | None
    transient_wait_limit: int | None
    early_warning: int | None
    version: str = ""
    """Of the row, where it was read without a lock; with `as_read` and `sent_state`."""
    as_read: str | None = None
    sent_state: str | None = None


@dataclass(frozen=True, kw_only=True)
class LinkState:
    """What `WRITE` stores."""

    link_id: int
    state: str
    next_number: int
    epoch: int
    in_flight_id: int | None
    due: datetime | None
    unsent: bool
    promised: bool
    attempt: int
    retries_spent: int
    transients: int
    transient_since: datetime | None
    late_ack: bool
    suspended_since: datetime | None
    suspended_for: str
    suspended_detail: str
    suspended_reason: str


LOCK = Statement(
    """
    SELECT id FROM msh_outboundlink WHERE partner_id = ANY(%(partner_ids)s)
    ORDER BY id FOR NO KEY UPDATE
    """,
    Key,
)

WAIT_BRIEFLY = Write("SELECT set_config('lock_timeout', '250ms', true)")
"""For the rest of the transaction."""

BEGIN_POLL = Write("""
    SELECT set_config('enable_bitmapscan', 'off', true), set_config('enable_seqscan', 'off', true),
           set_config('lock_timeout', '250ms', true)
""")
"""`USE_INDEX_ORDER` and `WAIT_BRIEFLY` in one."""

# Passes over what others hold. A round serves many partners, so the rest of its transaction waits
# briefly only: somebody may hold another row of one of them, as a person's session does.
LOCK_FREE = Statement(
    """
    SELECT link.id FROM set_config('lock_timeout', '250ms', true) AS briefly CROSS JOIN LATERAL (
        SELECT id FROM msh_outboundlink
        WHERE partner_id = ANY(%(partner_ids)s) AND briefly <> ''
        ORDER BY id FOR NO KEY UPDATE SKIP LOCKED) link
    """,
    Key,
)

# Large copies have a statement of their own: many of them may wait until others have left, and must
# not hide those that need not. What is unsent is found for these `partners` if `only` is true, else
# for all others; other waits if `timed` is. Nothing is found for those that are `resting`.
_DUE = """
    SELECT partner_id FROM msh_outboundlink link
    WHERE state IN ('waiting', 'transient') AND due <= statement_timestamp()
      AND {0} (unsent AND EXISTS (
          SELECT FROM msh_outboundmessage flying
          WHERE flying.id = link.in_flight_id AND flying.size >= %(large)s OFFSET 0))
      AND CASE WHEN unsent THEN (partner_id = ANY(%(partners)s)) = %(only)s ELSE %(timed)s END
      AND partner_id <> ALL(%(resting)s)
    ORDER BY due LIMIT %(limit)s
    FOR NO KEY UPDATE SKIP LOCKED
"""
LOCK_DUE = Statement(_DUE.format("NOT"), Found)
LOCK_DUE_WITH_LARGE_COPIES = Statement(_DUE.format(""), Found)

# Read by leaps: the next idle link, then the next link from there on that has a queue. So neither
# links without a queue nor queues of links that are not idle cost anything where there are none of
# the other kind between them. `idle_id` is the link that is idle, `full_id` the one that has a
# queue: it is found if both are the same.
LOCK_IDLE_WITH_QUEUE = Statement(
    """
    WITH RECURSIVE rewound (idle_id, full_id) AS (
        SELECT 0::bigint, -1::bigint
        UNION ALL
        SELECT idle.id, head.link_id FROM rewound
        CROSS JOIN LATERAL (
            SELECT id FROM msh_outboundlink
            WHERE state = 'idle' AND id > GREATEST(rewound.idle_id, rewound.full_id - 1)
            ORDER BY id LIMIT 1) idle
        CROSS JOIN LATERAL (
            SELECT link_id FROM msh_outboundmessage
            WHERE state = 'rewound' AND link_id >= idle.id
            ORDER BY link_id, epoch, sequence_number LIMIT 1) head),
    queued (idle_id, full_id) AS (
        SELECT 0::bigint, -1::bigint
        UNION ALL
        SELECT idle.id, head.link_id FROM queued
        CROSS JOIN LATERAL (
            SELECT id FROM msh_outboundlink
            WHERE state = 'idle' AND id > GREATEST(queued.idle_id, queued.full_id - 1)
            ORDER BY id LIMIT 1) idle
        CROSS JOIN LATERAL (
            SELECT link_id FROM msh_outboundmessage
            WHERE state = 'queued' AND semantics = 'OnceAndOnlyOnce' AND link_id >= idle.id
            ORDER BY link_id, id LIMIT 1) head),
    found AS (
        SELECT idle_id AS id FROM rewound WHERE idle_id = full_id
        UNION ALL
        SELECT idle_id FROM queued WHERE idle_id = full_id)
    SELECT link.partner_id FROM found CROSS JOIN LATERAL (
        SELECT partner_id FROM msh_outboundlink
        WHERE id = found.id AND state = 'idle' AND partner_id <> ALL(%(resting)s)
        FOR NO KEY UPDATE SKIP LOCKED) link
    LIMIT %(limit)s
    """,
    Found,
)

_COLUMNS = f"""
           link.id, link.partner_id, link.state, link.next_number, link.epoch, link.due,
           link.unsent, link.promised, link.attempt, link.retries_spent, link.transients,
           link.transient_since, link.late_ack, link.suspended_since, link.suspended_for,
           link.suspended_detail, link.suspended_reason, link.in_flight_id, flying.message_id,
           flying.sequence_number, flying.terms, flying.forwards_id,
           COALESCE(flying.size, head.size) AS size, head.id AS head_id,
           head.message_id AS head_message_id, head.sequence_number AS head_sequence_number,
           head.epoch AS head_epoch,
           head.earlier_attempts AS head_earlier_attempts,
           {TERMS}, clock_timestamp() AS now
"""
_HEAD = HEAD.format("id, message_id, agreement_id, sequence_number, epoch, earlier_attempts, size")
_TABLES = f"""
    msh_outboundlink link
    LEFT JOIN msh_outboundmessage flying ON flying.id = link.in_flight_id
    LEFT JOIN LATERAL ({_HEAD}) head ON true
    LEFT JOIN partners_agreement agreement ON agreement.id = head.agreement_id
"""

# A statement of its own, after the lock: it must see what the lock's holder committed.
LOAD = Statement(
    f"""
    SELECT {_COLUMNS} FROM {_TABLES}
    WHERE link.partner_id = ANY(%(partner_ids)s) ORDER BY link.id
    """,
    LinkRow,
)

# Without a lock, for a write that finds the row in this version or does nothing.
READ_WITH_SENT = Statement(
    f"""
    SELECT {_COLUMNS}, link.xmin::text AS version, {PARTNER_AS_READ},
           sent.state AS sent_state
    FROM {_TABLES}
    LEFT JOIN msh_outboundmessage sent
           ON sent.link_id = link.id AND sent.message_id = %(message_id)s
    WHERE link.partner_id = %(partner_id)s
    """,
    LinkRow,
)

WRITE = Write(
    """
    UPDATE msh_outboundlink
    SET state = %(state)s, next_number = %(next_number)s, epoch = %(epoch)s,
        in_flight_id = %(in_flight_id)s, due = %(due)s, unsent = %(unsent)s,
        promised = %(promised)s, attempt = %(attempt)s, retries_spent = %(retries_spent)s,
        transients = %(transients)s, transient_since = %(transient_since)s, late_ack = %(late_ack)s,
        suspended_since = %(suspended_since)s, suspended_for = %(suspended_for)s,
        failing_since = NULL, probed_at = NULL, refusals = 0, refused_for = '',
        refused_message = '',
        suspended_detail = %(suspended_detail)s, suspended_reason = %(suspended_reason)s,
        failures = 0, probe_due = NULL
    WHERE id = %(link_id)s
""",
    order=Order.LINK,
)

# 70 minutes: longer than the longest back-off. A link that is due later than that was either told
# so by its terms, or the clock was set back.
FIND_FAR = Statement(
    """
    SELECT link.partner_id, link.state, link.next_number, link.epoch, link.due, link.unsent,
           link.promised, link.attempt, link.retries_spent, link.transients, link.transient_since,
           link.late_ack, link.suspended_for, link.in_flight_id, flying.message_id,
           flying.sequence_number, flying.terms, statement_timestamp() AS now
    FROM msh_outboundlink link LEFT JOIN msh_outboundmessage flying ON flying.id = link.in_flight_id
    WHERE link.state IN ('waiting', 'transient')
      AND link.due > statement_timestamp() + interval '70 minutes'
    """,
    LaneRow,
)
MAKE_DUE = Write("""
    UPDATE msh_outboundlink SET due = statement_timestamp() WHERE id IN (
        SELECT id FROM msh_outboundlink
        WHERE partner_id = ANY(%(partner_ids)s) AND state IN ('waiting', 'transient')
          AND due > statement_timestamp() + interval '70 minutes'
        FOR NO KEY UPDATE SKIP LOCKED)
""")
