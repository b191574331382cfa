"""Maintenance windows: suspended and resumed by the clock, in the name of whoever planned them."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from uuid import uuid4

import pytest
from django.db import transaction
from django.utils import timezone
from pytest_django import Settings

from msh.alerts.flows.notify_operators import notify_operators
from msh.alerts.models import OperatorNotice
from msh.flows.errors import NotPossible, SecondPersonNeeded
from msh.flows.operations import change_link, maintenance, watch
from msh.flows.operations.maintenance import BEING_CANCELLED, STAYS_SUSPENDED
from msh.flows.operations.many.cancel_queue import cancel_queue
from msh.four_eyes.flows import requests
from msh.models import History, Incident, MaintenanceWindow, OutboundLink
from msh.store.history import Actor
from msh.store.operations.operator_actions import open_links
from tests.admin.conftest import suspended_world
from tests.flows.flying import SILENT, make_sky
from tests.flows.watch.watching import let_age, silent
from tests.flows.world import World, make_world
from tests.peer import Peer, status
from tests.sessions import in_another_session

from .conftest import bodies, name, recipient

pytestmark = pytest.mark.django_db

HOUR = timedelta(hours=1)
ANN, BOB = Actor("ann", "their release 7"), Actor("bob", "by hand")


def planned(
    world: World, starts_in: timedelta = -HOUR, lasts: timedelta = 2 * HOUR
) -> MaintenanceWindow:
    open_links(world.there)
    start = timezone.now() + starts_in
    return MaintenanceWindow.objects.create(
        partner=world.there, starts_at=start, ends_at=start + lasts,
        reason="their release 7", planned_by="ann",
    )  # fmt: skip


def ends_now(window: MaintenanceWindow) -> None:
    MaintenanceWindow.objects.filter(pk=window.pk).update(ends_at=timezone.now())


def clock() -> None:
    watch.follow_maintenance()


def acts(world: World) -> list[tuple[str, str, str]]:
    """The transitions of the link: by whom, from what, to what."""
    rows = History.objects.filter(partner=world.there, subject="link").order_by("pk")
    return [(row.actor, row.from_state, row.to_state) for row in rows]


def test_link_is_suspended_and_resumed_in_the_name_of_the_planner(world: World) -> None:
    window = planned(world)
    clock()
    window.refresh_from_db()
    assert (window.state, world.link.state) == ("running", "suspended")
    world.submit()
    assert world.poll() == []
    clock()

    ends_now(window)
    clock()
    window.refresh_from_db()
    assert (window.state, window.outcome) == ("ended", "Suspended. Resumed.")
    assert window.ended_by == "msh"
    assert len(world.poll()) == 1
    assert acts(world)[:2] == [("ann", "idle", "suspended"), ("ann", "suspended", "idle")]
    details = History.objects.filter(actor="ann").order_by("pk").values_list("detail", flat=True)
    assert f"maintenance window {window.pk} until" in details[0]
    assert all("their release 7" in detail for detail in details)


def test_window_that_has_not_begun_does_nothing(world: World) -> None:
    planned(world, starts_in=HOUR)
    clock()
    assert world.link.state == "idle"


def test_link_that_was_suspended_before_is_not_resumed(world: World) -> None:
    change_link.suspend(world.there, BOB)
    window = planned(world)
    clock()
    ends_now(window)
    clock()
    window.refresh_from_db()
    assert (window.state, world.link.state) == ("ended", "suspended")
    assert window.outcome == "The link was already suspended, so this window does not resume it."


def test_link_that_was_suspended_before_is_resumed_if_chosen(world: World) -> None:
    now = timezone.now()
    change_link.suspend(world.there, BOB)
    maintenance.plan(
        world.there, ANN, starts_at=now - HOUR, ends_at=now + HOUR, resume_suspended=True
    )
    clock()
    window = MaintenanceWindow.objects.get()
    assert (window.state, window.suspended_since) == ("running", world.link.suspended_since)
    ends_now(window)
    clock()
    window.refresh_from_db()
    assert (window.state, world.link.state) == ("ended", "idle")
    assert window.outcome.endswith("this window resumes it, as planned. Resumed.")


@pytest.mark.django_db(transaction=True)
def test_nobody_resumes_while_the_window_looks_whether_the_link_is_suspended(world: World) -> None:
    """A late Acknowledgement, say: the window would say that the link is suspended."""
    change_link.suspend(world.there, BOB)
    window = planned(world)

    def find_free() -> list[OutboundLink]:
        links = OutboundLink.objects.filter(partner=world.there)
        with transaction.atomic():
            return list(links.select_for_update(skip_locked=True, no_key=True))

    assert in_another_session(find_free) == [world.link]
    with transaction.atomic():
        maintenance.follow(window.pk)
        assert in_another_session(find_free) == []


@pytest.mark.parametrize("chosen", [True, False])
def test_partner_that_was_silent_before_is_not_probed_in_its_window(chosen: bool) -> None:
    """A probe would begin another suspension, or start to send."""
    world, _, first = silent(probe_interval=60)
    let_age(world)
    now = timezone.now()
    window = maintenance.plan(
        world.there, ANN, starts_at=now - HOUR, ends_at=now + HOUR, resume_suspended=chosen
    )
    clock()
    assert (watch.probe(), world.poll()) == (0, [])
    ends_now(window)
    clock()

    window.refresh_from_db()
    assert window.outcome.endswith("Resumed." if chosen else STAYS_SUSPENDED)
    assert watch.probe() == (0 if chosen else 1)
    (copy,) = world.poll()
    assert copy.body == first.body


def test_partner_of_flights_that_was_unreachable_is_not_probed_in_its_window() -> None:
    """Not in a round that is for all, nor when something is submitted to it."""
    sky = make_sky(probe_interval=30)
    for _ in range(9):
        sky.submit()
    while sky.link.state != "suspended":
        for job in sky.poll():
            sky.end(job, SILENT)
        sky.let_pass(61)  # it is not for eight failures alone
    now = timezone.now()
    window = maintenance.plan(sky.partner, ANN, starts_at=now - HOUR, ends_at=now + HOUR)
    clock()
    sky.let_pass(40)
    assert (sky.poll(), sky.poll(everything=False)) == ([], [])
    ends_now(window)
    clock()
    assert len(sky.poll()) == 1


def test_suspension_that_is_not_of_the_window_is_not_resumed(world: World) -> None:
    """An operator resumed in the window, and suspended again by hand."""
    window = planned(world)
    clock()
    change_link.resume(world.there, BOB)
    change_link.suspend(world.there, BOB)
    ends_now(window)
    clock()
    window.refresh_from_db()
    assert world.link.state == "suspended"
    assert window.state == "ended"
    assert window.outcome.startswith(
        f"Suspended. Not resumed. The link to partner {name(world)} has"
    )


@pytest.mark.parametrize("second_person", [[], ["bulk_cancel"]])
def test_link_whose_queue_is_being_cancelled_is_not_resumed(
    settings: Settings, second_person: list[str]
) -> None:
    """Nor one whose queue is cancelled if a second person agrees: it would send the messages."""
    settings.MSH_SECOND_PERSON = second_person
    world = make_world()
    window = planned(world)
    clock()
    last = world.submit()
    with asking():
        cancel_queue(world.link, BOB, last.pk, uuid4())
    ends_now(window)
    clock()

    window.refresh_from_db()
    assert (window.state, world.link.state) == ("ended", "suspended")
    assert window.outcome == f"Suspended. {BEING_CANCELLED}"


@contextmanager
def asking() -> Iterator[None]:
    try:
        yield
    except SecondPersonNeeded as needed:
        requests.ask(needed)


def test_window_that_passed_while_the_msh_was_down() -> None:
    running, missed = make_world(), make_world()
    window = planned(running)
    clock()
    never = planned(missed, starts_in=-3 * HOUR)
    MaintenanceWindow.objects.filter(pk=window.pk).update(ends_at=timezone.now() - HOUR / 2)

    clock()
    for one in (window, never):
        one.refresh_from_db()
    assert (window.state, running.link.state) == ("ended", "idle")
    assert (never.state, missed.link.state) == ("missed", "idle")
    assert "The MSH was down" in never.outcome
    assert acts(missed) == []


# --- planning -------------------------------------------------------------------------------------


def plan(world: World, starts_in: timedelta, ends_in: timedelta) -> MaintenanceWindow:
    now = timezone.now()
    return maintenance.plan(world.there, ANN, starts_at=now + starts_in, ends_at=now + ends_in)


@pytest.mark.parametrize(
    ("starts_in", "ends_in", "why"),
    [
        (2 * HOUR, 4 * HOUR, "has a window from .* UTC to .* UTC, planned by ann"),
        (-HOUR, 2 * HOUR, "has a window from"),
        (HOUR, HOUR, "the end must be after the beginning and in the future"),
        (-2 * HOUR, -HOUR, "the end must be after the beginning and in the future"),
        (4 * HOUR, timedelta(days=40), "a window is at most 31 days long"),
    ],
)
def test_impossible_windows_are_refused_in_words(
    world: World, starts_in: timedelta, ends_in: timedelta, why: str
) -> None:
    plan(world, HOUR, 3 * HOUR)
    with pytest.raises(NotPossible, match=why):
        plan(world, starts_in, ends_in)


def test_windows_of_other_partners_and_cancelled_ones_do_not_overlap() -> None:
    world, other = make_world(), make_world()
    plan(other, HOUR, 3 * HOUR)
    maintenance.end(plan(world, HOUR, 3 * HOUR), BOB)
    window = plan(world, HOUR, 3 * HOUR)
    assert (window.planned_by, window.reason) == ("ann", "their release 7")


def test_window_is_cancelled_or_ended_early(world: World) -> None:
    window = plan(world, -HOUR, HOUR)
    clock()
    maintenance.end(window, BOB)
    window.refresh_from_db()
    assert (window.state, window.ended_by, world.link.state) == ("ended", "bob", "idle")
    assert acts(world)[1] == ("bob", "suspended", "idle")
    with pytest.raises(NotPossible, match="The window has already ended"):
        maintenance.end(window, BOB)
    later = plan(world, HOUR, 2 * HOUR)
    maintenance.end(later, BOB)
    later.refresh_from_db()
    assert (later.state, later.outcome) == ("cancelled", "Cancelled: by hand")


# --- calls ----------------------------------------------------------------------------------------


@pytest.fixture
def hook() -> object:
    with Peer() as peer:
        recipient("ops", url=peer.address, wait=10)
        yield peer


def test_nobody_is_called_before_the_window_is_over(hook: Peer) -> None:
    world, other = suspended_world(), suspended_world()
    window = planned(world)
    assert notify_operators() == 1
    assert [one["partner"] for one in bodies(hook)[0]["notices"]] == [name(other)]
    clock()
    assert notify_operators() == 0
    ends_now(window)
    assert notify_operators() == 0, "it was not resumed yet"
    clock()

    assert notify_operators() == 1
    assert [one["partner"] for one in bodies(hook)[1]["notices"]] == [name(world)]


def test_what_came_and_went_in_the_window_is_never_told(world: World, hook: Peer) -> None:
    window = planned(world)
    clock()
    now = timezone.now()
    Incident.objects.create(
        partner=world.there, direction="in", kind="backlog",
        opened_at=now, last_at=now, resolved_at=now,
    )  # fmt: skip
    ends_now(window)
    clock()
    assert notify_operators() == 0
    assert not OperatorNotice.objects.exists()


def test_nobody_is_called_again_in_the_window(hook: Peer) -> None:
    world = suspended_world()
    notify_operators()
    window = planned(world)
    Incident.objects.update(next_turn=timezone.now())
    assert notify_operators() == 0
    MaintenanceWindow.objects.filter(pk=window.pk).delete()
    assert notify_operators() == 1


def test_call_that_failed_before_the_window_waits(hook: Peer) -> None:
    world = suspended_world()
    hook.script(status(503))
    notify_operators()
    OperatorNotice.objects.update(due=timezone.now())
    planned(world)
    assert notify_operators() == 0
    assert OperatorNotice.objects.get().tries == 1


def test_link_that_waits_for_its_window_is_not_stuck(settings: Settings) -> None:
    settings.MSH_STUCK_AFTER = 0
    worlds = [make_world(), make_world()]
    planned(worlds[0])
    for world in worlds:
        world.submit()
        change_link.suspend(world.there, BOB)
    watch.find_stuck()
    assert set(Incident.objects.values_list("partner__name", flat=True)) == {name(worlds[1])}
