"""What is taken, and answered by an Acknowledgment."""

from collections.abc import Callable

import pytest

from msh.admin.framework.event_text import event_text
from msh.models import History, InboundMessage, Signal
from tests.endpoint.ebms2 import Send, answers
from tests.peer import Peer, normal
from tests.peer.ebms2 import (
    NEXT_MSH,
    Outgoing,
    ack_requested,
    acknowledgment,
    acknowledgment_block,
    message,
    message_error,
)

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.requirement("EB-038", "EB-075", "EB-093", "EB-094", "EB-095", "EB-155")
def test_message_is_stored_with_the_acknowledgment_that_is_pending(send: Send) -> None:
    out = message(payloads=(("a@b", 'text/xml; x="a;b"', b"<a/>"), ("c@d", "image/png", b"\x89")))

    response = send(out)

    assert (response.status, response.body, response.error) == (204, b"", "")
    stored = InboundMessage.objects.get()
    assert (stored.message_id, stored.state, stored.semantics) == (
        out.message_id,
        "accepted",
        "OnceAndOnlyOnce",
    )
    assert bytes(stored.header) == out.envelope.encode()
    kept = stored.payloads.order_by("position").values_list("content_type", "content")
    assert [(kind, bytes(content)) for kind, content in kept] == [
        ('text/xml; x="a;b"', b"<a/>"),
        ("image/png", b"\x89"),
    ]
    (ack,) = answers(out)
    assert (ack.action, ack.ref_to_message_id) == ("Acknowledgment", out.message_id)
    assert ack.text("eb:From/eb:PartyId") == "111111111"
    assert ack.text("eb:To/eb:PartyId") == "222222222"
    assert (ack.text("eb:CPAId"), ack.text("eb:ConversationId")) == ("cpa-1", "conversation-1")
    assert ack.text("eb:Acknowledgment/eb:RefToMessageId") == out.message_id
    assert ack.text("eb:Acknowledgment/eb:Timestamp")


@pytest.mark.requirement("EB-152")
@pytest.mark.parametrize("action", ["ebXML", '"ebxml"', '"urn:nhs:names:services:x/Y"', '""', ""])
def test_any_soap_action_is_taken(send: Send, action: str) -> None:
    assert (send(message(), SOAPAction=action).status, Signal.objects.count()) == (204, 1)


@pytest.mark.requirement("EB-094")
def test_without_ack_requested_there_is_no_acknowledgment(send: Send) -> None:
    out = message(ack_requested="")

    assert send(out).status == 204

    assert InboundMessage.objects.get().semantics == "BestEffort"
    assert answers(out) == []


@pytest.mark.requirement("EB-094", "EB-105")
def test_next_msh_is_answered_as_if_we_were_next(send: Send) -> None:
    out = message(ack_requested=ack_requested(NEXT_MSH))

    assert send(out).status == 204

    (ack,) = answers(out)
    actor = ack.all("eb:Acknowledgment")[0].get("{http://schemas.xmlsoap.org/soap/envelope/}actor")
    assert actor == NEXT_MSH


@pytest.mark.requirement("EB-049")
def test_reference_that_is_no_cid_is_noted_and_not_fetched(send: Send) -> None:
    for _ in range(3):  # the last comes from a partner that is remembered
        out = message(references=("cid:order@peer", "http://127.0.0.1:9/never"))
        assert send(out).error == ""
        note = History.objects.get(message_id=out.message_id, event="Note")
        assert "http://127.0.0.1:9/never" in note.detail


@pytest.mark.requirement("EB-097")
def test_both_actors_are_answered_by_one_message_with_two_blocks(send: Send) -> None:
    out = message(ack_requested=ack_requested() + ack_requested(NEXT_MSH))

    assert send(out).status == 204

    (ack,) = answers(out)
    assert len(ack.all("eb:Acknowledgment")) == 2


@pytest.mark.requirement("EB-155")
def test_one_address_takes_both_dialects(send: Send, peer: Peer) -> None:
    assert peer.send(normal(sequence_number=1)).status == 204
    assert send(message()).status == 204

    assert InboundMessage.objects.count() == 2


@pytest.mark.requirement("EB-104")
@pytest.mark.parametrize("signal", [acknowledgment, message_error])
def test_signal_about_nothing_of_ours_is_noted(send: Send, signal: Callable[..., Outgoing]) -> None:
    response = send(signal("nothing-of-ours"))

    assert (response.status, response.body) == (204, b"")
    assert History.objects.get().message_id == "nothing-of-ours"
    assert not Signal.objects.exists()


@pytest.mark.requirement("EB-062")
@pytest.mark.parametrize(
    "broken",
    [
        {"timestamp": "never"},
        {"extra": ""},
        {"to_party": "999999999"},
        {"message_id": ""},
    ],
)
def test_broken_signal_is_never_answered(send: Send, broken: dict[str, str]) -> None:
    response = send(acknowledgment("m1").but(**broken))

    assert (response.status, response.body) == (204, b"")
    assert response.error
    assert not Signal.objects.exists()
    event = History.objects.get()
    assert event.event == "PartnerAcknowledgmentRefused"
    assert event_text(event.event, event.direction) == "Acknowledgment of the partner was refused"


@pytest.mark.requirement("EB-088")
def test_message_with_an_acknowledgment_is_taken(send: Send) -> None:
    out = message(extra=acknowledgment_block("m1"))

    assert send(out).status == 204

    assert InboundMessage.objects.get().message_id == out.message_id
    events = set(History.objects.values_list("event", flat=True))
    assert events == {"MessageArrived", "AcknowledgmentReceived"}
