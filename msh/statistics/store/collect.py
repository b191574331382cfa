"""Counts what happened, a batch at a time, each row of the history and each attempt once.

A batch and how far it came are one transaction, so that a crash repeats nothing and leaves nothing
out. Rows get their numbers before they are committed, and one that counts repetitions grows for a
minute: so a boundary is taken, and counted up to when it has SETTLED and all transactions that were
open then have ended. What is committed later is after the next boundary; it is added to the hour
that it belongs to.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.conf import settings
from django.db import transaction

from msh.models import History
from msh.statistics.models import StatisticsProgress, Unit
from msh.store.engine import USE_INDEX_ORDER, Call, run, run_all

from . import collect_sql as sql
from . import histogram
from .collect_sql import LinkEvent, OpenSuspension, Progress

BATCH = 5_000
"""Rows of the history, and attempts, that one transaction counts."""
BATCHES = 40
"""In one run: a backlog is counted by many runs."""
SETTLED = timedelta(seconds=90)
"""A repetition is counted in a row of the same minute."""
KEPT = {
    Unit.MINUTE: timedelta(days=2),
    Unit.HOUR: timedelta(days=8),
    Unit.DAY: timedelta(days=400),
    Unit.WEEK: timedelta(days=400),
}
"""The last day by the minute, the last week by the hour, and whole months for reports of a year
ago."""
KEPT_OF_EACH = timedelta(hours=2)
"""The minutes of partners and consumers: for curves of the last hour."""


def counted_up_to() -> datetime | None:
    """Return the time up to which everything is counted; None if nothing is."""
    return StatisticsProgress.objects.values_list("up_to", flat=True).first()


def happened_after(at: datetime, partner_ids: Sequence[int] | None) -> bool:
    """Whether anything happened to messages of these partners, or of any, that is not counted."""
    later = History.objects.filter(at__gt=at, subject=History.Subject.MESSAGE)
    if partner_ids is not None:
        later = later.filter(partner__in=partner_ids)
    return later.exists()


def is_counting() -> bool:
    """Whether statistics were ever asked for."""
    return StatisticsProgress.objects.exists()


def collect(batches: int = BATCHES) -> bool:
    """Count at most so many batches. Return whether there may be more at once."""
    run(sql.BEGIN())
    for _ in range(batches):
        with transaction.atomic():
            (rows,) = run(sql.LOCK())
            if not rows or not _step(rows[0]):
                return False
    return True


def look() -> None:
    """Note how much waits for each partner and consumer in this minute."""
    run(sql.LOOK())


def _step(progress: Progress) -> bool:
    """Count a batch, or take the next boundary. Return whether there is something to do at once. A
    clock that was set back begins again."""
    if progress.next_at is None or progress.now < progress.next_at:
        run(sql.SET_BOUNDARY(now=progress.now))
        return False
    if progress.fence is None or progress.fence > progress.own:  # of a cluster before a restore
        if progress.now - progress.next_at < SETTLED:
            return False
        run(sql.SET_FENCE(fence=progress.own))
        return True
    if progress.oldest < progress.fence:
        return False
    return _count(progress)


def _count(progress: Progress) -> bool:
    """Count a batch."""
    bounds = {
        "history_id": progress.history_id,
        "next_history_id": progress.next_history_id,
        "attempt_id": progress.attempt_id,
        "next_attempt_id": progress.next_attempt_id,
    }
    _, (last,) = run(USE_INDEX_ORDER(), sql.FIND_LAST(**bounds, limit=BATCH))
    if last.history_id is None and last.attempt_id is None:
        run_all([sql.REACH(), *_removals(progress.now)])
        return True
    if last.attempt_id is not None:
        first = progress.attempt_id
        run(sql.COUNT_ATTEMPTS(attempt_id=first, last=last.attempt_id, zone=settings.TIME_ZONE))
    if last.history_id is not None:
        _count_history(progress.history_id, last.history_id)
    run(
        sql.ADVANCE(
            history_id=last.history_id or progress.history_id,
            attempt_id=last.attempt_id or progress.attempt_id,
        )
    )
    return True


def _count_history(after: int, last: int) -> None:
    counts = sql.COUNT_HISTORY(
        history_id=after,
        last=last,
        zone=settings.TIME_ZONE,
        first=histogram.FIRST,
        growth=histogram.GROWTH,
        buckets=histogram.BUCKETS,
    )
    _, events = run(counts, sql.FIND_LINK_EVENTS(history_id=after, last=last))
    if events:
        partner_ids = sorted({event.partner_id for event in events})
        (known,) = run(sql.FIND_OPEN(partner_ids=partner_ids))
        run_all(list(_writes(fold(known, events))))


@dataclass(slots=True)
class Time:
    """A time during which a link was suspended. `id`: of its row, if there is one."""

    partner_id: int
    began_at: datetime
    ended_at: datetime | None = None
    id: int | None = None


def fold(known: Iterable[OpenSuspension], events: Iterable[LinkEvent]) -> Sequence[Time]:
    """Return the suspensions that events end or begin. A link that is suspended again stays so."""
    open_ones = {one.partner_id: Time(one.partner_id, one.began_at, id=one.id) for one in known}
    found = list(open_ones.values())
    for event in events:
        if not event.suspends:
            if ended := open_ones.pop(event.partner_id, None):
                ended.ended_at = max(event.at, ended.began_at)
        elif event.partner_id not in open_ones:
            begun = open_ones[event.partner_id] = Time(event.partner_id, event.at)
            found.append(begun)
    return [time for time in found if time.id is None or time.ended_at is not None]


def _writes(times: Iterable[Time]) -> Iterable[Call[object]]:
    for one in times:
        if one.id is None:
            yield sql.OPEN(partner_id=one.partner_id, began_at=one.began_at, ended_at=one.ended_at)
        else:
            yield sql.CLOSE(id=one.id, ended_at=one.ended_at)


def _removals(now: datetime) -> Iterable[Call[object]]:
    for unit, kept in KEPT.items():
        yield sql.REMOVE_TIMES(unit=unit.value, before=now - kept)
        yield sql.REMOVE(unit=unit.value, before=now - kept)
    yield sql.REMOVE_MINUTES(before=now - KEPT_OF_EACH)
    yield sql.REMOVE_SUSPENSIONS(before=now - KEPT[Unit.DAY])
