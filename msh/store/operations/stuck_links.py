"""Links that need attention: silent partners to be probed, and links that make no progress."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from msh.models import Direction
from msh.models.history import SYSTEM
from msh.protocol.effects import SILENCE
from msh.protocol.kinds import DeliveryState
from msh.protocol.lane import OPERATOR
from msh.protocol.stuck import StuckSignal, Undelivered
from msh.store.delivery.polling_sql import CONSUMER_OF_HEAD, FIRST_IN_ORDER, LEAP_TO_HEADS
from msh.store.engine import Statement, run
from msh.store.flights.gate_sql import IN_MAINTENANCE
from msh.store.sending.link_sql import Found
from msh.store.sending.queue_sql import QUEUE_OF_LINK, REWOUND_OF_LINK


@dataclass(frozen=True, slots=True)
class Unmoved:
    """A link that has work, and when something moved on it last. `under_way`: messages that fly."""

    partner_id: int
    at: datetime
    under_way: int = 0


@dataclass(frozen=True, slots=True)
class _Undelivered:
    partner_id: int
    at: datetime
    held: bool
    consumer: str
    enabled: bool
    delivery: str
    pulls: bool
    fetched_at: datetime | None


@dataclass(frozen=True, slots=True)
class _PendingRow:
    partner_id: int
    kind: str
    tries: int
    first_at: datetime
    last_detail: str


@dataclass(frozen=True, slots=True)
class _LastAnswer:
    partner_id: int
    detail: str


# In a maintenance window the partner is silent as planned: an answer would begin to send to it, and
# a probe that has none a suspension that the window does not know.
_PROBES = Statement(
    f"""
    SELECT link.partner_id
    FROM msh_outboundlink link
    JOIN partners_partner partner ON partner.id = link.partner_id AND NOT partner.never_probe
    WHERE link.state = 'suspended' AND link.in_flight_id IS NOT NULL
      AND link.suspended_for = ANY(%(kinds)s) AND partner.probe_interval > 0
      AND link.suspended_since + partner.probe_interval * interval '1 second'
          <= statement_timestamp()
      AND NOT {IN_MAINTENANCE}
    ORDER BY link.suspended_since LIMIT %(limit)s
    FOR NO KEY UPDATE OF link SKIP LOCKED
""",
    Found,
)

# What happened last to the link itself: an operator's act, or the end of a suspension. That it was
# told to wait, and that the wait is over, moves nothing; but such a row from before the limit ends
# the search, so that no more is read of a partner that says so for months.
_EVENT = f"""LEFT JOIN LATERAL (
        SELECT at FROM msh_history
        WHERE partner_id = link.partner_id AND direction = '{{}}' AND subject = 'link'
          AND (actor <> '{SYSTEM}' OR from_state = 'suspended'
               OR at < statement_timestamp() - %(seconds)s * interval '1 second')
        ORDER BY id DESC LIMIT 1) event ON true"""
EVENT_TO_PARTNER = _EVENT.format(Direction.OUT)

# What has moved last: the message was submitted, the one before it was acknowledged, or something
# happened to the link. BestEffort messages are sent in the order of their
# ids: while the oldest is in flight they move. Whatever else suspended a link has its incident.
_UNMOVED = Statement(
    f"""
    SELECT link.partner_id, moved.at
    FROM msh_outboundlink link
    LEFT JOIN msh_outboundmessage flying ON flying.id = link.in_flight_id
    LEFT JOIN LATERAL (
        SELECT submitted_at, epoch, sequence_number FROM msh_outboundmessage
        WHERE {REWOUND_OF_LINK} LIMIT 1) rewound ON true
    LEFT JOIN LATERAL (
        SELECT submitted_at FROM msh_outboundmessage
        WHERE {QUEUE_OF_LINK} LIMIT 1) queued ON true
    LEFT JOIN LATERAL (
        SELECT CASE state WHEN 'queued' THEN submitted_at END AS submitted_at
        FROM msh_outboundmessage
        WHERE link_id BETWEEN link.id AND link.id
          AND state IN ('queued', 'in_flight') AND semantics = 'BestEffort'
        ORDER BY link_id, id LIMIT 1) best_effort ON true
    LEFT JOIN msh_outboundmessage before
           ON before.link_id = link.id
          AND before.epoch = COALESCE(flying.epoch, rewound.epoch, link.epoch)
          AND before.sequence_number = COALESCE(
              flying.sequence_number, rewound.sequence_number, link.next_number) - 1
    {EVENT_TO_PARTNER}
    CROSS JOIN LATERAL (
        SELECT COALESCE(flying.submitted_at, rewound.submitted_at, queued.submitted_at,
                        best_effort.submitted_at) AS since) work
    CROSS JOIN LATERAL (SELECT GREATEST(work.since, before.completed_at, event.at) AS at) moved
    WHERE (link.state <> 'suspended' OR link.suspended_for = '{OPERATOR}')
      AND work.since IS NOT NULL
      AND moved.at < statement_timestamp() - %(seconds)s * interval '1 second'
    ORDER BY moved.at LIMIT %(limit)s
