"""What a partner says of our messages: on a message of a business, after the Acknowledgment, and of
BestEffort messages (EB-058 to EB-060, EB-086, EB-088)."""

import pytest

from msh.flows.receiving import ebms2
from msh.flows.receiving.incoming import Incoming
from msh.flows.sending.http_answer import answer_of_best_effort, ended_with
from msh.flows.sending.kinds import Ended
from msh.models import History, InboundMessage, Incident, OutboundMessage
from msh.protocol.attempt import AttemptOutcome, AttemptResult
from msh.protocol.vocabulary import DeliverySemantics
from msh.transport.job import Job
from tests.peer.ebms2 import (
    NEXT_MSH,
    Outgoing,
    acknowledgment,
    acknowledgment_block,
    error_list,
    message,
    message_error,
)

from . import byhand
from .flying import SILENT, Sky, make_sky

pytestmark = pytest.mark.django_db

BEST_EFFORT = DeliverySemantics.BEST_EFFORT
SAID = "SecurityFailure: not for us (at /SOAP:Envelope)"
FAULT = (
    '<S:Envelope xmlns:S="http://schemas.xmlsoap.org/soap/envelope/"><S:Body><S:Fault>'
    "<faultcode>S:Client</faultcode><faultstring>no such agreement</faultstring>"
    "</S:Fault></S:Body></S:Envelope>"
)


def post(sky: Sky, out: Outgoing) -> None:
    """The partner POSTs it to us."""
    whole = sky.from_partner(out)
    ebms2.receive(sky.partner, Incoming(whole.content_type, whole.body))


def answer(sky: Sky, job: Job, out: Outgoing, status: int = 200) -> None:
    """The partner answers our POST with it, on the connection."""
    whole = sky.from_partner(out)
    end(sky, job, (whole.content_type, whole.body), status)


def end(sky: Sky, job: Job, entity: tuple[str, bytes], status: int = 200) -> None:
    outcome = AttemptOutcome.TRANSMITTED if status < 300 else AttemptOutcome.FAILED
    result = AttemptResult(outcome, status=status, detail=f"{status}", answer=entity)
    ended = Ended(job.key, result)
    beside = answer_of_best_effort(ended)
    if beside is None:
        sky.record(ended_with(ended))
        return
    sky.record(ended_with(beside))
    byhand.end(job, result)


def flying(sky: Sky, count: int) -> list[OutboundMessage]:
    sent = [sky.submit() for _ in range(count)]
    assert len(sky.poll()) == count
    return sent


def noted(sent: OutboundMessage) -> str:
    rows = History.objects.filter(message_id=sent.message_id, event="ErrorReceived")
    return "; ".join(rows.values_list("detail", flat=True))


@pytest.mark.requirement("EB-086", "EB-088")
@pytest.mark.parametrize("refused", [False, True])
def test_block_on_a_business_message_decides_which_message_it_acknowledges(
    sky: Sky, refused: bool
) -> None:
    request, other = flying(sky, 2)
    reply = message(ref_to_message_id=request.message_id)
    late = "2020-01-01T00:00:00Z" if refused else ""

    post(sky, reply.but(extra=acknowledgment_block(other.message_id), time_to_live=late))

    assert [sky.state(one) for one in (request, other)] == ["waiting", "acknowledged"]
    assert InboundMessage.objects.count() == (0 if refused else 1)


@pytest.mark.requirement("EB-086")
def test_header_decides_for_a_block_that_names_no_message(sky: Sky) -> None:
    (request,) = flying(sky, 1)

    post(sky, message(ref_to_message_id=request.message_id, extra=acknowledgment_block("")))

    assert sky.state(request) == "acknowledged"


@pytest.mark.requirement("EB-088")
@pytest.mark.parametrize("on_connection", [False, True])
def test_every_block_counts(sky: Sky, on_connection: bool) -> None:
    sent = [sky.submit() for _ in range(4)]
    jobs = sky.poll()
    first, *others = sent
    blocks = "".join(acknowledgment_block(one.message_id) for one in others)
    reply = message(ref_to_message_id=first.message_id, extra=blocks)

    if on_connection:
        answer(sky, jobs[0], reply)
    else:
        post(sky, reply)

    assert [sky.state(one) for one in sent] == ["waiting", *["acknowledged"] * 3]


