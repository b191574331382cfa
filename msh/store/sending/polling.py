"""What there is to send now: found and locked in one round trip, passing over what others hold."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from msh.protocol.lane import LaneState
from msh.store.clock import CLOCK
from msh.store.engine import USE_INDEX_ORDER, Call, run
from msh.store.flights.flight_sql import CLOCK_AND_FLIGHTS

from . import best_effort_sql, link_sql, message_sql, signals
from .best_effort_sql import WaitingMessage
from .link_sql import Found
from .links import OutboundLinks
from .message_sql import LARGE, CopyRow, EndedAttempt, PromisedCopy
from .signals import PendingSignal

AT_ONCE = 50
"""Links, BestEffort messages and signals that one poll takes, of each; of links and BestEffort as
many again that are large."""

_TIMED = (LaneState.WAITING, LaneState.TRANSIENT)


@dataclass(frozen=True, slots=True)
class Work:
    """Locked in this transaction. `due` are the partners whose link's wait is over."""

    links: OutboundLinks
    due: set[int]
    best_effort: list[WaitingMessage] = field(default_factory=list)
    signals: list[PendingSignal] = field(default_factory=list)
    copies: list[CopyRow] = field(default_factory=list)
    """Of messages that are likely to be sent, read with the links."""
    has_flights: bool = False
    """Whether there are flights, which are polled for by themselves."""


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


def lock_work(ended: Iterable[int], places: Places) -> Work:
    """Links that are due or idle with a queue, beside those of the `ended` partners; BestEffort
    messages and pending signals. Of each no more than there are `places`.

    The links of `ended` are waited for, the rest passed over if others hold it.
    """
    asked = list(ended)
    _, _, due, large, idle, best_effort, pending, (clock,) = run(
        USE_INDEX_ORDER(),
        link_sql.LOCK(partner_ids=asked),
        *_lock_links(places),
        _lock_best_effort(places),
        _lock_signals(places),
        CLOCK_AND_FLIGHTS(),
    )
    timed = {row.partner_id for row in (*due, *large)}
    return Work(
        links=OutboundLinks.load({*asked, *timed, *(row.partner_id for row in idle)}, clock.now),
        due=timed - set(asked),  # how their POST ended comes first
        best_effort=best_effort,
        signals=pending,
        has_flights=clock.has_flights,
    )


def lock_named(ended: Iterable[int], named: Iterable[int]) -> Work:
    """The links of the `ended` partners, and those of the `named` ones that nobody else holds, with
    what is next to be sent on these: all in one round trip, because a wake-up has named them."""
    asked, wanted = list(ended), list(named)
    if not wanted:
        return Work(OutboundLinks.lock(asked), set())
    *locked, rows, copies = run(
        *([link_sql.LOCK(partner_ids=asked)] if asked else []),
        link_sql.LOCK_FREE(partner_ids=wanted),
        link_sql.LOAD(partner_ids=[*asked, *wanted]),
        message_sql.LOAD_NEXT_COPIES(partner_ids=wanted, large=LARGE),
    )
    held = {row.id for found in locked for row in found}
    links = OutboundLinks.of(row for row in rows if row.id in held)
    lanes = {one: links.lane(one) for one in links if one not in asked}
    due = {one for one, lane in lanes.items() if lane.state in _TIMED and lane.is_due(links.now)}
    return Work(links, due, copies=copies)


def load_claimed(keys: Collection[int]) -> Work:
    """Those of these signals that were claimed with their message and that no sweep has taken over.
    Nothing is locked."""
    (rows,) = run(signals.READ_CLAIMED(keys=list(keys)))
    links = OutboundLinks(rows[0].now) if rows else OutboundLinks.none()
    return Work(links, set(), signals=rows)


def load_promised(
    partner_ids: list[int], keys: list[int], attempts: list[int]
) -> list[PromisedCopy]:
    """Those of these copies that are still promised: of each the partner, the row of the message,
    and the attempt. Nothing is locked."""
    asked = {"partner_ids": partner_ids, "keys": keys, "attempts": attempts}
    return run(message_sql.READ_PROMISED(**asked))[0]


def end_attempts(ended: Collection[EndedAttempt]) -> None:
    """Record that these attempts were transmitted, in a transaction of its own."""
    run(
        message_sql.END_ATTEMPTS(
            keys=[one.key for one in ended],
            attempts=[one.attempt for one in ended],
            statuses=[one.status for one in ended],
            details=[one.detail for one in ended],
        )
    )


def lock_links(places: Places) -> list[int]:
    _, *found = run(USE_INDEX_ORDER(), *_lock_links(places))
    return [row.partner_id for rows in found for row in rows]


def lock_best_effort(places: Places) -> list[WaitingMessage]:
    return run(USE_INDEX_ORDER(), _lock_best_effort(places))[1]


def lock_signals(places: Places) -> list[PendingSignal]:
    return run(USE_INDEX_ORDER(), _lock_signals(places))[1]


def _lock_links(places: Places) -> list[Call[Found]]:
    # Of full partners those may be passed over that wait for a place: fewer cannot fill the poll.
    full = list(places.full) if len(places.full) >= places.limit else []
    return [
        link_sql.LOCK_DUE(large=LARGE, full=full, limit=places.limit),
        link_sql.LOCK_DUE_WITH_LARGE_COPIES(large=LARGE, full=full, limit=places.limit_of_large),
        link_sql.LOCK_IDLE_WITH_QUEUE(limit=places.limit),
    ]


def _lock_best_effort(places: Places) -> Call[WaitingMessage]:
    return best_effort_sql.LOCK_WAITING(
        large=LARGE,
        full=list(places.full),
        limit=places.limit,
        limit_of_large=places.limit_of_large,
        of_partner=places.of_partner,
        limit_in_all=places.limit + places.limit_of_large,
    )


def _lock_signals(places: Places) -> Call[PendingSignal]:
    return signals.lock_pending(places.full, places.limit, places.of_partner)


def work_of_link(partner_id: int) -> Work:
    links = OutboundLinks.lock([partner_id])
    return Work(links, {one for one in links if links.lane(one).state in _TIMED})


def work_of_best_effort(key: int) -> Work:
    rows, (clock,) = run(best_effort_sql.LOCK_ONE_WAITING(key=key), CLOCK())
    return Work(OutboundLinks(clock.now), set(), best_effort=rows)


def work_of_signal(key: int) -> Work:
    rows, (clock,) = run(signals.LOCK_ONE_PENDING(key=key), CLOCK())
    return Work(OutboundLinks(clock.now), set(), signals=rows)
