"""What an ebMS 2.0 partner gets by POST for the messages that it sends."""

import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from msh.flows.receiving import questions
from msh.flows.sending.submit import submit
from msh.models import (
    History,
    InboundMessage,
    Incident,
    OutboundMessage,
    Signal,
)
from msh.protocol.message import Payload
from msh.store.history import Actor
from partners.models import Agreement, Credential, Partner
from tests.exchange.machine import Machine
from tests.exchange.pair import OUR_PARTY, THEIR_PARTY, WAITS
from tests.peer import Peer, Received, status
from tests.peer.answers import Answer
from tests.peer.ebms2 import (
    Envelope,
    Outgoing,
    acknowledgment,
    message,
    message_error,
    ping,
    pong,
    status_response,
)
from tests.peer.sending import Request, Response
from tests.waiting import wait_until

ERROR_LIST = (
    '<eb:ErrorList eb:version="2.0" SOAP:mustUnderstand="1" eb:highestSeverity="Error">{}'
    "</eb:ErrorList>"
)


class Ebms2Partner:
    """A partner that nobody else has: it POSTs by `send`, and `peer` hears what is sent to it."""

    def __init__(self, msh: Machine, peer: Peer) -> None:
        self.msh, self.peer = msh, peer
        name = f"ebms2-{uuid.uuid4().hex[:12]}"
        partner = Partner.objects.create(name=name, uri=peer.uri)
        self.agreement = Agreement.objects.create(
            partner=partner,
            dialect="ebms2",
            tpa_id=f"cpa-{name}",
            our_party=OUR_PARTY,
            our_party_context="DUNS",
            their_party=THEIR_PARTY,
            their_party_context="DUNS",
        )
        credential = Credential(partner=partner)
        self.token = credential.generate()
        credential.save()

    def message(self, **fields: Any) -> Outgoing:
        return message(cpa_id=self.agreement.tpa_id, **fields)

    def send(self, out: Outgoing) -> None:
        response = self.post(out)
        assert (response.status, response.body) == (204, b"")

    def post(self, out: Outgoing) -> Response:
        headers = {"Content-Type": out.content_type, "Authorization": f"Bearer {self.token}"}
        return Request(self.msh.url, headers=headers, body=out.body).send()

    def parts_of(self, number: int) -> bytes:
        """The envelope of a package that came."""
        body = self.peer.received.all()[number].body
        begin, end = body.index(b"<?xml"), body.index(b"</SOAP:Envelope>")
        return body[begin:end] + b"</SOAP:Envelope>"

    def answers(self, count: int) -> list[Received]:
        return self.peer.received.wait_for_count(count, lambda one: True, timeout=WAITS)


@pytest.fixture
def partner(msh: Machine) -> Iterator[Ebms2Partner]:
    with Peer(msh.url) as peer:
        yield Ebms2Partner(msh, peer)


@pytest.mark.requirement("EB-001", "EB-094", "EB-095", "EB-150")
def test_message_is_delivered_and_acknowledged_by_one_entity(partner: Ebms2Partner) -> None:
    out = partner.message()

    partner.send(out)

    (answer,) = partner.answers(1)
    assert answer.headers["Content-Type"] == 'text/xml; charset="UTF-8"'
    assert answer.headers["SOAPAction"] == '"ebXML"'
    ack = Envelope(answer.body)
    assert (ack.action, ack.ref_to_message_id) == ("Acknowledgment", out.message_id)
    stored = InboundMessage.objects.filter(message_id=out.message_id)
    wait_until(lambda: stored.get().state == "delivered", seconds=WAITS)
    assert partner.msh.journal(out.message_id) == ["delivered"]


