"""Resynchronise, rewind: both sides are shown first, then repaired."""

import re

import pytest
from django.test import Client

from msh.flows.operations import change_link, resynchronise
from msh.flows.receiving.link_status import NoStatus
from msh.models import (
    OutboundLink,
    OutboundMessage,
)
from msh.protocol.link_status import LinkStatus
from msh.store.history import Actor
from tests.admin.conftest import address, messages_of, submit, suspended_world, use
from tests.flows.world import World, make_world

pytestmark = pytest.mark.django_db

ANN = Actor("ann", "the test says so")


def test_both_sides_are_shown_before_they_are_repaired(
    supervisor: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The partner's answer is scripted: the enquiry itself is proven in tests/endpoint."""
    world = suspended_world(queued=0)
    OutboundLink.objects.filter(pk=world.link.pk).update(suspended_for="resynchronise")
    monkeypatch.setattr(resynchronise, "enquire", lambda *_: LinkStatus(None, ""))

    page = supervisor.get(address("resynchronise", world.link)).content.decode()
    assert "The numbers agree: the partner expects 1, which is our next number." in page
    assert world.link.state == "suspended"

    assert "sequence numbers in sync" in messages_of(use(supervisor, "resynchronise", world.link))
    assert world.link.state == "waiting"


def test_what_goes_on_is_filled_and_first(supervisor: Client) -> None:
    """F27 of the review of the console: *Cancel* in the middle, *Compare* at the end, not filled.
    The partner's MSH is another product, which cannot be asked."""
    world = suspended_world(queued=0)
    page = supervisor.get(address("resynchronise", world.link)).content.decode()
    buttons = re.findall(r'class="(msh-action[^"]*)"[^>]*>(Compare|Cancel)<', page)
    assert buttons == [("msh-action msh-action-recommended", "Compare"), ("msh-action", "Cancel")]


@pytest.mark.parametrize(("answer", "state"), [("has", "acknowledged"), ("lacks", "in_flight")])
def test_partner_state_of_the_message_in_flight_can_be_entered(
    supervisor: Client, answer: str, state: str
) -> None:
    """Message 1 is in flight; the partner accepted number 7 last, of which nothing is known here:
    nothing harmless is promised, and nothing can be done, before it says whether it has it."""
    world = suspended_world(queued=0)
    where = address("resynchronise", world.link) + "?last=7&last_id=foreign-id"

    unknown = supervisor.get(where).content.decode()

    assert "not known yet." in unknown
    assert "no loss, no duplicates" not in unknown
    assert "More information is needed first." in unknown
    assert 'name="reason"' not in unknown
    assert 'name="in_flight"' in unknown
    assert world.link.in_flight is not None
    assert f"MessageId {world.link.in_flight.message_id}." in unknown

    assert "sequence numbers in sync" in messages_of(
        submit(supervisor, f"{where}&in_flight={answer}")
    )
    assert OutboundMessage.objects.get().state == state
    assert world.link.next_number == (8 if answer == "has" else 9)


def test_without_a_message_in_flight_none_is_asked_for(world: World, supervisor: Client) -> None:
    change_link.suspend(world.there, Actor("sue", "they restore"))
    page = supervisor.get(address("resynchronise", world.link) + "?last=0").content.decode()
    assert 'name="in_flight"' not in page.partition('class="msh-typed"')[2]


def test_partner_without_link_status_changes_nothing(
    supervisor: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def silent(*_: object) -> LinkStatus:
        raise NoStatus("Partner acme does not say how its link is.")

    world = suspended_world()
    monkeypatch.setattr(resynchronise, "enquire", silent)
    page = supervisor.get(address("resynchronise", world.link)).content.decode()
    assert "Partner acme does not say how its link is." in page
    assert 'name="reason"' not in page
    use(supervisor, "resynchronise", world.link, agreed="nothing: ")
    assert world.link.state == "suspended"


def restored_world() -> World:
    """Messages 1 to 3 were acknowledged; then the lane was suspended."""
    world = make_world()
    for number in (1, 2, 3):
        world.submit(message_id=f"order-{number}")
    world.settle()
    change_link.suspend(world.there, ANN)
    return world


def test_messages_lost_by_a_restored_partner_are_sent_again(supervisor: Client) -> None:
    world = restored_world()
    where = address("rewind", world.link) + "?last=1&last_id=order-1"
    page = supervisor.get(where).content.decode()
    assert "may" in page
    assert world.link.state == "suspended"

    response = submit(supervisor, where)

    assert "lost messages are sent again" in messages_of(response)
    assert world.link.in_flight == OutboundMessage.objects.get(message_id="order-2")
    states = OutboundMessage.objects.order_by("pk").values_list("state", flat=True)
    assert list(states) == ["acknowledged", "in_flight", "rewound"]


def test_rewind_without_lost_messages_has_no_button(supervisor: Client) -> None:
    world = restored_world()

    page = supervisor.get(address("rewind", world.link) + "?last=3&last_id=order-3")

    assert "This action does not apply here." in page.content.decode()
    assert 'name="reason"' not in page.content.decode()


@pytest.mark.parametrize("typed", ["?last=2", "?last=-1", "?last=x&last_id=y", "?last="])
def test_invalid_values_of_the_partner_are_refused(supervisor: Client, typed: str) -> None:
    world = restored_world()

    page = supervisor.get(address("resynchronise", world.link) + typed).content.decode()

    assert "Enter the last message that the partner accepted." in page
    assert 'name="reason"' not in page


def test_changed_side_is_not_repaired(supervisor: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    world = restored_world()
    where = address("resynchronise", world.link)
    answers = iter([LinkStatus(1, "order-1"), LinkStatus(3, "order-3")])
    monkeypatch.setattr(resynchronise, "ask", lambda partner: next(answers))

    assert "one side has changed" in messages_of(submit(supervisor, where))
    assert world.link.state == "suspended"
