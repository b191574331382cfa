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
    """Locked in this transaction. `due` are the partners whose lane's wait is over, `best_effort`
    and `signals` rows of `hot.LOCK_BEST_EFFORT` and `hot.LOCK_OWED_SIGNALS`."""

    lanes: Lanes
    due: set[int]
    best_effort: list[Any]
    signals: list[Any]


def find_work(ended: Iterable[int], busy: Iterable[int], free: int, places: int) -> Work:
    """Lanes that are due or idle with a queue, beside those of the `ended` partners; and, at most
    `free` of a partner and none of the `busy` ones, BestEffort messages and owed signals. Of each
    no more than there are `places`.

    The lanes of `ended` are waited for, the rest passed over if others hold it.
    """
    asked, full, limit = list(ended), list(busy), min(AT_ONCE, places)
    crowd = full if len(full) >= limit else []  # fewer cannot fill the look
    _, due, idle, best_effort, signals, clock = hot.run(
        (hot.LOCK_LANES, (asked,)),
        (hot.LOCK_DUE_LANES, (crowd, limit)),
        (hot.LOCK_IDLE_LANES_WITH_QUEUE, (limit,)),
        (hot.LOCK_BEST_EFFORT, (full, free, limit)),
        (hot.LOCK_OWED_SIGNALS, (full, free, limit)),
        (hot.CLOCK, ()),
    )
    found = {*asked, *(row.partner_id for row in (*due, *idle))}
    return Work(
        lanes=Lanes.load(found, clock[0].now),
        due={row.partner_id for row in due} - set(asked),  # how their POST ended comes first
        best_effort=best_effort,
        signals=signals,
    )


def no_more_work(ended: Iterable[int]) -> Work:
    """The lanes of the `ended` partners alone."""
    return Work(Lanes.lock(ended), set(), [], [])