@pytest.mark.requirement("EB-094", "EB-100", "EB-111", "EB-112")
def test_each_copy_gets_the_first_answer_byte_for_byte(partner: Ebms2Partner) -> None:
    out = partner.message()
    partner.send(out)
    partner.answers(1)
    partner.peer.script(status(503))  # an answer that fails is sent again

    for copy in range(2, 6):
        partner.send(out.but(boundary=f"copy-{copy}"))
        partner.answers(copy + 1)
        wait_until(lambda: not waiting_answers(out), seconds=WAITS)

    assert len({answer.body for answer in partner.answers(6)}) == 1
    wait_until(lambda: partner.msh.journal(out.message_id) == ["delivered"], seconds=WAITS)


def waiting_answers(*several: Outgoing) -> int:
    about = [one.message_id for one in several]
    return Signal.objects.filter(ref_to_message_id__in=about, pending__gt=0).count()


@pytest.mark.requirement("EB-094", "EB-112")
def test_burst_is_acknowledged_to_a_slow_partner_whatever_it_repeats(
    partner: Ebms2Partner,
) -> None:
    """Its RetryInterval is shorter than the time that all Acknowledgments take: none is repeated
    but those that had left."""
    partner.peer.always(status(204, delay=0.03))
    burst = [partner.message() for _ in range(60)]
    copies = 0
    unanswered = burst
    for _ in range(3):  # as many copies as its agreement allows
        for one in unanswered:
            partner.send(one)
        copies += len(unanswered)
        unanswered = [one for one in burst if one.message_id not in acknowledged(partner)]

    wait_until(lambda: not waiting_answers(*burst), seconds=WAITS)

    assert acknowledged(partner) == {one.message_id for one in burst}
    assert len(partner.peer.received.all()) <= copies
    ids = [one.message_id for one in burst]
    wait_until(lambda: len(partner.msh.delivered(ids)) == len(burst), seconds=WAITS)


def acknowledged(partner: Ebms2Partner) -> set[str]:
    return {Envelope(one.body).ref_to_message_id for one in partner.peer.received.all()}


@pytest.mark.requirement("EB-053", "EB-063", "EB-110", "EB-112")
def test_refused_message_gets_the_first_error_to_the_address_of_the_agreement(
    partner: Ebms2Partner,
) -> None:
    out = partner.message(time_to_live="2020-01-01T00:00:00Z")
    partner.send(out)
    partner.answers(1)
    wait_until(lambda: not waiting_answers(out), seconds=WAITS)

    partner.send(out)

    first, second = partner.answers(2)
    assert first.body == second.body
    error = Envelope(first.body)
    assert (error.action, error.ref_to_message_id) == ("MessageError", out.message_id)
    assert error.errors[0][0] == "TimeToLiveExpired"
    assert partner.msh.journal(out.message_id) == []


@pytest.mark.requirement("EB-075", "EB-100")
def test_redis_is_wiped_when_a_message_was_taken(partner: Ebms2Partner) -> None:
    out = partner.message()
    partner.send(out)

    partner.msh.wipe_redis()

    (answer,) = partner.answers(1)
    assert Envelope(answer.body).action == "Acknowledgment"
    wait_until(lambda: partner.msh.journal(out.message_id) == ["delivered"], seconds=WAITS)


@pytest.mark.requirement("EB-106")
def test_messages_are_delivered_once_in_the_order_of_their_arrival(partner: Ebms2Partner) -> None:
    sent = [partner.message() for _ in range(4)]

    for out in (*sent, sent[0]):
        partner.send(out)

    ids = [out.message_id for out in sent]
    wait_until(lambda: partner.msh.delivered(ids)[:4] == ids, seconds=WAITS)
    last = partner.message()  # by now a copy of the first would have been delivered
    partner.send(last)
    ids.append(last.message_id)
    wait_until(lambda: last.message_id in partner.msh.delivered(ids), seconds=WAITS)
    assert partner.msh.delivered(ids) == ids


@pytest.mark.requirement("EB-140", "EB-147")
def test_ping_of_the_partner_is_answered_by_one_post(partner: Ebms2Partner) -> None:
    out = ping(cpa_id=partner.agreement.tpa_id)
    partner.peer.script(status(503))

    partner.send(out)

    (answer,) = partner.answers(1)
    pong_sent = Envelope(answer.body)
    assert (pong_sent.action, pong_sent.ref_to_message_id) == ("Pong", out.message_id)
    ended = Signal.objects.filter(ref_to_message_id=out.message_id, pending=0, last_status=503)
    wait_until(ended.exists, seconds=WAITS)  # and not tried again


