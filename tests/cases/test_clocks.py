"""Case 44: clocks that differ, and hours that summer time repeats or leaves out. What a clock that
is set back does to waits is in tests/flows/test_times.py, to retention in
tests/delivery/test_prune_clocks.py."""

from datetime import UTC, datetime, timedelta

import pytest
import time_machine
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from msh import health
from msh.models import MaintenanceWindow
from msh.store.operations.operator_actions import open_links
from tests.admin.conftest import use
from tests.flows.world import World, make_world

pytestmark = pytest.mark.django_db

END = {"ends_at": "2027-10-31 06:00"}


@pytest.fixture
def world() -> World:
    made = make_world()
    open_links(made.there)
    return made


@pytest.fixture
def madrid() -> Client:
    """Somebody there."""
    client = Client()
    client.force_login(
        User.objects.create_superuser("ann"), backend="django.contrib.auth.backends.ModelBackend"
    )
    client.post(reverse("time_zone"), {"zone": "Europe/Madrid"})
    return client


@pytest.mark.parametrize(
    ("starts", "words"),
    [
        ("2027-10-31 02:30", ["comes twice in Europe/Madrid", "+02:00", "+01:00"]),
        ("2027-03-28 02:30", ["does not exist in Europe/Madrid"]),
    ],
)
def test_window_in_an_hour_that_is_no_one_time_is_refused(
    madrid: Client, world: World, starts: str, words: list[str]
) -> None:
    answer = use(madrid, "plan_maintenance", world.link, "release", starts_at=starts, **END)
    for one in words:
        assert one in answer.content.decode()
    assert not MaintenanceWindow.objects.exists()


@pytest.mark.parametrize(("offset", "hour"), [("+02:00", 0), ("+01:00", 1)])
def test_window_in_the_repeated_hour_is_the_instant_that_was_chosen(
    madrid: Client, world: World, offset: str, hour: int
) -> None:
    starts = f"2027-10-31 02:30{offset}"
    use(madrid, "plan_maintenance", world.link, "release", starts_at=starts, **END)
    window = MaintenanceWindow.objects.get()
    assert window.starts_at == datetime(2027, 10, 31, hour, 30, tzinfo=UTC)
    assert window.ends_at == datetime(2027, 10, 31, 5, 0, tzinfo=UTC)


def test_window_that_lasts_over_the_change_lasts_so_long(madrid: Client, world: World) -> None:
    use(madrid, "plan_maintenance", world.link, "x", starts_at="2027-10-31 01:30", lasts="120")
    window = MaintenanceWindow.objects.get()
    assert window.ends_at - window.starts_at == timedelta(hours=2)


def test_clocks_that_differ_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """It stays ready: nothing that is due depends on it."""
    monkeypatch.setattr(health, "ASKED_EVERY", 0.0)
    for minutes, said in ((0, "ok"), (10, "differs from that of the database"), (-10, "differs")):
        with time_machine.travel(timezone.now() + timedelta(minutes=minutes), tick=True):
            report = Client().get("/health/ready")
        assert report.status_code == 200
        assert report.json()["clock"].startswith(said)
