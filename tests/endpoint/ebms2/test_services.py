"""Ping and StatusRequest: answered once, on the connection or by a POST, and only counted."""

import time

import pytest
from django.db.models import Sum

from msh.allowance import questions
from msh.flows.receiving.ebms2 import receive
from msh.flows.receiving.incoming import Incoming
from msh.models import History, InboundMessage, Signal
from partners.models import Credential, Partner, digest_of
from tests.endpoint.ebms2 import Send, agree, answers, assert_fault
from tests.peer.ebms2 import (
    SYNC_REPLY,
    Envelope,
    Outgoing,
    ack_requested,
    message,
    ping,
    status_request,
)

pytestmark = pytest.mark.django_db(transaction=True)

RECEIVED_AT = "eb:StatusResponse/eb:Timestamp"


def answer_to(send: Send, out: Outgoing) -> Envelope:
    """As HTTP answer if it asks for that, else what is to be POSTed."""
    response = send(out)
    if out.extra:
        assert (response.status, response.headers["SOAPAction"]) == (200, '"ebXML"')
        assert not Signal.objects.filter(ref_to_message_id=out.message_id).exists()
        return Envelope(response.body)
    assert (response.status, response.body) == (204, b"")
    (answer,) = answers(out)
    return answer


@pytest.mark.requirement("EB-140", "EB-141", "EB-147")
@pytest.mark.parametrize("extra", ["", SYNC_REPLY])
def test_ping_is_answered_by_a_pong_and_counted(send: Send, ebms2: Partner, extra: str) -> None:
    first, second = ping(extra=extra), ping(extra=extra)

    pong = answer_to(send, first)
    answer_to(send, second)

    assert (pong.action, pong.ref_to_message_id) == ("Pong", first.message_id)
    assert pong.text("eb:From/eb:PartyId") == "111111111"
    assert pong.text("eb:To/eb:PartyId") == "222222222"
    assert (pong.text("eb:CPAId"), pong.text("eb:ConversationId")) == ("cpa-1", "conversation-1")
    assert not InboundMessage.objects.exists()
    rows = History.objects.filter(event="PingReceived", partner=ebms2)
    assert rows.aggregate(n=Sum("times"))["n"] == 2
    assert rows.count() == History.objects.count() <= 2  # one for each minute
    assert_fault(send(ping(cpa_id="another")), 403, "Server")


@pytest.mark.requirement("EB-147")
def test_answer_is_pending_once_and_expires_at_once(send: Send) -> None:
    out = ping()
    send(out)
    first = Signal.objects.get()
    send(out)

    signal = Signal.objects.get()

    assert signal.body == first.body
    assert (signal.kind, signal.pending, signal.kept) == ("Pong", 1, False)
    assert signal.expires_at == signal.first_at


STATUSES = (
    ("accepted", "Received"),
    ("parked", "Received"),
    ("delivered", "Processed"),
    ("rejected", "Processed"),
)


@pytest.mark.requirement("EB-143")
def test_status_of_a_message(send: Send) -> None:
    out = message()
    send(out)
    received_at = f"{InboundMessage.objects.get().received_at:%FT%TZ}"
    for number, (state, status) in enumerate(STATUSES):
        InboundMessage.objects.update(state=state)
        asked = status_request(out.message_id, extra=SYNC_REPLY if number else "")

        answer = answer_to(send, asked)

        assert (answer.action, answer.ref_to_message_id) == ("StatusResponse", asked.message_id)
        assert answer.text("eb:StatusResponse/eb:RefToMessageId") == out.message_id
        assert (status_in(answer), answer.text(RECEIVED_AT)) == (status, received_at)


def status_in(answer: Envelope) -> str:
    (response,) = answer.all("eb:StatusResponse")
    return next(value for name, value in response.items() if "messageStatus" in name)


@pytest.mark.requirement("EB-144")
def test_message_of_another_partner_is_not_recognized(send: Send, ebms2: Partner) -> None:
    other = Partner.objects.create(name="other", uri="http://other.example/")
    Credential.objects.create(partner=other, sha256=digest_of("other"))
    agree(other, tpa_id="cpa-2")
    out = message(cpa_id="cpa-2")
    assert send(out, token="other").error == ""
    asked = status_request(out.message_id, extra=SYNC_REPLY)

    assert_not_told(answer_to(send, asked), "NotRecognized")
    assert_not_told(answer_to(send, status_request("nobody@knows")), "NotRecognized")
    ebms2.agreements.update(refuses_status=True)
    assert_not_told(answer_to(send, asked), "UnAuthorized")


def assert_not_told(answer: Envelope, status: str) -> None:
    assert (status_in(answer), answer.text(RECEIVED_AT)) == (status, "")


@pytest.mark.requirement("EB-145")
def test_question_may_come_with_what_only_a_message_has(send: Send) -> None:
    parts = {"payloads": (("a@b", "text/plain", b"?"),), "references": ("cid:gone@b",)}
    out = ping(ack_requested=ack_requested(), eliminates=True, **parts)

    assert answer_to(send, out).action == "Pong"


@pytest.mark.requirement("EB-062")
@pytest.mark.parametrize(
    "out", [ping(from_party="3"), ping(timestamp="now"), status_request(""), ping(service="urn:x")]
)
def test_question_that_is_wrong_is_not_answered(send: Send, out: Outgoing) -> None:
    """The last one is no signal: refused as a message of a business."""
    response = send(out.but(extra=SYNC_REPLY))

    assert (response.status, response.body) == (204, b"")
    assert [answer.action for answer in answers(out)] in ([], ["MessageError"])
    assert not InboundMessage.objects.exists()


def test_one_that_asks_too_often_is_not_answered(
    ebms2: Partner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(questions, "_left", type(questions._left)())
    questions.spend(ebms2.pk, time.monotonic() + 3600)

    for out in (ping(), ping(extra=SYNC_REPLY)):
        assert receive(ebms2, Incoming(out.content_type, out.body)).status == 204

    assert not Signal.objects.exists()
    assert History.objects.get().event == "PingNotAnswered"
