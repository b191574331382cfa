"""The verbs beside those of the lane: switches, held resets, rewind, and parked deliveries."""

from typing import Any

import pytest
from django.contrib.messages import get_messages
from django.test import Client
from django.urls import reverse

from msh.flows.operations import change_link, resynchronise
from msh.flows.sending.submit import PartnerClosed
from msh.models import ConsumerKind, Delivery, History, InboundLink, InboundMessage, OutboundMessage
from msh.protocol.link_status import LinkStatus
from msh.store.history import Actor
from msh.store.operations.operator_actions import Switch
from tests.delivery import application
from tests.delivery.desk import Desk, consumer, receive
from tests.flows.world import World, make_world

from . import conftest
from .conftest import client_of, suspended_world, waiting_world

pytestmark = pytest.mark.django_db

ANN = Actor("ann", "the test says so")


def address(verb: str, row: Any) -> str:
    return reverse(f"admin:{row._meta.app_label}_{row._meta.model_name}_{verb}", args=[row.pk])


def said(response: Any) -> str:
    return " ".join(str(message) for message in get_messages(response.wsgi_request))


def do(client: Client, verb: str, row: Any, **fields: str) -> str:
    return said(conftest.submit(client, address(verb, row), **fields))


# --- switches -------------------------------------------------------------------------------------
@pytest.fixture
def supervisor() -> Client:
    return client_of(
        "sue", "view_outboundlink", "view_inboundlink", "switch_partner", "hold_resets_inboundlink",
        "allow_reset_inboundlink", "rewind_outboundlink", "resynchronise_outboundlink",
    )  # fmt: skip


def test_a_partner_that_is_closed_to_applications_refuses_theirs_and_sends_the_rest(
    supervisor: Client,
) -> None:
    world = make_world()
    queued = world.submit()

    assert "submissions are refused" in do(supervisor, "stop_accepts", world.link)

    with pytest.raises(PartnerClosed, match="closed to applications"):
        world.submit()
    world.settle()
    assert OutboundMessage.objects.get() == queued
    assert OutboundMessage.objects.get().state == "acknowledged"

    do(supervisor, "start_accepts", world.link)
    world.submit()
    acts = History.objects.filter(event="AcceptingSwitched").order_by("pk")
    assert list(acts.values_list("actor", "from_state", "to_state", "detail")) == [
        ("sue", "on", "off", "agreed by telephone"),
        ("sue", "off", "on", "agreed by telephone"),
    ]


def test_a_known_message_is_answered_though_the_partner_is_closed() -> None:
    world = make_world()
    first = world.submit(message_id="order-1")
    change_link.switch(world.there, Switch.ACCEPTS, on=False, actor=ANN)

    assert world.submit(message_id="order-1") == first


def test_held_deliveries_wait_in_order_and_are_acknowledged(supervisor: Client) -> None:
    application.reset()
    consumer(ConsumerKind.IN_PROCESS)
    world = make_world()
    change_link.open_links(world.here)
    link = InboundLink.objects.get(partner=world.here)
    do(supervisor, "stop_delivers", link)

    messages = receive(world, 2)
    Desk().settle()
    assert application.taken == []
    assert set(OutboundMessage.objects.values_list("state", flat=True)) == {"acknowledged"}

    do(supervisor, "start_delivers", link)
    Desk().settle()
    assert application.taken == [message.message_id for message in messages]


@pytest.mark.parametrize(
    ("switch", "side", "now"),
    [
        ("accepts", "link", "submissions are accepted"),
        ("delivers", "inbound", "deliveries are resumed"),
    ],
)
def test_only_the_other_position_of_a_switch_is_offered(
    supervisor: Client, switch: str, side: str, now: str
) -> None:
    world = suspended_world()
    change_link.open_links(world.there)
    row: Any = world.link if side == "link" else InboundLink.objects.get(partner=world.there)
    where = reverse(f"admin:{row._meta.app_label}_{row._meta.model_name}_change", args=[row.pk])

    page = supervisor.get(where).content.decode()
    assert address(f"stop_{switch}", row) in page
    assert address(f"start_{switch}", row) not in page
    assert f"{now} already" in supervisor.get(address(f"start_{switch}", row)).content.decode()


def test_who_may_not_switch_is_refused() -> None:
    world = waiting_world()
    viewer = client_of("vera", "view_outboundlink")

    response = conftest.submit(viewer, address("stop_accepts", world.link))

    world.there.refresh_from_db()
    assert (response.status_code, world.there.accepts) == (403, True)


