"""How many attempts at a consumer did not succeed, in percent: on its page and in the list."""

from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from msh.admin.framework import curves
from msh.admin.framework.curves import ErrorRate, percent
from msh.models import Consumer, ConsumerKind
from msh.statistics.models import Statistics, Unit
from tests.admin.conftest import page_of, url
from tests.delivery.desk import consumer
from tests.flows.costs import statements_of

pytestmark = pytest.mark.django_db
HOUR = timedelta(hours=1)


def counted(system: Consumer, unit: Unit, ago: timedelta, **values: int) -> None:
    now = timezone.now()
    begins = now.replace(second=0, microsecond=0) - ago
    if unit is Unit.HOUR:
        begins = begins.replace(minute=0)
    Statistics.objects.create(unit=unit, begins=begins, consumer=system, **values)


def failing(name: str = "erp") -> Consumer:
    """In the last hour 30 of 40 attempts, in 24 hours 40 of 50, and all of the day before."""
    system = consumer(ConsumerKind.PULL, name=name, action=name)
    counted(system, Unit.MINUTE, timedelta(minutes=9), delivered=10, rejected=5)
    counted(system, Unit.MINUTE, timedelta(minutes=3), delivery_failures=20, in_doubt=5)
    counted(system, Unit.MINUTE, timedelta(minutes=61), delivery_failures=10)
    counted(system, Unit.HOUR, 0 * HOUR, delivered=10, rejected=5, delivery_failures=25)
    counted(system, Unit.HOUR, 23 * HOUR, delivery_failures=10)
    counted(system, Unit.HOUR, 24 * HOUR, delivery_failures=100)
    return system


def test_page_and_list_have_the_rate_of_an_hour_and_of_a_day(administrator: Client) -> None:
    system = failing()
    consumer(ConsumerKind.PULL, name="idle", action="Idle")

    page = page_of(administrator, system)
    listed = administrator.get(url(Consumer, "changelist")).content.decode()

    for shown in (page, listed):
        assert "75 % of 40, last hour" in shown
        assert "80 % of 50, 24 hours" in shown
        assert "100 of" not in shown, "older than a day"
    assert ", 24 hours" not in page_of(administrator, Consumer.objects.get(name="idle"))


def test_hour_without_attempts_is_no_rate_of_zero(administrator: Client) -> None:
    system = consumer(ConsumerKind.PULL, name="erp")
    counted(system, Unit.HOUR, 2 * HOUR, delivered=3)
    shown = page_of(administrator, system)
    assert "no attempts, last hour" in shown
    assert "0 % of 3, 24 hours" in shown


def test_all_consumers_of_a_page_are_counted_by_one_statement(administrator: Client) -> None:
    where = url(Consumer, "changelist")
    administrator.get(where)
    failing("one")
    of_one = len(statements_of(lambda: administrator.get(where)))
    failing("two")
    failing("three")
    assert len(statements_of(lambda: administrator.get(where))) == of_one


@pytest.mark.parametrize(
    ("failed", "attempts", "shown"),
    [
        *((0, 7, "0 %"), (7, 7, "100 %"), (1, 3, "33.3 %"), (1, 8, "12.5 %"), (12, 100, "12 %")),
        *((1, 100_000, "< 0.1 %"), (99_999, 100_000, "> 99.9 %"), (999, 1000, "99.9 %")),
    ],
)
def test_only_nothing_is_0_percent_and_only_all_is_100(
    failed: int, attempts: int, shown: str
) -> None:
    assert percent(failed, attempts) == shown


def test_nobody_counts_where_there_are_no_statistics(
    administrator: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    system = failing()
    monkeypatch.setattr(curves.rates, "_functions", [])
    assert curves.error_rates([system.pk]) == {}
    assert ", 24 hours" not in page_of(administrator, system)
    assert ErrorRate().attempts == 0
