"""Hold resets, allow reset, set expected number."""

from contextlib import ExitStack
from functools import partial

import pytest
from django.db import transaction
from django.test import Client
from django.urls import reverse

from msh.flows.operations import change_inbound_link, change_link
from msh.models import (
    History,
    InboundLink,
    InboundMessage,
)
from msh.store.history import Actor
from msh.store.operations.operator_actions import open_links
from partners.models import Agreement
from tests.admin.conftest import address, messages_of, submit, use
from tests.flows.world import World, make_world
from tests.sessions import beside, somebody_waits_for_us
from tests.waiting import wait_until

pytestmark = pytest.mark.django_db

ANN = Actor("ann", "the test says so")


def numbered(world: World, number: int) -> None:
    """The partner's next message has this number."""
    link = world.link
    link.next_number, link.epoch = number, link.epoch + 1
    link.save(update_fields=["next_number", "epoch"])


def test_held_reset_waits_until_it_is_allowed(supervisor: Client) -> None:
    world = make_world()
    for _ in range(2):
        world.submit()
        world.settle()
    link = InboundLink.objects.get(partner=world.here)
    assert "are held" in messages_of(use(supervisor, "hold_resets", link))

    numbered(world, 1)
    again = world.submit()
    world.settle()
    assert not InboundMessage.objects.filter(message_id=again.message_id).exists()

    use(supervisor, "allow_reset", link)
    assert world.link.state == "transient"
    change_link.resume(world.there, ANN)
    world.settle()
    assert InboundMessage.objects.filter(message_id=again.message_id).exists()


def test_hold_resets_withdraws_an_allowed_reset(supervisor: Client) -> None:
    world = make_world()
    world.submit()
    world.settle()
    link = InboundLink.objects.get(partner=world.here)
    change_inbound_link.allow_reset(world.here, ANN)

    use(supervisor, "hold_resets", link)
    link.refresh_from_db()
    assert not link.reset_allowed
    assert "are already held" in supervisor.get(address("hold_resets", link)).content.decode()


def test_numbers_given_up_are_shown_before_the_button(supervisor: Client) -> None:
    world = make_world()
    open_links(world.here)
    change_link.start_link(world.here, "in", 15, Actor("sue", "they come from another MSH"))
    link = InboundLink.objects.get(partner=world.here)
    where = address("expect", link)
    page = supervisor.get(reverse("admin:msh_inboundlink_change", args=[link.pk])).content.decode()
    assert "Last number 15 set by sue, expecting 16." in page, "they were accepted elsewhere"

    pages = {
        typed: supervisor.get(where + typed).content.decode()
        for typed in ("", "?number=0", "?number=x", "?number=16", "?number=5", "?number=1000017")
    }

    seen = "Given up as lost: 16 to 1000016 (1,000,001 numbers)."
    assert [typed for typed, page in pages.items() if seen in page] == ["?number=1000017"]
    with_button = [typed for typed, page in pages.items() if 'name="reason"' in page]
    assert with_button == ["?number=1000017"]
    assert "Number 16 is already the expected number" in pages["?number=16"]
    assert "Number 5 is not ahead of the last accepted" in pages["?number=5"]

    response = submit(supervisor, where + "?number=18")

    assert "Given up as lost: 16 to 17 (2 numbers)." in messages_of(response)


def test_the_receiving_side_allows_a_reset_or_expects_a_number(supervisor: Client) -> None:
    world = make_world()
    world.submit()
    world.settle()
    link = InboundLink.objects.get(partner=world.here)

    assert "accepted" in messages_of(use(supervisor, "allow_reset", link))
    assert "a reset is already allowed" in messages_of(use(supervisor, "allow_reset", link))
    lost = "Given up as lost: 2 to 41 (40 numbers)."
    assert f"number 42 is expected next. {lost}" in messages_of(
        use(supervisor, "expect", link, number="42")
    )
    assert "is already the expected number" in messages_of(
        use(supervisor, "expect", link, number="42")
    )
    assert "Number 5 is not ahead" in messages_of(use(supervisor, "expect", link, number="5"))
    assert "number" in use(supervisor, "expect", link, number="0").context["form"].errors

    link.refresh_from_db()
    assert link.last_number == 41
    page = supervisor.get(reverse("admin:msh_inboundlink_change", args=[link.pk])).content.decode()
    ask = "the partner has to send 42 and the following again"
    assert f"Last number 41 set by sue, expecting 42: {ask}; 1 undelivered" in page
    assert f"in: last number 41 set by sue, expecting 42: {ask}" in page
    numbered(world, 42)
    world.submit()
    world.settle()
    page = supervisor.get(reverse("admin:msh_inboundlink_change", args=[link.pk])).content.decode()
    assert "Last accepted 42, expecting 43" in page
    acts = History.objects.filter(actor="sue", direction="in").values_list("event", flat=True)
    assert set(acts) == {"ResetAllowed", "NumberExpected"}


@pytest.mark.django_db(transaction=True)
def test_held_resets_wait_for_an_agreement_before_they_lock_the_link() -> None:
    """As the deletion of an agreement does, so that neither waits for the other for ever."""
    world = make_world()
    world.submit()
    world.settle()
    open_links(world.here)
    agreements = Agreement.objects.filter(partner=world.here)
    with ExitStack() as stack:
        with transaction.atomic():
            list(agreements.select_for_update(of=("self",)))
            hold = partial(change_inbound_link.hold_resets, world.here, ANN)
            holding = stack.enter_context(beside(hold))
            wait_until(somebody_waits_for_us)
            assert InboundLink.objects.select_for_update(nowait=True).get(partner=world.here)
        holding.result()
    assert {one.on_unexpected_first for one in agreements.all()} == {"hold"}
