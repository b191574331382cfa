"""Replays: a message that its consumer has completed is delivered to it once more, by a delivery of
its own. It stays in the order of the replays of its pair, and outside the order of its pair.
"""

from dataclasses import dataclass

from msh.store import history
from msh.store.engine import Key, Statement, run
from msh.store.history import Actor, HistoryRow

OPEN_AT_ONCE = 100
"""Replays to one consumer that are not done yet: a job with many waits before it adds others."""


@dataclass(frozen=True, slots=True)
class Replay:
    id: int
    consumer_id: int
    consumer: str
    message_id: str
    partner_id: int


_INSERT = Statement(
    """
    WITH new AS (
        INSERT INTO msh_delivery (
            consumer_id, message_id, state, attempt, failures, due, started_at, replay_of_id,
            replay_order)
        SELECT original.consumer_id, message.id, 'failed', 0, 0, statement_timestamp(),
               statement_timestamp(), original.id, COALESCE(-message.ordered_in_id, message.link_id)
        FROM msh_delivery original
        JOIN msh_inboundmessage message ON message.id = original.message_id
        WHERE original.id = %(key)s AND original.state = 'completed'
          AND original.replay_of_id IS NULL AND message.state = 'delivered'
        RETURNING id, consumer_id, message_id)
    SELECT new.id, new.consumer_id, consumer.name AS consumer, message.message_id, link.partner_id
    FROM new
    JOIN msh_consumer consumer ON consumer.id = new.consumer_id
    JOIN msh_inboundmessage message ON message.id = new.message_id
    JOIN msh_inboundlink link ON link.id = message.link_id
    """,
    Replay,
)
# Not those that cannot run, because deliveries of their partner are held.
_OPEN = Statement(
    """
    SELECT id FROM msh_delivery delivery
    WHERE consumer_id = %(consumer_id)s AND replay_order IS NOT NULL
      AND (state = 'processing' OR state = 'failed' AND (
        SELECT partner.delivers
        FROM msh_inboundmessage message
        JOIN msh_inboundlink link ON link.id = message.link_id
        JOIN partners_partner partner ON partner.id = link.partner_id
        WHERE message.id = delivery.message_id LIMIT 1))
    LIMIT %(limit)s
    """,
    Key,
)


def is_full(consumer_id: int) -> bool:
    (rows,) = run(_OPEN(consumer_id=consumer_id, limit=OPEN_AT_ONCE))
    return len(rows) >= OPEN_AT_ONCE


def insert_replay(key: int, actor: Actor) -> Replay | None:
    """A replay of the delivery `key`, which a worker runs in its turn; None if that is not
    completed, or a replay itself."""
    (rows,) = run(_INSERT(key=key))
    if not rows:
        return None
    (replay,) = rows
    what = f"{replay.consumer}, delivery {replay.id} replays delivery {key}"
    history.record(
        HistoryRow(
            replay.partner_id,
            "in",
            "ReplayRequested",
            replay.message_id,
            from_state="delivered",
            to_state="delivered",
            detail=history.with_reason(what, actor),
            actor=actor.name,
        )
    )
    return replay
