"""What there is to do now: found and locked in one round trip, passing over what others hold."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from msh.models import hot

from .lanes import Lanes

AT_ONCE = 50
"""Lanes, BestEffort messages and signals that one look takes, of each."""


@dataclass(frozen=True, slots=True)
class Work:
    """Locked in this transaction. `best_effort` are message row ids, `signals` are rows of
    `hot.LOCK_OWED_SIGNALS`."""

    lanes: Lanes
    best_effort: list[int]
    signals: list[Any]


def find_work(busy: Iterable[int], free: int) -> Work:
    """Lanes that are due or idle with a queue; and, at most `free` of a partner and none of the
    `busy` ones, BestEffort messages and owed signals."""
    full = list(busy)
    due, idle, best_effort, signals, clock = hot.run(
        (hot.LOCK_DUE_LANES, (AT_ONCE,)),
        (hot.LOCK_IDLE_LANES_WITH_QUEUE, (AT_ONCE,)),
        (hot.LOCK_BEST_EFFORT, (full, free, AT_ONCE)),
        (hot.LOCK_OWED_SIGNALS, (full, free, AT_ONCE)),
        (hot.CLOCK, ()),
    )
    lanes = Lanes.load((row.partner_id for row in (*due, *idle)), clock[0].now)
    return Work(lanes, [row.id for row in best_effort], signals)