@pytest.mark.requirement("EB-058", "EB-059")
@pytest.mark.parametrize("on_connection", [False, True])
@pytest.mark.parametrize(
    ("severity", "state", "kinds", "incidents"),
    [
        ("Warning", "waiting", ["warning"], []),
        ("Error", "failed", ["failed"], ["error_received"]),
    ],
)
def test_error_list_on_a_business_message_is_about_what_its_header_names(
    sky: Sky, severity: str, state: str, kinds: list[str], incidents: list[str], on_connection: bool
) -> None:
    sent, acknowledged = sky.submit(), sky.submit()
    job, _ = sky.poll()
    errors = error_list("SecurityFailure", severity, "not for us", "/SOAP:Envelope")
    beside = errors + acknowledgment_block(acknowledged.message_id)
    reply = message(ref_to_message_id=sent.message_id, extra=beside)

    if on_connection:
        answer(sky, job, reply)
    else:
        post(sky, reply)

    assert (sky.state(sent), sky.state(acknowledged)) == (state, "acknowledged")
    assert [kind for kind, _ in sky.events(sent)] == kinds
    assert SAID in sky.events(sent)[0][1]
    assert sky.incidents() == incidents
    assert InboundMessage.objects.count() == 1


@pytest.mark.requirement("EB-060")
def test_error_wins_over_an_acknowledgment_of_the_same_message_on_a_business_message(
    sky: Sky,
) -> None:
    (sent,) = flying(sky, 1)
    beside = error_list("Inconsistent", "Error") + acknowledgment_block(sent.message_id)

    post(sky, message(ref_to_message_id=sent.message_id, extra=beside))

    assert sky.state(sent) == "failed"


@pytest.mark.requirement("EB-103")
@pytest.mark.parametrize("limit", ["undelivered_limit", "rate_limit"])
def test_postponed_message_in_an_answer_does_not_keep_its_acknowledgment_from_counting(
    sky: Sky, limit: str
) -> None:
    sent, other = sky.submit(), sky.submit()
    job, _ = sky.poll()
    post(sky, message())
    setattr(sky.partner, limit, 1)
    sky.partner.save()
    blocks = acknowledgment_block(sent.message_id) + acknowledgment_block(other.message_id)

    answer(sky, job, message(ref_to_message_id=sent.message_id, extra=blocks))

    assert [sky.state(one) for one in (sent, other)] == ["acknowledged", "acknowledged"]
    assert InboundMessage.objects.count() == 1


@pytest.mark.requirement("EB-058", "EB-059")
@pytest.mark.parametrize("way", ["signal", "business", "answer"])
@pytest.mark.parametrize("severity", ["Warning", "Error"])
def test_error_after_the_acknowledgment_reaches_from_party_and_operator(
    sky: Sky, severity: str, way: str
) -> None:
    sent, job = sky.start()
    post(sky, acknowledgment(sent.message_id))
    errors = error_list("SecurityFailure", severity, "not for us", "/SOAP:Envelope")
    signal = message_error(sent.message_id).but(extra=errors)
    reply = message(ref_to_message_id=sent.message_id, extra=errors)

    for _ in range(2):  # a partner repeats what it says
        if way == "answer":
            answer(sky, job, signal)
        else:
            post(sky, signal if way == "signal" else reply)

    assert sky.state(sent) == "acknowledged"
    kind = "error" if severity == "Error" else "warning"
    assert sky.events(sent) == [("acknowledged", ""), (kind, SAID)]
    assert sky.incidents() == (["error_received"] if severity == "Error" else [])
    assert SAID in noted(sent)


