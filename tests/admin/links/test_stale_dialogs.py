"""The link changes while its dialog is open: nothing is done, and it shows what is possible."""

from datetime import timedelta

import pytest
from django.db import transaction
from django.test import Client
from django.utils import timezone

from msh.admin.links.cancel_and_reset import Cancel, VerdictForm
from msh.flows.errors import NotPossible
from msh.flows.operations import change_link
from msh.models import Attempt, History, OutboundLink, OutboundMessage
from msh.protocol.events import AckReceived
from msh.store.history import Actor
from msh.store.sending.links import OutboundLinks
from tests.admin.conftest import (
    address,
    late_world,
    messages_of,
    suspended_world,
    use,
    waiting_world,
)
from tests.flows.world import World

pytestmark = pytest.mark.django_db


def test_dialog_for_another_message_in_flight_does_nothing(
    operator: Client,
) -> None:
    world = waiting_world()
    fields = {"reason": "hurry", "version": "the message before"}

    response = operator.post(address("send_now", world.link), fields)

    assert "Nothing was done" in messages_of(response)
    assert world.link.attempt == 1


def test_old_dialog_does_not_end_a_newer_suspension(operator: Client) -> None:
    world = suspended_world()
    version = operator.get(address("resume", world.link)).context["form"]["version"].value()
    change_link.resume(world.there, Actor("bob", "they are back"))
    change_link.suspend(world.there, Actor("bob", "STOP: they restore a backup"))

    stale = {"reason": "they are back", "version": version}
    response = operator.post(address("resume", world.link), stale)

    assert "Nothing was done" in messages_of(response)
    assert world.link.state == "suspended"
    page = operator.get(address("resume", world.link)).content.decode()
    assert "Suspended by bob: STOP: they restore a backup." in page


def test_send_now_names_the_attempt_in_progress(operator: Client) -> None:
    world = waiting_world()
    Attempt.objects.update(ended_at=None)

    page = operator.get(address("send_now", world.link)).content.decode()

    assert "Attempt 1 has been in progress since" in page


def test_resuming_after_a_late_acknowledgement_sends_the_queue(operator: Client) -> None:
    world = waiting_world()
    use(operator, "suspend", world.link)
    second = world.submit()
    OutboundLink.objects.filter(pk=world.link.pk).update(in_flight=None, late_ack=True)

    page = operator.get(address("resume", world.link)).content.decode()
    use(operator, "resume", world.link)

    assert "so none can be duplicated" in page
    assert world.link.in_flight == second


@pytest.mark.requirement("000-030", "000-033")
def test_late_acknowledgement_while_dialog_is_open_is_shown_and_resume_is_offered(
    operator: Client,
) -> None:
    world, first = late_world(queued=2)
    opened = operator.get(address("resume", world.link)).context["form"]
    typed = {"version": opened["version"].value(), "reason": "their gateway is fixed"}
    world.settle()  # transmits the Acknowledgement, and nothing to a suspended partner
    assert (world.link.state, world.link.late_ack) == ("suspended", True)

    dialog = operator.post(address("resume", world.link), typed)

    assert world.link.state == "suspended"
    page = dialog.content.decode()
    assert "Nothing was done: the link has changed in the meantime." in page
    assert "The message in flight was acknowledged late and is complete." in page
    again = dialog.context["form"]
    assert again["reason"].value() == "their gateway is fixed"
    shown = {field.name: field.value() for field in again}
    done = operator.post(address("resume", world.link), shown)
    assert done.status_code == 302
    assert "was acknowledged late and is complete" in messages_of(done)
    assert "message 2, the first of the queue, is sent now" in messages_of(done)
    assert OutboundMessage.objects.get(pk=first.pk).state == "acknowledged"
    assert world.settle() == 4  # two messages and their Acknowledgements; no copy of the first
    assert world.link.state == "idle"
    act = History.objects.get(event="OperatorResumed")
    assert act.detail == "their gateway is fixed"


@pytest.mark.parametrize("action", ["reset_retries", "send_now"])
def test_retries_spent_while_dialog_is_open_lead_to_resume(operator: Client, action: str) -> None:
    world = waiting_world(retries_spent=1)
    opened = operator.get(address(action, world.link)).context["form"]
    OutboundLink.objects.filter(pk=world.link.pk).update(retries_spent=3)
    Attempt.objects.update(ended_at=timezone.now())
    OutboundLink.objects.filter(pk=world.link.pk).update(due=timezone.now() - timedelta(seconds=1))
    assert world.poll() == []
    assert world.link.state == "suspended"

    typed = {"version": opened["version"].value(), "reason": "they are back & well"}
    dialog = operator.post(address(action, world.link), typed)

    page = dialog.content.decode()
    assert "Nothing was done: the link has changed in the meantime." in page
    assert "is suspended" in page
    assert f"{address('resume', world.link)}?reason=they%20are%20back%20%26%20well" in page
    form = operator.get(address("resume", world.link), {"reason": typed["reason"]}).context["form"]
    assert form["reason"].value() == typed["reason"]


def test_reset_dialog_for_other_numbers_does_nothing(supervisor: Client) -> None:
    world = suspended_world(queued=0)
    OutboundLink.objects.filter(pk=world.link.pk).update(in_flight=None, next_number=5)
    version = (
        supervisor.get(address("reset_sequence", world.link)).context["form"]["version"].value()
    )
    OutboundLink.objects.filter(pk=world.link.pk).update(next_number=7)
    stale = {"reason": "agreed by telephone", "version": version}
    response = supervisor.post(address("reset_sequence", world.link), stale)
    assert "Nothing was done" in messages_of(response)
    assert world.link.next_number == 7


def test_only_the_message_that_the_dialog_named_is_cancelled() -> None:
    """It is acknowledged, and the next one put in flight, between the look and the act."""
    world = waiting_world()
    world.submit()
    seen = OutboundLink.objects.select_related("partner", "in_flight").get(pk=world.link.pk)
    assert seen.in_flight is not None
    acknowledge(world, seen.in_flight.message_id)
    assert world.link.in_flight not in (None, seen.in_flight)

    form = VerdictForm({"reason": "agreed by telephone", "verdict": "received"})
    assert form.is_valid()

    with pytest.raises(NotPossible, match="is acknowledged"):
        Cancel().act(seen, Actor("sue", "agreed by telephone"), form)

    assert not OutboundMessage.objects.filter(state="cancelled").exists()


def acknowledge(world: World, message_id: str) -> None:
    with transaction.atomic():
        lanes = OutboundLinks.lock([world.there.pk])
        lanes.step(world.there.pk, AckReceived(message_id))
        lanes.write()
