"""Cancel, reset, resynchronise, allow reset, expect: who may, and what they do."""

from typing import Any

import pytest
from django.contrib.messages import get_messages
from django.db import transaction
from django.test import Client
from django.urls import reverse

from msh.admin.links.cancel_and_reset import Cancel
from msh.flows.errors import NotPossible
from msh.flows.operations import change_link, resynchronise
from msh.flows.receiving.link_status import NoStatus
from msh.models import History, InboundLink, OutboundLink, OutboundMessage
from msh.protocol.events import AckReceived
from msh.protocol.link_status import LinkStatus
from msh.store.history import Actor
from msh.store.sending.links import OutboundLinks
from tests.flows.world import World, make_world

from . import conftest
from .conftest import client_of, suspended_world, waiting_world

pytestmark = pytest.mark.django_db

VERBS = ("cancel", "reset_sequence", "resynchronise")


@pytest.fixture
def mender() -> Client:
    rights = [f"{verb}_outboundlink" for verb in VERBS]
    rights += ["view_outboundmessage", "allow_reset_inboundlink", "expect_inboundlink"]
    return client_of("max", "view_outboundlink", "view_inboundlink", *rights)


def address(verb: str, row: Any) -> str:
    return reverse(f"admin:{row._meta.app_label}_{row._meta.model_name}_{verb}", args=[row.pk])


def submit(client: Client, verb: str, row: Any, **fields: str) -> Any:
    return conftest.submit(client, address(verb, row), **fields)


def said(response: Any) -> str:
    return " ".join(str(message) for message in get_messages(response.wsgi_request))


def test_the_message_in_flight_is_cancelled_with_a_verdict(mender: Client) -> None:
    world = suspended_world(queued=0)

    response = submit(mender, "cancel", world.link, verdict="received")

    assert "message cancelled. The link is now suspended." in said(response)
    message = OutboundMessage.objects.get()
    assert (message.state, message.outcome) == ("cancelled", "received")
    assert History.objects.filter(event="MessageCancelled", actor="max").exists()


def test_a_verdict_is_required_and_one_that_is_not_proven_refused(mender: Client) -> None:
    world = waiting_world()
    assert "verdict" in submit(mender, "cancel", world.link).context["form"].errors
    response = submit(mender, "cancel", world.link, verdict="not_received")
    assert "may have been received" in said(response)
    assert OutboundMessage.objects.get().state == "in_flight"


def test_no_verdict_is_chosen_before_the_operator_does(mender: Client) -> None:
    form = mender.get(address("cancel", waiting_world().link)).context["form"]
    assert [value for value, _ in form.fields["verdict"].choices] == [
        "",
        "received",
        "not_received",
        "unknown",
    ]


def test_of_a_mail_it_is_never_said_that_it_was_not_received(mender: Client) -> None:
    world = waiting_world()
    world.there.address = "mailto:b@example.net"
    world.there.save(update_fields=["address"])
    form = submit(mender, "cancel", world.link, verdict="not_received").context["form"]
    assert "verdict" in form.errors
    assert OutboundMessage.objects.get().state == "in_flight"


def test_a_reset_that_spoke_of_other_numbers_does_nothing(mender: Client) -> None:
    world = suspended_world(queued=0)
    OutboundLink.objects.filter(pk=world.link.pk).update(in_flight=None, next_number=5)
    version = mender.get(address("reset_sequence", world.link)).context["form"]["version"].value()
    OutboundLink.objects.filter(pk=world.link.pk).update(next_number=7)
    stale = {"reason": "agreed by telephone", "version": version}
    response = mender.post(address("reset_sequence", world.link), stale)
    assert "Nothing was done" in said(response)
    assert world.link.next_number == 7


def test_only_the_message_that_the_dialog_named_is_cancelled() -> None:
    """It is acknowledged, and the next one put in flight, between the look and the act."""
    world = waiting_world()
    world.submit()
    seen = OutboundLink.objects.select_related("partner", "in_flight").get(pk=world.link.pk)
    assert seen.in_flight is not None
    acknowledge(world, seen.in_flight.message_id)
    assert world.link.in_flight not in (None, seen.in_flight)

    with pytest.raises(NotPossible, match="is Acknowledged"):
        Cancel().act(seen, Actor("max", "agreed by telephone"), verdict="received")

    assert not OutboundMessage.objects.filter(state="cancelled").exists()


def test_the_sequence_is_reset_when_nothing_is_in_flight(mender: Client) -> None:
    world = make_world()
    world.submit()
    world.settle()
    assert "gets number 1" in said(submit(mender, "reset_sequence", world.link))
    assert world.link.next_number == 1
    flying = waiting_world()
    assert "a message is in flight" in said(submit(mender, "reset_sequence", flying.link))


