"""Retention with a clock that is wrong, or was."""

from datetime import timedelta

import pytest
import time_machine
from django.core.management import CommandError, call_command
from django.utils import timezone
from pytest_django import Settings

from msh.flows.operations.prune import ClockDoubtful, prune_all
from msh.models import InboundMessage, Incident, OutboundMessage, PruneRun
from msh.tasks import prune
from tests.delivery.pruning import YEARS_AGO, numbers, old_world
from tests.sql import execute, without_triggers

pytestmark = pytest.mark.django_db


def test_clocks_that_are_far_apart_remove_nothing() -> None:
    old_world()
    with time_machine.travel(timezone.now() - timedelta(days=366), tick=True):
        with pytest.raises(ClockDoubtful, match="days apart"):
            prune_all()
        with pytest.raises(CommandError, match="days apart"):
            call_command("prune")
    assert numbers()[1] == [1, 2, 3, 4]
    with time_machine.travel(timezone.now() - timedelta(hours=3), tick=True):
        assert prune_all()["inbound messages"] == 2


def test_rows_that_are_old_by_only_one_clock_stay(settings: Settings) -> None:
    """The database's clock is less than a day ahead: what it calls old may be young. It may also
    have been a day behind when it dated it."""
    old_world()
    hours_old = timezone.now() - timedelta(days=settings.MSH_KEEP_MESSAGES + 1, hours=1)
    InboundMessage.objects.filter(delivered_at=YEARS_AGO).update(delivered_at=hours_old)
    OutboundMessage.objects.filter(completed_at=YEARS_AGO).update(completed_at=hours_old)
    with time_machine.travel(timezone.now() - timedelta(hours=23), tick=True):
        removed = prune_all()
    assert (removed["inbound messages"], removed["outbound messages"]) == (0, 0)
    with time_machine.travel(timezone.now() + timedelta(hours=23), tick=True):
        removed = prune_all()
    assert (removed["inbound messages"], removed["outbound messages"]) == (2, 3)


def let_last_run_be(days_ago: int) -> None:
    PruneRun.objects.create(pk=1, at=timezone.now() - timedelta(days=days_ago))


def test_a_clock_that_has_jumped_ahead_since_the_last_run_removes_nothing() -> None:
    """Both clocks are of one machine: they agree."""
    world = old_world()
    let_last_run_be(days_ago=366)

    with pytest.raises(ClockDoubtful, match="366 days have passed"):
        prune_all()
    with pytest.raises(CommandError, match=r"manage\.py prune --the-clock-is-right"):
        call_command("prune")
    prune()  # as beat does it

    assert numbers()[1] == [1, 2, 3, 4]
    incident = Incident.objects.get()
    assert (incident.kind, incident.direction) == ("clock_doubtful", "in")
    assert "prune --the-clock-is-right" in incident.detail
    assert incident.partner in (world.here, world.there)


def test_an_operator_says_that_the_clock_is_right() -> None:
    old_world()
    let_last_run_be(days_ago=366)
    prune()

    call_command("prune", "--the-clock-is-right")

    assert numbers()[1] == [1, 4]
    assert Incident.objects.get().resolved_at is not None
    assert PruneRun.objects.filter(at__gt=timezone.now() - timedelta(minutes=5)).exists()
    prune_all()


def test_before_the_first_run_the_newest_history_says_what_the_time_was() -> None:
    old_world()
    with without_triggers("msh_history"):
        execute("UPDATE msh_history SET at = at - interval '40 days'")
    with pytest.raises(ClockDoubtful, match="40 days have passed"):
        prune_all()


@pytest.mark.parametrize("days", [-400, 0, 34])
def test_month_without_a_run_or_slow_clock_is_no_doubt(
    days: int,
) -> None:
    old_world()
    let_last_run_be(days_ago=days)
    assert prune_all()["inbound messages"] == 2
    assert PruneRun.objects.filter(at__gt=timezone.now() - timedelta(minutes=5)).exists()


def test_an_msh_that_has_nothing_yet_is_pruned_without_a_doubt() -> None:
    assert sum(prune_all().values()) == 0
