"""What there is to send now: found and locked in one round trip, passing over what others hold."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

from msh.protocol.attempt import AttemptResult
from msh.protocol.lane import LaneState
from msh.store.clock import CLOCK, read_clock
from msh.store.engine import USE_INDEX_ORDER, Call, Key, run
from msh.store.flights.flight_sql import CLOCK_AND_FLIGHTS
from msh.transport.job import Job
from msh.transport.slots import Room

from . import best_effort_sql, link_sql, message_sql, signals
from .best_effort_sql import BestEffortCopy, BestEffortRow, WaitingMessage
from .link_sql import Found
from .links import OutboundLinks
from .message_sql import LARGE, CopyRow, PromisedCopy
from .signals import PendingSignal

AT_ONCE = 50
"""Links, BestEffort messages and signals that one poll takes, of each; of links and BestEffort as
many again that are large."""
ONE_MORE = 1
"""Of a partner than it can have slots for: this one is refused a slot, and so it is known that
there is more to be sent when a POST has ended."""

_TIMED = (LaneState.WAITING, LaneState.TRANSIENT)


@dataclass(frozen=True, slots=True)
class Slots:
    """What a carrier can take. `of_partner`: at most so many of one, and none of the `full` ones;
    of each of the `rooms`, where there are any, what it has. `large`: whether there are bytes for a
    large message. The links of `resting` partners are left alone."""

    of_partner: int
    in_all: int
    full: Collection[int] = ()
    large: bool = True
    rooms: Sequence[Room] = ()
    resting: Collection[int] = ()

    @property
    def limit(self) -> int:
        return min(AT_ONCE, self.in_all)

    @property
    def limit_of_large(self) -> int:
        return self.limit if self.large else 0

    def in_each_room(self) -> list[Room]:
        """Return the rooms, with no more slots than one poll takes."""
        rooms = self.rooms or (Room(self.full, False, self.in_all),)
        return [replace(room, slots=min(room.slots, self.limit)) for room in rooms]


@dataclass(slots=True)
class Work(OutboundLinks):
    """Links, BestEffort messages and signals that a transaction has locked, and what it has to do
    with them. `slots`: those of the poll, if it was one."""

    due: set[int] = field(default_factory=set)
    """Partners whose link's wait is over."""
    missed: Collection[int] = ()
    """Partners whose link was asked for, and is locked by others."""
    best_effort: list[WaitingMessage] = field(default_factory=list)
    lost: list[BestEffortCopy] = field(default_factory=list)
    """BestEffort messages whose worker was lost."""
    signals: list[PendingSignal] = field(default_factory=list)
    copies: list[CopyRow] = field(default_factory=list)
    """Of messages that are likely to be sent, read with the links."""
    under_way: list[Job] = field(default_factory=list)
    """What this worker sends by promises, and signals that are claimed for a second only."""
    kept: list[Job] = field(default_factory=list)
    """The copies under way that are still its own."""
    has_flights: bool = False
    """Whether there are flights, which are polled for by themselves."""
    left: bool = False
    """Something is due to a partner that has no free slot."""
    slots: Slots | None = None


def lock_work(ended: Iterable[int], slots: Slots, *, lost: bool = False) -> Work:
    """Lock links that are due or idle with a queue, beside those of the `ended` partners;
    BestEffort messages, with `lost` also those whose worker was lost; and pending signals. Of each
    no more than there are `slots`. What others hold is passed over."""
    asked = list(ended)
    links_due, waiting = _lock_links(slots), _lock_best_effort(slots)
    signals_due = _lock_signals(slots)
    _, *found, (clock,) = run(
        link_sql.BEGIN_POLL(),
        *([link_sql.LOCK_FREE(partner_ids=asked)] if asked else []),
        *links_due,
        *waiting,
        *signals_due,
        *_find_left(slots),
        CLOCK_AND_FLIGHTS(),
    )
    free = {row.id for row in found.pop(0)} if asked else set()
    *timed, idle = found[: len(links_due)]
    signals_from = len(links_due) + len(waiting)
    signals_end = signals_from + len(signals_due)
    due = {row.partner_id for rows in timed for row in rows}
    work = _load_locked(free, asked, due.union(row.partner_id for row in idle))
    work.now = max(work.now, clock.now)
    work.due = due - set(asked)  # how their POST ended comes first
    work.best_effort = list(chain(*found[len(links_due) : signals_from]))
    work.lost = lock_lost() if lost else []
    work.signals = list(chain(*found[signals_from:signals_end]))
    work.has_flights = clock.has_flights
    work.left = any(found[signals_end:])
    work.slots = slots
    return work


