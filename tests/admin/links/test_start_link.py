"""Set last number: a link that was never used continues another MSH's numbers (D50)."""

from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.test import Client

from msh.flows.errors import NotPossible
from msh.flows.operations import change_link
from msh.models import History, InboundLink, OutboundLink
from msh.store.history import Actor
from msh.store.operations.operator_actions import open_links
from tests.admin.conftest import address, messages_of, url, use, waiting_world
from tests.flows.world import make_world

pytestmark = pytest.mark.django_db


def test_both_links_of_a_new_partner_get_their_last_number(supervisor: Client) -> None:
    world = make_world()
    open_links(world.there)
    receiving = InboundLink.objects.get(partner=world.there)

    sent = use(supervisor, "set_last_number", world.link, last="41")
    use(supervisor, "set_last_number", receiving, last="999999999")

    assert f"Partner {world.there}: the last number is 41." in messages_of(sent)
    assert world.link.next_number == 42
    receiving.refresh_from_db()
    assert receiving.last_number == 999_999_999
    entries = History.objects.filter(event="LinkStarted").order_by("pk")
    assert list(entries.values_list("actor", "direction", "detail")) == [
        ("sue", "out", "last number 41; agreed by telephone"),
        ("sue", "in", "last number 999999999; agreed by telephone"),
    ]


@pytest.mark.parametrize("last", ["", "0", "1000000000", "x"])
def test_invalid_last_number_is_refused(supervisor: Client, last: str) -> None:
    world = make_world()
    open_links(world.there)

    response = use(supervisor, "set_last_number", world.link, last=last)

    assert "last" in response.context["form"].errors
    assert world.link.next_number == 1


def test_a_link_in_use_keeps_its_numbers(supervisor: Client) -> None:
    link = waiting_world().link
    where = address("set_last_number", link)

    assert where not in supervisor.get(url(type(link), "change", link.pk)).content.decode()
    assert "the link is in use" in supervisor.get(where).content.decode()
    with pytest.raises(CommandError, match="is in use"):
        start_by_command(link.partner.name, "out", 41)


def test_a_link_whose_messages_were_pruned_keeps_its_numbers() -> None:
    world, ann = make_world(), Actor("ann", "their old MSH")
    change_link.start_link(world.there, "out", 41, ann)
    change_link.start_link(world.there, "out", 42, ann)
    OutboundLink.objects.filter(pk=world.link.pk).update(next_number=50)

    with pytest.raises(NotPossible, match="in use"):
        change_link.start_link(world.there, "out", 60, ann)


def start_by_command(name: str, direction: str, last: int) -> str:
    said = StringIO()
    options = ("--direction", direction, "--last", str(last), "--reason", "their old MSH")
    call_command("set-last-number", name, *options, stdout=said)
    return said.getvalue()


@pytest.mark.parametrize("direction", ["in", "out"])
def test_the_command_records_who_and_why(direction: str) -> None:
    name = make_world().there.name

    assert f"{name}: the last number is 41." in start_by_command(name, direction, 41)

    entry = History.objects.get(event="LinkStarted")
    assert (entry.direction, entry.detail) == (direction, "last number 41; their old MSH")
