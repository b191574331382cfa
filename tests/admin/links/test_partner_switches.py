"""The two switches of a partner: submissions are refused, deliveries are held."""

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from msh.flows.operations import change_link
from msh.flows.sending.submit import PartnerClosed
from msh.models import ConsumerKind, History, InboundLink, OutboundMessage
from msh.store.history import Actor
from msh.store.operations.operator_actions import Switch, open_links
from tests.admin.conftest import (
    address,
    messages_of,
    suspended_world,
    use,
)
from tests.delivery import application
from tests.delivery.desk import Desk, consumer, receive
from tests.flows.world import World, make_world

pytestmark = pytest.mark.django_db

ANN = Actor("ann", "the test says so")


def test_refused_submissions_leave_the_queue_going(
    world: World,
    supervisor: Client,
) -> None:
    queued = world.submit()

    assert "submissions are refused" in messages_of(
        use(supervisor, "refuse_submissions", world.link)
    )

    with pytest.raises(PartnerClosed, match="are refused until an operator"):
        world.submit()
    world.settle()
    assert OutboundMessage.objects.get() == queued
    assert OutboundMessage.objects.get().state == "acknowledged"

    use(supervisor, "accept_submissions", world.link)
    world.submit()
    acts = History.objects.filter(event="AcceptingSwitched").order_by("pk")
    assert list(acts.values_list("actor", "from_state", "to_state", "detail")) == [
        ("sue", "on", "off", "agreed by telephone"),
        ("sue", "off", "on", "agreed by telephone"),
    ]
    history = supervisor.get(reverse("admin:msh_history_changelist")).content.decode()
    assert "Submissions are refused from now on" in history
    assert "Submissions are accepted again" in history


def test_known_message_is_accepted_while_submissions_are_refused(world: World) -> None:
    first = world.submit(message_id="order-1")
    change_link.switch(world.there, Switch.ACCEPTS, on=False, actor=ANN)

    assert world.submit(message_id="order-1") == first


def test_held_deliveries_wait_in_order_and_are_acknowledged(supervisor: Client) -> None:
    application.reset()
    consumer(ConsumerKind.IN_PROCESS)
    world = make_world()
    open_links(world.here)
    link = InboundLink.objects.get(partner=world.here)
    use(supervisor, "hold_deliveries", link)

    messages = receive(world, 2)
    Desk().settle()
    assert application.taken == []
    assert set(OutboundMessage.objects.values_list("state", flat=True)) == {"acknowledged"}

    use(supervisor, "resume_deliveries", link)
    Desk().settle()
    assert application.taken == [message.message_id for message in messages]


@pytest.mark.parametrize(
    ("off", "on", "side", "now"),
    [
        ("refuse_submissions", "accept_submissions", "link", "submissions are accepted"),
        ("hold_deliveries", "resume_deliveries", "inbound", "deliveries are resumed"),
    ],
)
def test_switch_offers_only_the_other_position(
    supervisor: Client, off: str, on: str, side: str, now: str
) -> None:
    world = suspended_world()
    open_links(world.there)
    row: Any = world.link if side == "link" else InboundLink.objects.get(partner=world.there)
    where = reverse(f"admin:{row._meta.app_label}_{row._meta.model_name}_change", args=[row.pk])

    page = supervisor.get(where).content.decode()
    assert address(off, row) in page
    assert address(on, row) not in page
    assert f"{now} already" in supervisor.get(address(on, row)).content.decode()
