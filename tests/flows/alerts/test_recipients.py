"""Who is called when: severity, partner, escalation, quiet hours and their digest."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone
from pytest_django import Settings

from msh.alerts.flows.notify_operators import notify_operators
from msh.alerts.models import AlertRecipient, Channel, OperatorNotice
from msh.flows.operations import change_incident, change_link
from msh.models import Incident
from msh.store.history import Actor
from tests.admin.conftest import suspended_world
from tests.peer import Peer, status

from .conftest import SECRET, bodies, minutes_pass, name, partners_called, recipient

pytestmark = pytest.mark.django_db

ANN = Actor("ann", "I look at it")


def quiet_now(**values: Any) -> dict[str, Any]:
    """Quiet hours that end neither today nor tomorrow."""
    today = timezone.now().isoweekday()
    days = "".join(sorted(f"{today}{today % 7 + 1}"))
    return {"quiet_all_day": days, "time_zone": "UTC", "critical_through": False, **values}


def over_now() -> None:
    """The quiet hours are over, and what was held back is due."""
    AlertRecipient.objects.update(quiet_all_day="")
    OperatorNotice.objects.filter(sent_at=None).update(due=timezone.now())


def gap(world: Any) -> Incident:
    """An incident of severity warning."""
    now = timezone.now()
    return Incident.objects.create(
        partner=world.there, direction="in", kind="sequence_gap", opened_at=now, last_at=now
    )


def called(**which: Any) -> list[str]:
    sent = OperatorNotice.objects.filter(sent_at__isnull=False, **which).order_by("pk")
    return list(sent.values_list("to", flat=True))


def test_recipients_are_called_by_severity_and_partner(hook: Peer) -> None:
    one, other = suspended_world(), suspended_world()
    gap(one)
    recipient("all", url=hook.address)
    recipient("night", url=hook.address, at_least="critical")
    recipient("account", url=hook.address, partners=[other.there])

    assert notify_operators() == 6
    assert sorted(map(sorted, partners_called(hook))) == sorted(
        map(sorted, [[name(one), name(one), name(other)], [name(one), name(other)], [name(other)]])
    )
    assert notify_operators() == 0


def test_settings_and_recipients_are_called_together(hook: Peer, settings: Settings) -> None:
    settings.MSH_OPERATORS_WEBHOOK = hook.address
    recipient("ops", url=hook.address)
    suspended_world()

    assert notify_operators() == 2
    assert called() == ["", "ops"]


def test_next_step_is_called_until_somebody_takes_the_incident(hook: Peer) -> None:
    recipient("first", url=hook.address, wait=10)
    recipient("second", url=hook.address, step=2, wait=15)
    suspended_world()
    notify_operators()
    assert notify_operators() == 0  # the ten minutes have not passed
    incident = Incident.objects.get()
    assert incident.next_turn is not None
    wait = incident.next_turn - timezone.now()
    assert timedelta(minutes=9, seconds=50) < wait <= timedelta(minutes=10)

    for _ in range(2):
        minutes_pass()
        notify_operators()
    assert called() == ["first", "second", "first"]

    change_incident.take(incident, ANN)
    minutes_pass()
    assert notify_operators() == 0
    change_incident.assign(incident, ANN, "")  # given back: the next one is called at once
    assert notify_operators() == 1
    assert called()[-1] == "second"


def test_nobody_is_called_again_about_a_resolved_incident(hook: Peer) -> None:
    recipient("first", url=hook.address, wait=10)
    world = suspended_world()
    notify_operators()
    change_link.resume(world.there, ANN)
    minutes_pass()

    assert notify_operators() == 0
    assert Incident.objects.get().next_turn is None


def test_settings_are_not_called_again(hook: Peer, settings: Settings) -> None:
    settings.MSH_OPERATORS_WEBHOOK = hook.address
    recipient("first", url=hook.address, wait=10)
    suspended_world()
    notify_operators()
    minutes_pass()
    notify_operators()
    assert sorted(called()) == ["", "first", "first"]


def test_what_is_held_back_is_one_digest_at_the_end(hook: Peer) -> None:
    recipient("sleeper", url=hook.address, wait=10, **quiet_now())
    first, second = suspended_world(), suspended_world()
    assert notify_operators() == 0
    minutes_pass()
    assert notify_operators() == 0  # two turns of one incident are shown once
    change_link.resume(first.there, Actor("bob", "it was up again"))
    change_incident.take(Incident.objects.get(partner=second.there), ANN)

    over_now()
    assert notify_operators() == 4
    (body,) = bodies(hook)
    assert body["digest"]
    shown = {one["partner"]: one["state"] for one in body["notices"]}
    assert shown[name(first)].startswith("resolved ")
    assert shown[name(second)] == "assigned to ann"


def test_critical_gets_through_if_so_chosen(hook: Peer) -> None:
    recipient("sleeper", url=hook.address, **quiet_now(critical_through=True))
    world = suspended_world()
    gap(world)
    assert notify_operators() == 1
    (body,) = bodies(hook)
    assert [one["what"] for one in body["notices"]] == ["refused_by_peer"]
    held = OperatorNotice.objects.get(sent_at=None)
    assert (held.held, held.kind) == (True, "sequence_gap")
    assert held.due > timezone.now()


def test_event_for_what_was_resolved_in_quiet_hours_is_not_sent(hook: Peer) -> None:
    recipient("pd", Channel.PAGERDUTY, url=hook.address, key=SECRET, **quiet_now())
    first, second = suspended_world(), suspended_world()
    notify_operators()
    change_link.resume(first.there, ANN)
    over_now()

    assert notify_operators() == 1
    assert [body["payload"]["component"] for body in bodies(hook)] == [name(second)]
    assert OperatorNotice.objects.get(given_up=True).error == "resolved in quiet hours"


def test_retry_does_not_wake_anybody(hook: Peer) -> None:
    recipient("sleeper", url=hook.address)
    suspended_world()
    hook.script(status(503))
    notify_operators()
    AlertRecipient.objects.update(**quiet_now())
    OperatorNotice.objects.update(due=timezone.now())
    hook.script(status(503))

    notify_operators()
    notice = OperatorNotice.objects.get()
    assert notice.held
    assert notice.due.date() > timezone.now().date()


def test_end_is_told_to_whoever_wants_it(hook: Peer) -> None:
    recipient("wants", url=hook.address, on_end=True)
    recipient("not", url=hook.address)
    world = suspended_world()
    notify_operators()
    change_link.resume(world.there, Actor("bob", "their disk was full"))

    assert notify_operators() == 1
    assert called(is_end=True) == ["wants"]
    (notice,) = bodies(hook)[-1]["notices"]
    assert notice["state"] == "over"
    assert notice["detail"] == "bob: their disk was full"


def test_end_waits_for_the_digest_in_quiet_hours(hook: Peer) -> None:
    """Also of a critical incident, whose call gets through."""
    recipient("sleeper", url=hook.address, on_end=True, **quiet_now(critical_through=True))
    world = suspended_world()
    assert notify_operators() == 1
    change_link.resume(world.there, ANN)

    assert notify_operators() == 0
    over_now()
    assert notify_operators() == 1
    digest = bodies(hook)[-1]
    assert (digest["digest"], digest["notices"][0]["state"]) == (True, "over")


def test_retry_of_an_end_waits_for_the_digest(hook: Peer) -> None:
    recipient("sleeper", url=hook.address, on_end=True)
    world = suspended_world()
    notify_operators()
    change_link.resume(world.there, ANN)
    AlertRecipient.objects.update(**quiet_now())
    hook.script(status(503))
    OperatorNotice.objects.create(
        cause="over:0", channel="webhook", to="sleeper", recipient=AlertRecipient.objects.get(),
        partner=world.there, kind="early_warning", is_end=True, at=timezone.now(),
        due=timezone.now(),
    )  # fmt: skip

    notify_operators()

    assert set(OperatorNotice.objects.filter(is_end=True).values_list("held", "tries")) == {
        (True, 0),
        (True, 1),
    }


def test_event_is_resolved_in_quiet_hours(hook: Peer) -> None:
    """PagerDuty wakes nobody for that."""
    quiet = quiet_now(critical_through=True)
    recipient("pd", Channel.PAGERDUTY, url=hook.address, key=SECRET, **quiet)
    world = suspended_world()
    notify_operators()
    change_link.resume(world.there, ANN)

    assert notify_operators() == 1
    assert bodies(hook)[-1]["event_action"] == "resolve"


def test_end_of_what_was_not_sent_is_not_sent(hook: Peer) -> None:
    recipient("wants", url=hook.address, on_end=True)
    world = suspended_world()
    hook.script(status(503))
    notify_operators()
    change_link.resume(world.there, ANN)

    assert notify_operators() == 0
    OperatorNotice.objects.update(due=timezone.now())
    assert (notify_operators(), notify_operators()) == (1, 1)
    assert called() == ["wants", "wants"]


def test_end_of_a_late_message_is_told(hook: Peer) -> None:
    world = suspended_world()
    recipient("wants", url=hook.address, on_end=True)
    message_id = world.link.lane.flying.message_id
    OperatorNotice.objects.create(
        cause=f"late:{world.there.pk}:{message_id}", channel="webhook", to="wants",
        recipient=AlertRecipient.objects.get(), partner=world.there, kind="early_warning",
        message_id=message_id, at=timezone.now(), due=timezone.now(), sent_at=timezone.now(),
        wants_end=True,
    )  # fmt: skip
    Incident.objects.update(announced=True)
    assert notify_operators() == 0
    type(world.link).objects.filter(pk=world.link.pk).update(in_flight=None)

    assert notify_operators() == 1
    assert called(is_end=True) == ["wants"]


@pytest.mark.parametrize("gone", ["removed", "switched off"])
def test_calls_of_a_recipient_who_is_gone_are_given_up(hook: Peer, gone: str) -> None:
    made = recipient("ops", url=hook.address)
    suspended_world()
    hook.script(status(503))
    notify_operators()
    if gone == "removed":
        made.delete()
    else:
        AlertRecipient.objects.update(enabled=False)
    OperatorNotice.objects.update(due=timezone.now())

    assert notify_operators() == 0
    notice = OperatorNotice.objects.get()
    assert notice.given_up
    assert notice.error == "the recipient was removed or switched off"


def test_secret_that_cannot_be_read_stops_no_other(hook: Peer, settings: Settings) -> None:
    recipient("unreadable", url=hook.address)
    AlertRecipient.objects.update(url_secret="gAAAAA")
    recipient("ops", url=hook.address)
    suspended_world()

    assert notify_operators() == 1
    assert called() == ["ops"]
    assert "SecretUnreadableError" in OperatorNotice.objects.get(to="unreadable").error
