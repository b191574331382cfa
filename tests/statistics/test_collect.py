"""What is counted, beside a direct count over the raw tables; crashes, late rows and what it
costs."""

from collections.abc import Callable
from datetime import timedelta
from random import Random
from typing import Any

import psycopg
import pytest
from django.db import connection

from msh.models import Consumer, Delivery, History, InboundMessage, OutboundMessage
from msh.statistics.models import (
    AcknowledgementTime,
    Statistics,
    StatisticsProgress,
    Suspension,
    Unit,
)
from msh.statistics.store import collect as collecting
from msh.statistics.store import collect_sql, histogram
from msh.statistics.store.collect import collect, counted_up_to
from msh.statistics.store.read import series
from msh.statistics.store.span import Span
from msh.tasks import collect_statistics
from tests.flows.costs import cost_of, multiply, statements_of
from tests.waiting import wait_until

from .happenings import (
    NOON,
    Cast,
    cast,
    collect_all,
    counted,
    expected,
    settle,
    take_boundary,
    times,
)

__all__ = ["cast"]
pytestmark = pytest.mark.django_db

ROWS = 8
"""That count one event: its minute, hour, day and week, of its agreement and of all."""
HOUR, DAY, SECOND = timedelta(hours=1), timedelta(days=1), timedelta(seconds=1)
YEARS = timedelta(days=36_500)
ACKNOWLEDGED = {"direction": "out", "event": "AckReceived", "to_state": "acknowledged"}
SUSPENDED = {"subject": "link", "direction": "out", "to_state": "suspended"}
COUNTING = (collect_sql.FIND_LAST, collect_sql.COUNT_HISTORY, collect_sql.FIND_LINK_EVENTS)
RESUMED = {"subject": "link", "direction": "out", "from_state": "suspended"}