""",
    Unmoved,
)

# What has moved last of what consumers have not got: the first was received or tried, the one
# before it left, it was released, or something happened to the link. An attempt under way moves
# until its lease is over. What waits for an operator, or for a consumer to be made, has its
# incident open as long.
_UNDELIVERED = Statement(
    f"""
    {LEAP_TO_HEADS}
    SELECT link.partner_id, moved.at, NOT partner.delivers AS held,
           COALESCE(consumer.name, '') AS consumer, COALESCE(consumer.enabled, true) AS enabled,
           COALESCE(delivery.state, '{DeliveryState.NEW}') AS delivery,
           COALESCE(consumer.kind = 'pull', false) AS pulls, consumer.fetched_at
    FROM (
        SELECT * FROM head
        UNION ALL SELECT * FROM {FIRST_IN_ORDER}) head
    CROSS JOIN LATERAL (
        SELECT epoch, sequence_number, received_at, ordered_in_id FROM msh_inboundmessage
        WHERE id = head.id LIMIT 1) message
    LEFT JOIN LATERAL (
        SELECT released_at FROM msh_inboundconversation
        WHERE id = message.ordered_in_id LIMIT 1) conversation ON true
    CROSS JOIN LATERAL (
        SELECT partner_id FROM msh_inboundlink WHERE id = head.link_id LIMIT 1) link
    CROSS JOIN LATERAL (
        SELECT delivers FROM partners_partner
        WHERE id = link.partner_id LIMIT 1) partner
    LEFT JOIN LATERAL (
        SELECT delivered_at FROM msh_inboundmessage
        WHERE link_id = head.link_id AND epoch = message.epoch
          AND sequence_number = message.sequence_number - 1 LIMIT 1) before ON true
    LEFT JOIN LATERAL (
        SELECT consumer_id, state, started_at, due FROM msh_delivery
        WHERE message_id = head.id ORDER BY id DESC LIMIT 1) delivery ON true
    LEFT JOIN LATERAL ({CONSUMER_OF_HEAD}) fits ON true
    LEFT JOIN LATERAL (
        SELECT id, name, enabled, kind, fetched_at FROM msh_consumer
        WHERE id = COALESCE(delivery.consumer_id, fits.id) LIMIT 1) consumer ON true
    {_EVENT.format(Direction.IN)}
    CROSS JOIN LATERAL (
        SELECT GREATEST(message.received_at, before.delivered_at, conversation.released_at,
                        delivery.started_at, event.at) AS at) moved
    WHERE moved.at < statement_timestamp() - %(seconds)s * interval '1 second'
      -- first: the heads of conversations may be many
      AND message.received_at < statement_timestamp() - %(seconds)s * interval '1 second'
      AND (consumer.id IS NOT NULL OR NOT partner.delivers)
      AND NOT COALESCE(delivery.state = 'processing' AND delivery.due > statement_timestamp(),
                       false)
      AND NOT COALESCE(delivery.state IN ('blocked', 'in_doubt'), false)
    ORDER BY moved.at LIMIT %(limit)s
""",
    _Undelivered,
)

# Tries are a minute apart at most. They count from the last that was transmitted, but `first_at`
# does not: a copy that comes late queues an old Ack again.
_PENDING = Statement(
    f"""
    SELECT DISTINCT ON (link.partner_id)
           link.partner_id, signal.kind, signal.tries, signal.first_at, signal.last_detail
    FROM msh_signal signal JOIN msh_inboundlink link ON link.id = signal.link_id
    {_EVENT.format(Direction.IN)}
    WHERE signal.pending > 0 AND signal.tries * 60 >= %(seconds)s
      AND GREATEST(signal.first_at, event.at)
          < statement_timestamp() - %(seconds)s * interval '1 second'
    ORDER BY link.partner_id, signal.first_at LIMIT %(limit)s
""",
    _PendingRow,
)


_LAST_ANSWERS = Statement(
    """
    SELECT link.partner_id, left(last.detail, 500) AS detail
    FROM msh_outboundlink link
    CROSS JOIN LATERAL (
        SELECT detail FROM msh_attempt
        WHERE message_id = link.in_flight_id AND ended_at IS NOT NULL
        ORDER BY number DESC LIMIT 1) last
    WHERE link.partner_id = ANY(%(partners)s)
""",
    _LastAnswer,
)

_STATES = frozenset(state.value for state in DeliveryState)


def lock_probes(limit: int) -> list[int]:
    kinds = [kind.value for kind in SILENCE]
    (rows,) = run(_PROBES(kinds=kinds, limit=limit))
    return [row.partner_id for row in rows]


def find_unmoved(age: timedelta, limit: int) -> list[Unmoved]:
    return run(_UNMOVED(seconds=age.total_seconds(), limit=limit))[0]


def find_last_answers(partner_ids: Collection[int]) -> Mapping[int, str]:
    """For each partner: the answer to the last copy of its message in flight, if that has ended."""
    if not partner_ids:
        return {}
    (rows,) = run(_LAST_ANSWERS(partners=list(partner_ids)))
    return {row.partner_id: row.detail for row in rows if row.detail}


def find_undelivered(age: timedelta, limit: int) -> Mapping[int, Undelivered]:
    (rows,) = run(_UNDELIVERED(seconds=age.total_seconds(), limit=limit))
    found: dict[int, Undelivered] = {}
    for row in rows:  # of each partner what waits longest
        state = _state_of(row.delivery)
        fetched = row.pulls, row.fetched_at
        one = Undelivered(row.at, row.held, row.consumer, row.enabled, state, *fetched)
        found.setdefault(row.partner_id, one)
    return found


def _state_of(stored: str) -> DeliveryState:
    """A state that a later version has written counts as one under way."""
    return DeliveryState(stored) if stored in _STATES else DeliveryState.PROCESSING


def find_pending(age: timedelta, limit: int) -> Mapping[int, StuckSignal]:
    (rows,) = run(_PENDING(seconds=age.total_seconds(), limit=limit))
    return {
        row.partner_id: StuckSignal(row.kind, row.first_at, row.tries, row.last_detail)
        for row in rows
    }