@pytest.mark.requirement("EB-058", "EB-059")
@pytest.mark.parametrize("way", ["signal", "business", "answer"])
@pytest.mark.parametrize(
    ("severity", "state", "kind", "incidents"),
    [("Warning", "sent", "warning", []), ("Error", "failed", "failed", ["error_received"])],
)
def test_error_about_a_best_effort_message_reaches_from_party_and_operator(
    sky: Sky, severity: str, state: str, kind: str, incidents: list[str], way: str
) -> None:
    sent = sky.submit(semantics=BEST_EFFORT)
    (job,) = byhand.poll()
    assert job.answer_limit == 1024 * 1024
    errors = error_list("SecurityFailure", severity, "not for us", "/SOAP:Envelope")
    signal = message_error(sent.message_id).but(extra=errors)
    reply = message(ref_to_message_id=sent.message_id, extra=errors)

    if way == "answer":
        answer(sky, job, signal)
    else:
        byhand.end(job)
        post(sky, signal if way == "signal" else reply)

    assert sky.state(sent) == state
    assert sky.events(sent) == [(kind, SAID)]
    assert sky.incidents() == incidents
    assert SAID in noted(sent)
    assert sent.attempts.get().outcome == "transmitted"


@pytest.mark.requirement("EB-058")
def test_error_may_come_before_the_attempt_of_a_best_effort_message_is_recorded(sky: Sky) -> None:
    sent = sky.submit(semantics=BEST_EFFORT)
    (job,) = byhand.poll()

    post(sky, message_error(sent.message_id))
    byhand.end(job, SILENT)

    assert sky.state(sent) == "failed"
    assert [kind for kind, _ in sky.events(sent)] == ["failed"]
    assert sent.attempts.get().outcome == "failed"


@pytest.mark.requirement("EB-058")
def test_error_about_a_best_effort_message_that_has_failed_is_noted(sky: Sky) -> None:
    sent = sky.submit(semantics=BEST_EFFORT)
    (job,) = byhand.poll()
    byhand.end(job, SILENT)

    post(sky, message_error(sent.message_id, "NotSupported"))

    assert [kind for kind, _ in sky.events(sent)] == ["failed"]
    assert "NotSupported" in noted(sent)
    assert not Incident.objects.exists()


@pytest.mark.requirement("EB-067")
def test_fault_in_the_answer_to_a_best_effort_message_fails_it(sky: Sky) -> None:
    sent = sky.submit(semantics=BEST_EFFORT)
    (job,) = byhand.poll()

    end(sky, job, ("text/xml", FAULT.encode()))

    assert sky.state(sent) == "failed"
    ((kind, detail),) = sky.events(sent)
    assert kind == "failed"
    assert "no such agreement" in detail
    assert sky.incidents() == ["error_received"]


@pytest.mark.requirement("EB-072")
def test_business_message_in_the_answer_to_a_best_effort_message_is_taken(sky: Sky) -> None:
    sent = sky.submit(semantics=BEST_EFFORT)
    (job,) = byhand.poll()

    answer(sky, job, message(ref_to_message_id=sent.message_id))

    assert sky.state(sent) == "sent"
    assert InboundMessage.objects.count() == 1


@pytest.mark.requirement("EB-104")
def test_error_about_nothing_that_we_sent_is_noted_with_its_words(sky: Sky) -> None:
    errors = error_list("SecurityFailure", "Error", "not for us", "/SOAP:Envelope")

    post(sky, message_error("nothing").but(extra=errors))

    row = History.objects.get(message_id="nothing")
    assert row.event == "MessageErrorReceived"
    assert SAID in row.detail


@pytest.mark.requirement("EB-044", "EB-086")
def test_an_acknowledgment_of_the_next_msh_completes_a_message_that_asked_it() -> None:
    sky = make_sky(ack_actor="nextMSH")
    sent = sky.submit()
    (job,) = sky.poll()
    assert NEXT_MSH.encode() in job.body
    sky.end(job)
    fields = {"from_party": "them", "to_party": "us", "party_type": "urn:party"}
    ack = acknowledgment(sent.message_id, cpa_id=sky.agreement.tpa_id, **fields)
    ack = ack.but(extra=acknowledgment_block(sent.message_id, NEXT_MSH))

    assert ebms2.receive(sky.partner, Incoming(ack.content_type, ack.body)).status == 204

    assert sky.state(sent) == "acknowledged"