@pytest.fixture(autouse=True)
def kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever day it is: these tests have a date of their own."""
    monkeypatch.setattr(collecting, "KEPT", dict.fromkeys(Unit, YEARS))
    monkeypatch.setattr(collecting, "KEPT_OF_EACH", YEARS)


@pytest.mark.parametrize("seed", [1, 2])
def test_counts_are_those_of_the_raw_tables(
    cast: Cast, seed: int, monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    """In pieces that happen while it is counted, by small batches, of which some crash."""
    settings.TIME_ZONE = "Asia/Kolkata"
    monkeypatch.setattr(collecting, "BATCH", 7)
    chance = Random(seed)
    for _ in range(4):
        for _ in range(15):
            cast.random_event(chance, NOON)
        crashes(monkeypatch, after=chance.randrange(1, 3))
        collect_all()
    assert counted() == expected(cast)
    of_days = (counts for key, counts in counted().items() if key[0] == Unit.DAY)
    acknowledged = sum(counts["acknowledged"] for counts in of_days)
    for unit in Unit:
        assert sum(times(unit).values()) == (0 if unit is Unit.MINUTE else acknowledged)
    assert acknowledged > 0


def crashes(monkeypatch: pytest.MonkeyPatch, after: int) -> None:
    """The process that counts dies in this batch, before it notes how far it came."""
    take_boundary()
    settle()
    done = collecting._count_history

    def dies(first: int, last: int) -> None:
        nonlocal after
        done(first, last)
        after -= 1
        if not after:
            raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(collecting, "_count_history", dies)
        with pytest.raises(MemoryError):
            collect()


def test_nothing_is_counted_before_it_has_settled(cast: Cast) -> None:
    """A repetition is counted in its row for a minute."""
    row = cast.happened(
        cast.agreements[0], NOON, direction="in", event="DuplicateArrived", message_id="m"
    )
    for _ in range(3):
        collect()
    assert (counted(), counted_up_to()) == ({}, None)
    History.objects.filter(pk=row.pk).update(times=2, last_at=NOON)
    taken = StatisticsProgress.objects.get().next_at
    settle()
    collect()
    assert [counts["duplicates"] for counts in counted().values()] == [2] * ROWS
    assert taken is not None
    assert counted_up_to() == taken - collecting.SETTLED


@pytest.mark.django_db(transaction=True)
def test_row_that_is_committed_late_is_counted(cast: Cast) -> None:
    """It has a smaller number than one that is committed before it: so what is counted waits for
    all transactions that were open when the boundary had settled."""
    agreement = cast.agreements[0]
    with psycopg.connect(_conninfo()) as slow:
        slow.execute(
            "INSERT INTO msh_history (partner_id, at, direction, subject, event, message_id,"
            " from_state, to_state, detail)"
            " VALUES (%s, %s, 'in', 'message', 'DuplicateArrived', 'late', '', '', '')",
            (agreement.partner_id, NOON),
        )
        cast.happened(agreement, NOON, direction="in", event="DuplicateArrived", message_id="early")
        take_boundary()
        StatisticsProgress.objects.update(next_at=NOON - YEARS)
        for _ in range(2):
            collect_statistics()
            assert StatisticsProgress.objects.get().fence is not None
            assert counted() == {}
    wait_until(lambda: collect() or counted())
    assert [counts["duplicates"] for counts in counted().values()] == [2] * ROWS


def _conninfo() -> str:
    given = connection.get_connection_params()
    names = ("host", "port", "user", "password", "dbname")
    return psycopg.conninfo.make_conninfo(**{n: given[n] for n in names if given.get(n)})


def test_time_to_acknowledgement_is_read_within_the_stated_error(cast: Cast) -> None:
    agreement = cast.agreements[0]
    waited = [0.0002, 0.004, 0.3, 1.0, 2.0, 59.0, 61.0, 3_600.0, 86_400.0]
    for seconds in waited:
        sent = NOON - timedelta(seconds=seconds)
        message_id = cast.message(agreement, out=True, size=1, at=sent)
        cast.happened(agreement, NOON, message_id=message_id, **ACKNOWLEDGED)
    collect_all()
    numbers = {bucket: number for (of, bucket), number in times().items() if of is None}
    for place, seconds in enumerate(waited):
        found = histogram.quantile(numbers, (place + 1) / len(waited))
        assert found == pytest.approx(max(seconds, histogram.FIRST), rel=histogram.ERROR + 1e-9)


def test_message_that_was_rewound_has_no_second_time(cast: Cast) -> None:
    agreement = cast.agreements[0]
    message_id = cast.message(agreement, out=True, size=1)
    OutboundMessage.objects.update(earlier_attempts=1)
    cast.happened(agreement, NOON + DAY, message_id=message_id, **ACKNOWLEDGED)
    collect_all()
    assert [counts["acknowledged"] for counts in counted().values()] == [1] * ROWS
    assert times() == {}


def test_suspensions_are_the_times_between(cast: Cast) -> None:
    one, other = cast.agreements[:2]
    story = [(one, SUSPENDED, 0), (other, SUSPENDED, 1), (one, SUSPENDED, 2), (one, RESUMED, 3)]
    for agreement, what, hours in story:
        cast.happened(agreement, NOON + hours * HOUR, event="x", **what)
    collect_all()
    found = Suspension.objects.order_by("began_at").values_list("began_at", "ended_at")
    assert list(found) == [(NOON, NOON + 3 * HOUR), (NOON + HOUR, None)]
    for agreement, what, hours in [(other, RESUMED, 4), (one, RESUMED, 5), (one, SUSPENDED, 6)]:
        cast.happened(agreement, NOON + hours * HOUR, event="x", **what)
    collect_all()
    assert list(found.all()) == [
        (NOON, NOON + 3 * HOUR),
        (NOON + HOUR, NOON + 4 * HOUR),
        (NOON + 6 * HOUR, None),
    ]


def test_what_is_older_than_it_is_kept_goes(cast: Cast, monkeypatch: pytest.MonkeyPatch) -> None:
    message_id = cast.message(cast.agreements[0], out=True, size=1, at=NOON - SECOND)
    cast.happened(cast.agreements[0], NOON, message_id=message_id, **ACKNOWLEDGED)
    collect_all()
    assert times(Unit.HOUR)
    kept = {Unit.MINUTE: HOUR, Unit.HOUR: HOUR, Unit.DAY: YEARS, Unit.WEEK: YEARS}
    monkeypatch.setattr(collecting, "KEPT", kept)
    collect_all()
    assert set(Statistics.objects.values_list("unit", flat=True)) == {"day", "week"}
    assert times()


def test_minutes_of_a_partner_go_before_those_of_the_msh(
    cast: Cast, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thousand partners have a thousand rows a minute."""
    message_id = cast.message(cast.agreements[0], out=True, size=1)
    cast.happened(cast.agreements[0], NOON, message_id=message_id, **ACKNOWLEDGED)
    monkeypatch.setattr(collecting, "KEPT_OF_EACH", HOUR)
    collect_all()
    minutes = Statistics.objects.filter(unit=Unit.MINUTE)
    assert [row.partner for row in minutes] == [None]
    assert Statistics.objects.filter(unit=Unit.HOUR).count() == 2


