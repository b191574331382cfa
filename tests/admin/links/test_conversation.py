"""Conversations in order: those that need an operator, and what is done to them."""

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from msh.models import (
    InboundConversation,
    InboundLink,
    InboundMessage,
    OutboundConversation,
    OutboundLink,
    OutboundMessage,
)
from partners.models import Partner
from tests.admin.conftest import address, messages_of, url, use
from tests.endpoint.ebms2 import agree
from tests.flows.flying import REFUSED, make_sky
from tests.flows.test_conversations_in import take

pytestmark = pytest.mark.django_db


def page_of(client: Client, row: object, model: type) -> str:
    page = client.get(url(model, "change", row.pk))  # type: ignore[attr-defined]
    assert page.status_code == 200
    return page.content.decode()


def offered(client: Client, row: InboundConversation | OutboundConversation) -> list[str]:
    page = client.get(url(type(row), "change", row.pk))
    return [offer.action.name for offer in page.context["offers"]]


@pytest.mark.requirement("EB-124")
def test_a_conversation_that_stands_still_is_restarted(supervisor: Client, viewer: Client) -> None:
    sky = make_sky(ordered=True)
    message = sky.submit(conversation_id="talk")
    assert "stand still" not in page_of(viewer, sky.link, OutboundLink)
    (job,) = sky.poll()
    sky.end(job, REFUSED)
    conversation = OutboundConversation.objects.get()
    link = page_of(viewer, sky.link, OutboundLink)
    assert "Conversations that stand still" in link
    assert url(OutboundConversation, "change", conversation.pk) in link
    page = page_of(viewer, conversation, OutboundConversation)
    assert url(OutboundMessage, "change", message.pk) in page
    assert offered(viewer, conversation) == []
    assert offered(supervisor, conversation) == ["restart_conversation", "start_order"]
    refused = messages_of(use(supervisor, "restart_conversation", conversation))
    assert "Cannot restart conversation talk" in refused
    shown = supervisor.get(url(OutboundMessage, "change", message.pk)).context["offers"]
    names = {offer.action.name for offer in shown}
    assert {"resume", "cancel"} <= names
    assert not {"suspend", "send_now", "reset_retries"} & names

    use(supervisor, "cancel", message, verdict="unknown")

    said = messages_of(use(supervisor, "restart_conversation", conversation))
    assert said == "Conversation talk: the next message has number 0 with Reset."
    assert "Nothing stops it." in page_of(viewer, conversation, OutboundConversation)


@pytest.mark.requirement("EB-130", "EB-132")
def test_a_hole_is_shown_and_skipped(supervisor: Client, viewer: Client) -> None:
    partner = Partner.objects.create(name="hospital", uri="http://peer.example/ebms/")
    agreement = agree(partner, ordered=True)
    take(agreement, 0)
    into, conversation = InboundLink.objects.get(), InboundConversation.objects.get()
    assert "missing message" not in page_of(viewer, into, InboundLink)
    assert offered(supervisor, conversation) == ["start_order"]
    take(agreement, 2, 4)
    link = page_of(viewer, into, InboundLink)
    assert "Conversations with a missing message" in link
    assert url(InboundConversation, "change", conversation.pk) in link
    assert "messages have no sequence numbers" in link.lower()
    assert "Resets" not in link
    page = page_of(viewer, conversation, InboundConversation)
    for message in InboundMessage.objects.filter(state="held"):
        assert url(InboundMessage, "change", message.pk) in page
    assert offered(supervisor, conversation) == [
        *("wait_on", "skip_missing", "drop_held", "start_order")
    ]
    says = str(supervisor.get(address("skip_missing", conversation)).context["consequence"])
    assert "hospital does not have to do anything" in says

    said = messages_of(use(supervisor, "skip_missing", conversation))

    assert said == "Conversation talk: skipped."
    assert InboundMessage.objects.filter(state="held").count() == 1
    use(supervisor, "start_order", conversation, last="3")
    assert not InboundMessage.objects.filter(state="held").exists()


def test_lists_find_them_by_their_whole_id(viewer: Client) -> None:
    sky = make_sky(ordered=True)
    for conversation in ("one", "two"):
        sky.submit(conversation_id=conversation)
    sky.poll()
    where = url(OutboundConversation, "changelist")
    found = viewer.get(where, {"q": "two"}).context["cl"].result_list
    assert [one.conversation_id for one in found] == ["two"]
    assert viewer.get(url(InboundConversation, "changelist")).status_code == 200

    def queries() -> int:
        with CaptureQueriesContext(connection) as captured:
            viewer.get(where)
        return len(captured)

    of_two = queries()
    other = make_sky(ordered=True)
    other.submit(conversation_id="three")
    other.poll()
    assert queries() == of_two
