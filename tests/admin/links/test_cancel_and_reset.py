"""Cancel the message in flight, reset the sequence: what they do."""

import pytest
from django.test import Client

from msh.models import History, OutboundMessage
from tests.admin.conftest import (
    address,
    messages_of,
    suspended_world,
    use,
    waiting_world,
)
from tests.flows.world import World

pytestmark = pytest.mark.django_db


def test_the_message_in_flight_is_cancelled_with_a_verdict(supervisor: Client) -> None:
    world = suspended_world(queued=0)

    response = use(supervisor, "cancel", world.link, verdict="received")

    assert "message cancelled." in messages_of(response)
    message = OutboundMessage.objects.get()
    assert (message.state, message.outcome) == ("cancelled", "received")
    assert History.objects.filter(event="MessageCancelled", actor="sue").exists()


def test_a_verdict_is_required_and_one_that_is_not_proven_refused(supervisor: Client) -> None:
    world = waiting_world()
    assert "verdict" in use(supervisor, "cancel", world.link).context["form"].errors
    response = use(supervisor, "cancel", world.link, verdict="not_received")
    assert "may have been received" in messages_of(response)
    assert OutboundMessage.objects.get().state == "in_flight"


def test_no_verdict_is_chosen_before_the_operator_does(supervisor: Client) -> None:
    form = supervisor.get(address("cancel", waiting_world().link)).context["form"]
    choices = dict(form.fields["verdict"].choices)
    assert list(choices) == ["received", "not_received", "unknown"]
    assert "The next message gets number 2" in choices["received"]
    assert "The next message gets number 1 again" in choices["not_received"]
    assert "must agree to start again at 1" in choices["unknown"]
    assert form["verdict"].value() is None


def test_not_received_is_no_verdict_on_a_mail(supervisor: Client) -> None:
    world = waiting_world()
    world.there.address = "mailto:b@example.net"
    world.there.save(update_fields=["address"])
    form = use(supervisor, "cancel", world.link, verdict="not_received").context["form"]
    assert "verdict" in form.errors
    assert OutboundMessage.objects.get().state == "in_flight"


def test_the_sequence_is_reset_when_nothing_is_in_flight(world: World, supervisor: Client) -> None:
    world.submit()
    world.settle()
    assert "gets number 1" in messages_of(use(supervisor, "reset_sequence", world.link))
    assert world.link.next_number == 1
    flying = waiting_world()
    assert "a message is in flight" in messages_of(use(supervisor, "reset_sequence", flying.link))