# --- resets of the partner ------------------------------------------------------------------------
def numbered(world: World, number: int) -> None:
    """The partner's next message has this number."""
    link = world.link
    link.next_number, link.epoch = number, link.epoch + 1
    link.save(update_fields=["next_number", "epoch"])


def test_a_held_reset_waits_until_it_is_released(supervisor: Client) -> None:
    world = make_world()
    for _ in range(2):
        world.submit()
        world.settle()
    link = InboundLink.objects.get(partner=world.here)
    assert "are held" in do(supervisor, "hold_resets", link)

    numbered(world, 1)
    again = world.submit()
    world.settle()
    assert not InboundMessage.objects.filter(message_id=again.message_id).exists()

    do(supervisor, "allow_reset", link)
    assert world.link.state == "transient"
    change_link.resume(world.there, ANN)
    world.settle()
    assert InboundMessage.objects.filter(message_id=again.message_id).exists()


def test_what_is_held_is_not_held_again_and_takes_back_a_leave(supervisor: Client) -> None:
    world = make_world()
    world.submit()
    world.settle()
    link = InboundLink.objects.get(partner=world.here)
    resynchronise.allow_reset(world.here, ANN)

    do(supervisor, "hold_resets", link)
    link.refresh_from_db()
    assert not link.reset_allowed
    assert "are already held" in supervisor.get(address("hold_resets", link)).content.decode()


# --- rewind and typed numbers ---------------------------------------------------------------------
def restored_world() -> World:
    """Messages 1 to 3 were acknowledged; then the lane was suspended."""
    world = make_world()
    for number in (1, 2, 3):
        world.submit(message_id=f"order-{number}")
    world.settle()
    change_link.suspend(world.there, ANN)
    return world


def test_what_a_restored_partner_lost_goes_again(supervisor: Client) -> None:
    world = restored_world()
    where = address("rewind", world.link) + "?last=1&last_id=order-1"
    page = supervisor.get(where).content.decode()
    assert "may" in page
    assert world.link.state == "suspended"

    response = conftest.submit(supervisor, where)

    assert "lost messages are sent again" in said(response)
    assert world.link.in_flight == OutboundMessage.objects.get(message_id="order-2")
    states = OutboundMessage.objects.order_by("pk").values_list("state", flat=True)
    assert list(states) == ["acknowledged", "in_flight", "rewound"]


def test_a_rewind_that_is_none_has_no_button(supervisor: Client) -> None:
    world = restored_world()

    page = supervisor.get(address("rewind", world.link) + "?last=3&last_id=order-3")

    assert "This action does not apply here." in page.content.decode()
    assert 'name="reason"' not in page.content.decode()


@pytest.mark.parametrize("typed", ["?last=2", "?last=-1", "?last=x&last_id=y", "?last="])
def test_what_is_typed_in_wrongly_is_said(supervisor: Client, typed: str) -> None:
    world = restored_world()

    page = supervisor.get(address("resynchronise", world.link) + typed).content.decode()

    assert "Enter the last message that the partner accepted." in page
    assert 'name="reason"' not in page


def test_nothing_is_done_when_the_sides_are_no_longer_as_shown(
    supervisor: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = restored_world()
    where = address("resynchronise", world.link)
    answers = iter([LinkStatus(1, "order-1"), LinkStatus(3, "order-3")])
    monkeypatch.setattr(resynchronise, "ask", lambda partner: next(answers))

    assert "one side has changed" in said(conftest.submit(supervisor, where))
    assert world.link.state == "suspended"


# --- deliveries -----------------------------------------------------------------------------------
def test_a_blocked_message_is_parked_and_the_next_one_goes_on() -> None:
    application.reset()

    def refuse(message: InboundMessage) -> None:
        if message.pk == first.pk:
            raise ConnectionError("no stock")

    consumer(ConsumerKind.IN_PROCESS, attempts=1, on_failure="block")
    application.act = refuse
    first, second = receive(make_world(), 2)
    Desk().settle()
    delivery = Delivery.objects.get(message=first)
    assert delivery.state == "blocked"

    decider = client_of("dora", "view_delivery", "decide_delivery")
    assert "Park: done." in do(decider, "park", delivery)
    Desk().settle()

    delivery.refresh_from_db()
    assert delivery.state == "parked"
    assert Delivery.objects.get(message=second).state == "completed"
    assert "is parked" in decider.get(address("park", delivery)).content.decode()
    application.reset()
