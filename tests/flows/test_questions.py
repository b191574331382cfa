"""Ping and StatusRequest of ours, answered on their connection."""

import json
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from msh.flows.errors import NotPossible
from msh.flows.receiving import questions
from msh.models import History, OutboundMessage
from msh.store.history import Actor
from tests.peer import Peer, status
from tests.peer.answers import Answer
from tests.peer.ebms2 import Envelope, message_error, pong, status_response
from tests.peer.recording import Received

from .flying import Sky, make_sky
from .world import World

pytestmark = pytest.mark.django_db

ANN = Actor("ann", "a customer asks")
FAULT = (
    '<S:Envelope xmlns:S="http://schemas.xmlsoap.org/soap/envelope/"><S:Body><S:Fault>'
    "<faultcode>S:Client</faultcode><faultstring>no</faultstring></S:Fault></S:Body></S:Envelope>"
)


HOSTILE = b'<!DOCTYPE a [<!ENTITY b SYSTEM "file:///etc/passwd">]>' + FAULT.encode()


class Asked:
    """A partner that answers what it is asked on the connection: `answer` by an Outgoing that is
    made of the MessageId of the question."""

    def __init__(self, sky: Sky, peer: Peer) -> None:
        self.sky, self.peer = sky, peer
        sky.partner.address = peer.address
        sky.partner.save()

    def answers(self, make: Any, **fields: Any) -> None:
        def answer(request: Received) -> Answer:
            asked = Envelope(request.body).text("eb:MessageData/eb:MessageId")
            out = self.sky.from_partner(make(asked), **fields)
            return status(200, body=out.body, headers={"Content-Type": out.content_type})

        self.peer.always(answer)


@pytest.fixture
def asked() -> Iterator[Asked]:
    with Peer() as peer:
        yield Asked(make_sky(sync_reply="mshSignalsOnly"), peer)


@pytest.mark.requirement("EB-142", "EB-145", "EB-147")
def test_ping_is_answered_by_a_pong(asked: Asked, capsys: pytest.CaptureFixture[str]) -> None:
    asked.answers(pong)

    call_command("ping", asked.sky.partner.name, "--json")

    said = json.loads(capsys.readouterr().out)
    assert (said["partner"], said["answer"]) == (asked.sky.partner.name, "Pong")
    assert 0 < said["seconds"] < 60
    (request,) = asked.peer.received
    sent = Envelope(request.body)
    assert (sent.action, len(sent.all("eb:SyncReply")), sent.all("eb:AckRequested")) == (
        "Ping",
        1,
        [],
    )
    assert request.headers["SOAPAction"] == '"ebXML"'
    assert not OutboundMessage.objects.exists()


@pytest.mark.requirement("EB-146")
@pytest.mark.parametrize(
    ("code", "at"), [("Received", "2026-11-22T12:00:01Z"), ("NotRecognized", "")]
)
def test_status_stands_on_the_message_and_completes_nothing(
    asked: Asked, capsys: pytest.CaptureFixture[str], code: str, at: str
) -> None:
    sent = asked.sky.submit()
    with pytest.raises(NotPossible, match="was not sent yet"):
        questions.ask_status(sent, ANN)
    (job,) = asked.sky.poll()
    asked.sky.end(job)
    asked.answers(lambda of: status_response(of, sent.message_id, code, at))

    call_command("status", sent.message_id, "--json")

    said = json.loads(capsys.readouterr().out)
    assert (said["message_id"], said["message_status"]) == (sent.message_id, code)
    assert said["detail"] == (f"received {at}" if at else "")
    rows = History.objects.filter(message_id=sent.message_id, direction="out").order_by("pk")
    events = dict(rows.values_list("event", "detail"))
    assert events["StatusResponseReceived"].startswith(f"{code}{at and f', received {at}'}; asked")
    assert events["StatusRequested"]
    assert asked.sky.state(sent) == "waiting"


@pytest.mark.requirement("EB-142", "EB-147")
@pytest.mark.parametrize(
    ("make", "fields", "why"),
    [
        (pong, {"ref_to_message_id": "another"}, "the answer is a Pong about another"),
        (pong, {"from_party": "another"}, "the answer is a Pong about"),
        (pong, {"cpa_id": "another"}, "the answer is a Pong about"),
        (lambda of: status_response(of, "m", "Received"), {}, "the answer is a StatusResponse"),
        (lambda of: message_error(of, "NotSupported"), {}, "NotSupported:"),
    ],
)
def test_another_answer_is_none(asked: Asked, make: Any, fields: dict[str, str], why: str) -> None:
    asked.answers(make, **fields)

    said = questions.ping(asked.sky.partner)

    assert (said.answer, said.detail[: len(why)]) == ("no answer", why)


@pytest.mark.requirement("EB-147")
@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (status(204), "no answer within 0.2 s"),
        (status(200, body=b"<html>OK</html>"), "no answer within 0.2 s"),
        (status(200, body=HOSTILE, headers={"Content-Type": "text/xml"}), "no answer within 0.2 s"),
        (status(200, body=b"<" * 2**21, headers={"Content-Type": "text/xml"}), "no answer within"),
        (status(503), "Service Unavailable"),
        (
            status(500, body=FAULT.encode(), headers={"Content-Type": "text/xml"}),
            "SOAP Fault Client",
        ),
    ],
)
def test_no_answer(asked: Asked, answer: Answer, why: str) -> None:
    asked.peer.always(answer)

    said = questions.ping(asked.sky.partner, 0.2)

    assert (said.answer, said.is_answer) == ("no answer", False)
    assert why in said.detail
    assert len(asked.peer.received.all()) == 1  # one attempt


@pytest.mark.requirement("EB-147")
def test_answer_is_waited_for_a_minute(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    passed = {"sleep": slept.append, "monotonic": lambda: time.monotonic() + sum(slept)}
    monkeypatch.setattr(questions, "time", SimpleNamespace(**passed))
    asked.peer.always(status(204))

    said = questions.ping(asked.sky.partner)

    assert said.detail == "no answer within 60 s"
    assert slept
    assert said.seconds >= 60


def test_dialect_without_ping_is_refused(world: World) -> None:
    with pytest.raises(CommandError, match="dialect trp has neither Ping nor StatusRequest"):
        call_command("ping", world.there.name)
    with pytest.raises(CommandError, match="dialect trp has neither Ping nor StatusRequest"):
        call_command("status", world.submit().message_id)


@pytest.mark.requirement("EB-142")
def test_ping_may_name_the_agreement(asked: Asked) -> None:
    parties = {"our_party": "us", "their_party": "them", "their_party_context": "urn:party"}
    asked.sky.partner.agreements.create(dialect="ebms2", tpa_id="second", **parties)
    asked.peer.always(status(204))

    questions.ping(asked.sky.partner, 0.2, "second")

    assert Envelope(asked.peer.received.all()[0].body).text("eb:CPAId") == "second"
    with pytest.raises(NotPossible, match="has no agreement third"):
        questions.ping(asked.sky.partner, 0.2, "third")