def test_both_sides_are_shown_before_they_are_brought_together(
    mender: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The partner's answer is scripted: the enquiry itself is proven in tests/endpoint."""
    world = suspended_world(queued=0)
    OutboundLink.objects.filter(pk=world.link.pk).update(suspended_for="resynchronise")
    monkeypatch.setattr(resynchronise, "enquire", lambda *_: LinkStatus(None, ""))

    page = mender.get(address("resynchronise", world.link)).content.decode()
    assert "The numbers agree: the partner expects 1, and that is what comes." in page
    assert world.link.state == "suspended"

    assert "sequence numbers in sync" in said(submit(mender, "resynchronise", world.link))
    assert world.link.state == "waiting"


@pytest.mark.parametrize(("answer", "state"), [("has", "acknowledged"), ("lacks", "in_flight")])
def test_what_the_partner_says_of_the_message_in_flight_is_typed_in(
    mender: Client, answer: str, state: str
) -> None:
    """Message 1 is in flight; the partner accepted number 7 last, of which nothing is known here:
    nothing harmless is promised, and nothing can be done, before it says whether it has it."""
    world = suspended_world(queued=0)
    where = address("resynchronise", world.link) + "?last=7&last_id=foreign-id"

    unknown = mender.get(where).content.decode()

    assert "not known yet." in unknown
    assert "no loss, no duplicates" not in unknown
    assert "More information is needed first." in unknown
    assert 'name="reason"' not in unknown
    assert 'name="in_flight"' in unknown
    assert world.link.in_flight is not None
    assert f"MessageId {world.link.in_flight.message_id}." in unknown

    assert "sequence numbers in sync" in said(
        conftest.submit(mender, f"{where}&in_flight={answer}")
    )
    assert OutboundMessage.objects.get().state == state
    assert world.link.next_number == (8 if answer == "has" else 9)


def test_without_a_message_in_flight_none_is_asked_for(mender: Client) -> None:
    world = make_world()
    change_link.suspend(world.there, Actor("max", "they restore"))
    page = mender.get(address("resynchronise", world.link) + "?last=0").content.decode()
    assert 'name="in_flight"' not in page.partition('class="msh-typed"')[2]


def test_a_partner_that_cannot_be_asked_changes_nothing(
    mender: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def silent(*_: object) -> LinkStatus:
        raise NoStatus("Partner acme does not say how its link is.")

    world = suspended_world()
    monkeypatch.setattr(resynchronise, "enquire", silent)
    page = mender.get(address("resynchronise", world.link)).content.decode()
    assert "Partner acme does not say how its link is." in page
    assert 'name="reason"' not in page
    submit(mender, "resynchronise", world.link, agreed="nothing: ")
    assert world.link.state == "suspended"


@pytest.mark.parametrize("verb", VERBS)
def test_without_its_permission_a_verb_is_refused(verb: str) -> None:
    world = suspended_world()
    others = [f"{other}_outboundlink" for other in VERBS if other != verb]
    client = client_of("carl", "view_outboundlink", *others)
    before = OutboundLink.objects.values().get(pk=world.link.pk)
    assert submit(client, verb, world.link, verdict="received").status_code == 403
    assert client.get(address(verb, world.link)).status_code == 403
    assert OutboundLink.objects.values().get(pk=world.link.pk) == before


def test_a_queued_message_is_cancelled_on_its_page(mender: Client) -> None:
    world = suspended_world(queued=1)
    queued = OutboundMessage.objects.get(state="queued")
    flying = OutboundMessage.objects.get(state="in_flight")

    assert address("cancel", queued) in page_of(mender, queued)
    assert address("cancel", flying) not in page_of(mender, flying)
    submit(mender, "cancel", queued)
    assert "is in flight" in said(submit(mender, "cancel", flying))

    states = OutboundMessage.objects.order_by("pk").values_list("state", flat=True)
    assert list(states) == ["in_flight", "cancelled"]
    assert world.link.in_flight == flying
    viewer = client_of("vera", "view_outboundmessage")
    assert submit(viewer, "cancel", queued).status_code == 403


def acknowledge(world: World, message_id: str) -> None:
    with transaction.atomic():
        lanes = OutboundLinks.lock([world.there.pk])
        lanes.step(world.there.pk, AckReceived(message_id))
        lanes.write()


def page_of(client: Client, message: OutboundMessage) -> str:
    url = reverse("admin:msh_outboundmessage_change", args=[message.pk])
    return client.get(url).content.decode()


def test_what_a_number_gives_up_is_seen_before_there_is_a_button(mender: Client) -> None:
    world = make_world()
    change_link.open_links(world.here)
    change_link.start_link(world.here, "in", 15, Actor("max", "they come from another MSH"))
    where = address("expect", InboundLink.objects.get(partner=world.here))

    pages = {
        typed: mender.get(where + typed).content.decode()
        for typed in ("", "?number=0", "?number=x", "?number=16", "?number=5", "?number=1000017")
    }

    seen = "Given up as lost: 16 to 1000016 (1,000,001 numbers)."
    assert [typed for typed, page in pages.items() if seen in page] == ["?number=1000017"]
    with_button = [typed for typed, page in pages.items() if 'name="reason"' in page]
    assert with_button == ["?number=1000017"]
    assert "Number 16 is already the expected number" in pages["?number=16"]
    assert "Number 5 is not ahead of the last accepted" in pages["?number=5"]

    response = conftest.submit(mender, where + "?number=18")

    assert "Given up as lost: 16 to 17 (2 numbers)." in said(response)


def test_the_receiving_side_allows_a_reset_or_expects_a_number(mender: Client) -> None:
    world = make_world()
    world.submit()
    world.settle()
    link = InboundLink.objects.get(partner=world.here)

    assert "accepted" in said(submit(mender, "allow_reset", link))
    assert "a reset is already allowed" in said(submit(mender, "allow_reset", link))
    lost = "Given up as lost: 2 to 41 (40 numbers)."
    assert f"Number 42 is expected next. {lost}" in said(
        submit(mender, "expect", link, number="42")
    )
    assert "is already the expected number" in said(submit(mender, "expect", link, number="42"))
    assert "Number 5 is not ahead" in said(submit(mender, "expect", link, number="5"))
    assert "number" in submit(mender, "expect", link, number="0").context["form"].errors

    link.refresh_from_db()
    assert link.last_number == 41
    acts = History.objects.filter(actor="max", direction="in").values_list("event", flat=True)
    assert set(acts) == {"ResetAllowed", "NumberExpected"}
    viewer = client_of("vera", "view_inboundlink")
    assert submit(viewer, "expect", link, number="50").status_code == 403
    assert submit(viewer, "allow_reset", link).status_code == 403