def _load_locked(free: Collection[int], asked: Collection[int], others: Collection[int]) -> Work:
    """Load the links of `others`, which are locked, and of the `asked` those with a `free` id."""
    if not (asked or others):
        return Work()
    (rows,) = run(link_sql.LOAD(partner_ids=list({*asked, *others})))
    missed = {row.partner_id for row in rows if row.id not in free} - set(others)
    work = Work.of(row for row in rows if row.partner_id not in missed)
    work.missed = missed
    return work


def lock_named(ended: Iterable[int], named: Iterable[int]) -> Work:
    """Lock the links of the `ended` and of the `named` partners that nobody else holds, with what
    is next to be sent to the `named` ones: all in one round trip, because a wake-up has named them.
    """
    asked, wanted = list(ended), list(named)
    both = list({*asked, *wanted})
    if not both:
        return Work.none()
    copies_of = [message_sql.LOAD_NEXT_COPIES(partner_ids=wanted, large=LARGE)] if wanted else []
    free, rows, *copies = run(
        link_sql.LOCK_FREE(partner_ids=both),
        link_sql.LOAD(partner_ids=both),
        *copies_of,
    )
    ids = {row.id for row in free}
    # Without a link there is no clock that was read with it.
    work = Work.of(row for row in rows if row.id in ids) if ids else Work.none()
    work.missed = {row.partner_id for row in rows if row.id not in ids and row.partner_id in asked}
    lanes = {one: work.lane(one) for one in work if one not in asked}
    work.due = {
        one for one, lane in lanes.items() if lane.state in _TIMED and lane.is_due(work.now)
    }
    work.copies = copies[0] if copies else []
    return work


def lock_lost() -> list[BestEffortCopy]:
    """BestEffort messages whose worker was lost."""
    return run(best_effort_sql.LOCK_LOST(limit=AT_ONCE))[0]


def load_copies(keys: Collection[int]) -> list[CopyRow]:
    return run(message_sql.LOAD_COPIES(ids=list(keys)))[0] if keys else []


def load_best_effort(keys: Collection[int]) -> list[BestEffortRow]:
    return run(best_effort_sql.LOAD_BEST_EFFORT(ids=list(keys)))[0] if keys else []


def load_claimed(keys: Collection[int]) -> Work:
    """Read those of these signals that were claimed with their message and that no sweep has taken
    over. Nothing is locked."""
    (rows,) = run(signals.READ_CLAIMED(keys=list(keys)))
    return Work(rows[0].now, signals=rows) if rows else Work.none()


def load_promised(
    partner_ids: list[int], keys: list[int], attempts: list[int]
) -> list[PromisedCopy]:
    """Read those of these copies that are still promised: of each the partner, the row of the
    message, and the attempt. Nothing is locked."""
    asked = {"partner_ids": partner_ids, "keys": keys, "attempts": attempts}
    return run(message_sql.READ_PROMISED(**asked))[0]


def end_attempts(ended: Collection[tuple[int, int, AttemptResult]]) -> None:
    """Record that these attempts were transmitted, in a transaction of its own: of each the row id
    of its message, its number and its result."""
    run(
        message_sql.END_ATTEMPTS(
            keys=[key for key, _, _ in ended],
            attempts=[number for _, number, _ in ended],
            statuses=[result.status for _, _, result in ended],
            details=[result.detail for _, _, result in ended],
            reasons=[result.reason for _, _, result in ended],
        )
    )