@pytest.mark.requirement("EB-142", "EB-143", "EB-146")
def test_answers_to_our_questions_may_come_by_a_post(partner: Ebms2Partner) -> None:
    sent, _ = first_copy(partner)
    cpa_id = partner.agreement.tpa_id

    def answer(request: Received) -> Answer:
        asked = Envelope(request.body)
        of = asked.text("eb:MessageData/eb:MessageId")
        if asked.action == "Ping":
            partner.send(pong(of, cpa_id=cpa_id))
        else:
            partner.send(status_response(of, sent.message_id, "Processed", cpa_id=cpa_id))
        return status(204)

    partner.peer.always(answer)

    assert questions.ping(partner.agreement.partner).answer == "Pong"
    said = questions.ask_status(OutboundMessage.objects.get(pk=sent.pk), Actor("ann"))
    assert said.answer == "Processed"
    assert state_of(sent) == "flying"


def first_copy(partner: Ebms2Partner, **options: Any) -> tuple[OutboundMessage, Envelope]:
    """A message of ours that has reached the partner, and which it has not answered yet."""
    sent = submit(partner.agreement, "urn:example:orders", "Order", [Payload(b"<a/>")], **options)
    partner.answers(1)
    return sent, Envelope(partner.parts_of(0))


def state_of(message: OutboundMessage) -> str:
    return OutboundMessage.objects.get(pk=message.pk).state


@pytest.mark.requirement("EB-078", "EB-086", "EB-087")
@pytest.mark.parametrize("named", ["both", "block only"])
def test_acknowledgment_of_the_partner_completes_the_message(
    partner: Ebms2Partner, named: str
) -> None:
    sent, copy = first_copy(partner)
    assert copy.text("eb:MessageData/eb:MessageId") == sent.message_id
    ack = acknowledgment(sent.message_id, cpa_id=partner.agreement.tpa_id)

    partner.send(ack if named == "both" else ack.but(ref_to_message_id=""))

    assert state_of(sent) == "acknowledged"
    partner.send(ack.but(message_id="another@peer"))  # counted, and dropped
    assert state_of(sent) == "acknowledged"


@pytest.mark.requirement("EB-062")
def test_acknowledgment_that_is_refused_calls_an_operator(partner: Ebms2Partner) -> None:
    sent, _ = first_copy(partner)
    ack = acknowledgment(sent.message_id, cpa_id=partner.agreement.tpa_id)

    partner.send(ack.but(to_party="999999999"))

    assert state_of(sent) == "flying"
    incident = Incident.objects.get(partner=partner.agreement.partner)
    assert (incident.kind, incident.message_id) == ("answer_refused", sent.message_id)
    partner.send(ack)
    partner.send(ack.but(to_party="999999999"))  # it has ended: noted
    incident.refresh_from_db()
    assert (state_of(sent), incident.count) == ("acknowledged", 1)


@pytest.mark.requirement("EB-061")
def test_error_that_cannot_be_read_fails_nothing(partner: Ebms2Partner) -> None:
    sent, _ = first_copy(partner)
    error = message_error(sent.message_id, cpa_id=partner.agreement.tpa_id)
    history = History.objects.filter(partner_id=partner.agreement.partner_id)
    noted = history.filter(event__contains="MessageError")

    for count, broken in enumerate(
        (
            {"extra": ERROR_LIST.format("")},
            {"extra": ERROR_LIST.format('<eb:Error eb:errorCode="Inconsistent"/>')},
            {"ref_to_message_id": ""},
        ),
        1,
    ):
        partner.send(error.but(**broken))

        assert state_of(sent) == "flying"
        assert noted.count() == count
    assert all(noted.values_list("detail", flat=True))
