"""ConversationId equal to the MessageId, and the same ConversationId in both directions: ids are of
different kinds, and are compared within their kind only."""

import pytest
from django.db.models import Model
from django.test import Client

from msh.flows.operations.inspection.trace import whole_trace_of
from msh.flows.receiving.ebms2 import receive
from msh.flows.receiving.incoming import Incoming
from msh.flows.sending.submit import submit
from msh.models import InboundMessage, OutboundMessage
from msh.protocol.message import Payload
from partners.models import Agreement, Partner
from tests.admin.conftest import client_with_role, url
from tests.endpoint.ebms2 import agree
from tests.peer.ebms2 import message

pytestmark = pytest.mark.django_db

ONE = "one-id@sender.example"


@pytest.fixture
def agreement() -> Agreement:
    partner = Partner.objects.create(name="hospital", uri="http://peer.example/ebms/")
    return agree(partner, check_ref_to=True)


def taken(agreement: Agreement, message_id: str, **fields: str) -> bool:
    out = message(message_id=message_id, conversation_id=ONE, **fields)
    return not receive(agreement.partner, Incoming(out.content_type, out.body)).reason


def found(client: Client, model: type[Model]) -> list[str]:
    page = client.get(url(model, "changelist"), {"q": ONE})
    return sorted(one.message_id for one in page.context["cl"].result_list)


@pytest.mark.requirement("EB-039")
def test_conversation_id_is_no_message_id(agreement: Agreement) -> None:
    submit(agreement, "urn:example:orders", "New", [Payload(b"<a/>")], conversation_id=ONE)
    assert not taken(agreement, "early@sender.example", ref_to_message_id=ONE)
    assert taken(agreement, ONE)
    assert taken(agreement, "answer@sender.example", ref_to_message_id=ONE)
    assert taken(agreement, ONE)
    assert InboundMessage.objects.get(message_id=ONE).duplicates == 1


def test_each_message_of_the_id_is_shown_once(agreement: Agreement) -> None:
    ours = submit(agreement, "urn:example:orders", "New", [Payload(b"<a/>")], conversation_id=ONE)
    assert taken(agreement, ONE)
    assert taken(agreement, "answer@sender.example", ref_to_message_id=ONE)
    viewer = client_with_role("vera", {"msh.view_inboundmessage", "msh.view_outboundmessage"})

    moments = list(whole_trace_of(ONE))

    assert [one.event for one in moments if one.event == "MessageArrived"] == ["MessageArrived"]
    assert {one.direction for one in moments} == {"in"}
    assert found(viewer, InboundMessage) == ["answer@sender.example", ONE]
    assert found(viewer, OutboundMessage) == [ours.message_id]
