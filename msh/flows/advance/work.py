"""What there is to do now: found and locked in one round trip, passing over what others hold."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any

from msh.flows.room import LARGE
from msh.models import hot
from msh.protocol.lane import LaneState

from .lanes import Lanes

AT_ONCE = 50
"""Lanes, BestEffort messages and signals that one look takes, of each; of lanes and BestEffort as
many again that are large."""


@dataclass(frozen=True, slots=True)
class Work:
    """Locked in this transaction. `due` are the partners whose lane's wait is over, `best_effort`
    and `signals` rows of `hot.LOCK_BEST_EFFORT` and `hot.LOCK_OWED_SIGNALS`."""

    lanes: Lanes
    due: set[int]
    best_effort: list[Any]
    signals: list[Any]


@dataclass(frozen=True, slots=True)
class Places:
    """What a carrier can take. `of_partner`: at most so many of one, and none of the `full` ones.
    `large`: whether there are bytes for a large message."""

    of_partner: int
    in_all: int
    full: Collection[int] = ()
    large: bool = True

    @property
    def limit(self) -> int:
        return min(AT_ONCE, self.in_all)

    @property
    def limit_of_large(self) -> int:
        return self.limit if self.large else 0


def find_work(ended: Iterable[int], places: Places) -> Work:
    """Lanes that are due or idle with a queue, beside those of the `ended` partners; BestEffort
    messages and owed signals. Of each no more than there are `places`.

    The lanes of `ended` are waited for, the rest passed over if others hold it.
    """
    asked = list(ended)
    _, _, due, large, idle, best_effort, signals, clock = hot.run(
        (hot.BY_INDEX, ()),
        (hot.LOCK_LANES, (asked,)),
        *_lanes_wanted(places),
        _best_effort_wanted(places),
        _signals_wanted(places),
        (hot.CLOCK, ()),
    )
    timed = {row.partner_id for row in (*due, *large)}
    return Work(
        lanes=Lanes.load({*asked, *timed, *(row.partner_id for row in idle)}, clock[0].now),
        due=timed - set(asked),  # how their POST ended comes first
        best_effort=best_effort,
        signals=signals,
    )


def find_lanes(places: Places) -> list[int]:
    """The partners whose lane is due, or idle with a queue: locked, and not read."""
    _, *found = hot.run((hot.BY_INDEX, ()), *_lanes_wanted(places))
    return [row.partner_id for rows in found for row in rows]


def find_best_effort(places: Places) -> list[Any]:
    """Queued BestEffort messages as in `Work`, locked."""
    return hot.run((hot.BY_INDEX, ()), _best_effort_wanted(places))[1]


def find_signals(places: Places) -> list[Any]:
    """Owed signals as in `Work`, locked."""
    return hot.run((hot.BY_INDEX, ()), _signals_wanted(places))[1]


def _lanes_wanted(places: Places) -> list[hot.Statement]:
    # Of full partners those may be passed over that wait for a place: fewer cannot fill the look.
    crowd = list(places.full) if len(places.full) >= places.limit else []
    return [
        (hot.LOCK_DUE_LANES, (LARGE, crowd, places.limit)),
        (hot.LOCK_DUE_LANES_WITH_LARGE_COPIES, (LARGE, crowd, places.limit_of_large)),
        (hot.LOCK_IDLE_LANES_WITH_QUEUE, (places.limit,)),
    ]


def _best_effort_wanted(places: Places) -> hot.Statement:
    windows = (places.limit, places.limit_of_large)
    of_links = (LARGE, list(places.full), *windows, places.of_partner)
    return hot.LOCK_BEST_EFFORT, (*of_links, sum(windows))


def _signals_wanted(places: Places) -> hot.Statement:
    limit = places.limit
    return hot.LOCK_OWED_SIGNALS, (list(places.full), limit, places.of_partner, limit)


def work_of_lane(partner_id: int) -> Work:
    """One lane, locked and read; it is due if it waits for anything."""
    lanes = Lanes.lock([partner_id])
    timed = {LaneState.WAITING, LaneState.TRANSIENT}
    due = {one for one in lanes if lanes.lane(one).state in timed}
    return Work(lanes, due, [], [])


def work_of_best_effort(key: int) -> Work:
    """One BestEffort message, by its row id; nothing if it is not queued any more."""
    rows, clock = hot.run((hot.LOCK_QUEUED_BEST_EFFORT, (key,)), (hot.CLOCK, ()))
    return Work(Lanes.load((), clock[0].now), set(), rows, [])


def work_of_signal(key: int) -> Work:
    """One signal, by its row id; nothing if it is not owed any more."""
    rows, clock = hot.run((hot.LOCK_OWED_SIGNAL, (key,)), (hot.CLOCK, ()))
    return Work(Lanes.load((), clock[0].now), set(), [], rows)


def no_more_work(ended: Iterable[int]) -> Work:
    """The lanes of the `ended` partners alone."""
    return Work(Lanes.lock(ended), set(), [], [])