def test_deliveries_are_counted_by_their_consumer(cast: Cast) -> None:
    """By the minute and the hour, and beside the partner's counts, which have no deliveries. What
    is counted of the whole MSH in the same hour stays its own."""
    agreement, shop = cast.agreements[0], Consumer.objects.create(name="shop", kind="pull")
    sent = cast.message(agreement, out=True, size=1, at=NOON - SECOND)
    cast.happened(agreement, NOON, message_id=sent, **ACKNOWLEDGED)
    delivered = {"event": "MessageDelivered", "from_state": "accepted", "to_state": "delivered"}
    failed = {"event": "AttemptFailed", "from_state": "processing", "to_state": "blocked"}
    for what in (delivered, delivered, failed):
        message_id = cast.message(agreement, out=False, size=1)
        message = InboundMessage.objects.get(message_id=message_id)
        Delivery.objects.create(
            consumer=shop, message=message, state="completed", attempt=1, started_at=NOON
        )
        cast.happened(agreement, NOON, direction="in", message_id=message_id, **what)
    collect_all()
    rows = Statistics.objects.filter(consumer=shop, partner=None, agreement=None)
    assert {row.unit: (row.delivered, row.delivery_failures) for row in rows} == {
        Unit.MINUTE: (2, 1),
        Unit.HOUR: (2, 1),
    }
    assert Statistics.objects.exclude(consumer=None).count() == 2
    assert not AcknowledgementTime.objects.filter(slot__in=rows).exists()
    hours = series(Span(Unit.HOUR, NOON - HOUR, NOON + HOUR))
    assert [one.counts.delivery_failures for one in hours.values()] == [1]
    of_others = Statistics.objects.filter(consumer=None).values_list("delivered", flat=True)
    assert set(of_others) == {0}


def test_second_worker_leaves_it_to_the_first(cast: Cast) -> None:
    assert statements_of(collect)[-1].statement is collect_sql.SET_BOUNDARY
    assert collect() is False


def cost_of_next(act: Callable[[], object]) -> int:
    """Rows and pages of what counting one further batch runs."""
    act()
    take_boundary()
    settle()
    seen = statements_of(lambda: collect(1))
    return sum(cost_of(call) for call in seen if call.statement in COUNTING)


def test_cost_follows_new_rows_and_not_stored_ones(cast: Cast) -> None:
    agreement = cast.agreements[0]

    def acknowledged() -> None:
        message_id = cast.message(agreement, out=True, size=1)
        cast.happened(agreement, NOON, message_id=message_id, **ACKNOWLEDGED)

    first = cost_of_next(acknowledged)
    collect_all()
    multiply(History.objects.latest("pk"), 10_000)
    multiply(OutboundMessage.objects.latest("pk"), 5_000, message_id="'many-' || n")
    StatisticsProgress.objects.update(history_id=History.objects.latest("pk").pk)
    # To read all rows would cost several hundred; a level more of each index is none of that.
    assert cost_of_next(acknowledged) <= first + 100