def wait_briefly() -> None:
    """Wait only briefly for locks, in the rest of this transaction."""
    run(link_sql.WAIT_BRIEFLY())


def lock_links(slots: Slots) -> list[int]:
    _, *found = run(USE_INDEX_ORDER(), *_lock_links(slots))
    return [row.partner_id for rows in found for row in rows]


def lock_best_effort(slots: Slots) -> list[WaitingMessage]:
    _, *found = run(USE_INDEX_ORDER(), *_lock_best_effort(slots))
    return list(chain(*found))


def lock_signals(slots: Slots) -> list[PendingSignal]:
    _, *found = run(USE_INDEX_ORDER(), *_lock_signals(slots))
    return list(chain(*found))


def _lock_links(slots: Slots) -> list[Call[Found]]:
    """Return the calls that lock links; the last of them is for idle ones."""
    calls: list[Call[Found]] = []
    resting = list(slots.resting)
    rooms = slots.in_each_room()
    # Full partners are passed over if they are so many that they could fill the poll.
    few = len(rooms) == 1 and len(rooms[0].partners) < slots.limit
    for index, room in enumerate(rooms):
        values = {
            "large": LARGE,
            "partners": [] if few else list(room.partners),
            "only": room.only,
            "timed": index == 0,
            "resting": resting,
        }
        limit_of_large = min(room.slots, slots.limit_of_large)
        calls += [
            link_sql.LOCK_DUE(**values, limit=room.slots),
            link_sql.LOCK_DUE_WITH_LARGE_COPIES(**values, limit=limit_of_large),
        ]
    return [*calls, link_sql.LOCK_IDLE_WITH_QUEUE(resting=resting, limit=slots.limit)]


def _lock_best_effort(slots: Slots) -> list[Call[WaitingMessage]]:
    calls = []
    for room in slots.in_each_room():
        limit_of_large = min(room.slots, slots.limit_of_large)
        calls.append(
            best_effort_sql.LOCK_WAITING(
                large=LARGE,
                partners=list(room.partners),
                only=room.only,
                limit=room.slots,
                limit_of_large=limit_of_large,
                of_partner=slots.of_partner + ONE_MORE,
                limit_in_all=room.slots + limit_of_large,
            )
        )
    return calls


def _lock_signals(slots: Slots) -> list[Call[PendingSignal]]:
    return [
        signals.LOCK_PENDING(
            partners=list(room.partners),
            only=room.only,
            limit=room.slots,
            of_partner=slots.of_partner + ONE_MORE,
        )
        for room in slots.in_each_room()
    ]


def _find_left(slots: Slots) -> list[Call[Key]]:
    """Find what is left, as far as a poll passes over partners for want of slots: of links it takes
    those that are due, which are refused one then. With several rooms it is known that there is
    little room."""
    rooms = slots.in_each_room()
    full = list(rooms[0].partners) if len(rooms) == 1 else []
    return [signals.FIND_LEFT(partner_ids=full)] if full else []


def work_of_link(partner_id: int) -> Work:
    """Lock one link; the work has none if others hold it now."""
    work = lock_named((partner_id,), ())
    work.due = {one for one in work if work.lane(one).state in _TIMED}
    return work


def work_of_best_effort(key: int) -> Work:
    rows, (clock,) = run(best_effort_sql.LOCK_ONE_WAITING(key=key), CLOCK())
    return Work(clock.now, best_effort=rows)


def work_of_lost(one: BestEffortCopy) -> Work:
    return Work(read_clock(), lost=[one])


def work_of_signal(key: int) -> Work:
    rows, (clock,) = run(signals.LOCK_ONE_PENDING(key=key), CLOCK())
    return Work(clock.now, signals=rows)
