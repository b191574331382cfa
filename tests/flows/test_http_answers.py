"""What a partner answers on the connection of our POST."""

from typing import Any

import pytest
from django.conf import settings

from msh.flows.sending.http_answer import ended_with
from msh.flows.sending.kinds import Ended
from msh.models import History, InboundMessage, OutboundMessage, Signal
from msh.protocol.attempt import AttemptOutcome, AttemptResult
from msh.transport.job import Job
from partners.models import Agreement
from tests.peer.ebms2 import (
    SERVICE,
    SYNC_REPLY,
    Outgoing,
    acknowledgment,
    acknowledgment_block,
    message,
    message_error,
)

from .flying import Sky, make_sky

pytestmark = pytest.mark.django_db

FAULT = (
    '<S:Envelope xmlns:S="http://schemas.xmlsoap.org/soap/envelope/"><S:Body><S:Fault>'
    "<faultcode>S:{0}</faultcode><faultstring>no</faultstring>{1}</S:Fault></S:Body></S:Envelope>"
)


def answered(sky: Sky, job: Job, answer: tuple[str, bytes], status: int = 200) -> AttemptResult:
    """The attempt ended with this answer; what of it is recorded."""
    outcome = AttemptOutcome.TRANSMITTED if status < 300 else AttemptOutcome.FAILED
    result = AttemptResult(outcome, status=status, detail=f"{status}", answer=answer)
    ended = ended_with(Ended(job.key, result))
    sky.record(ended)
    assert ended.result.answer is None
    return ended.result


def of(sky: Sky, out: Outgoing, **fields: Any) -> tuple[str, bytes]:
    whole = sky.from_partner(out, **fields)
    return whole.content_type, whole.body


def notes(sent: OutboundMessage) -> list[str]:
    rows = History.objects.filter(message_id=sent.message_id, event__startswith="Answer")
    return list(rows.values_list("detail", flat=True))


@pytest.mark.requirement("EB-069")
def test_an_acknowledgment_in_the_answer_completes_the_message(sky: Sky) -> None:
    sent, job = sky.start()
    assert job.answer_limit == 1024 * 1024  # EB-157
    answered(sky, job, of(sky, acknowledgment(sent.message_id)))
    assert sky.state(sent) == "acknowledged"
    assert sent.attempts.get().outcome == "transmitted"


@pytest.mark.requirement("EB-058", "EB-069")
@pytest.mark.parametrize("status", [200, 400, 500])
def test_an_error_in_the_answer_fails_it_whatever_the_status(sky: Sky, status: int) -> None:
    sent, job = sky.start()
    answered(sky, job, of(sky, message_error(sent.message_id, "SecurityFailure")), status)
    assert sky.state(sent) == "failed"
    assert sky.events(sent)[0][1].startswith("SecurityFailure")


@pytest.mark.requirement("EB-070")
@pytest.mark.parametrize(
    ("fields", "note"),
    [
        ({"ref_to_message_id": "another"}, "the answer is about message another"),
        ({"cpa_id": "another"}, "the answer names an agreement that we do not have: another"),
        ({"from_party": "another"}, "the answer is wrong: From is not the party"),
        ({"cpa_id": "second"}, "the answer belongs to another agreement than the message"),
    ],
)
def test_an_answer_about_something_else_is_noted_and_the_message_waits(
    sky: Sky, fields: dict[str, Any], note: str
) -> None:
    sent = sky.submit()
    parties = {"our_party": "us", "their_party": "them", "their_party_context": "urn:party"}
    sky.partner.agreements.create(dialect="ebms2", tpa_id="second", **parties)
    (job,) = sky.poll()
    answered(sky, job, of(sky, acknowledgment(sent.message_id), **fields))
    assert sky.state(sent) == "waiting"
    assert notes(sent)[0].startswith(note)
    assert sky.incidents() == (["answer_refused"] if "wrong" in note else [])


@pytest.mark.requirement("EB-067")
@pytest.mark.parametrize(
    ("code", "state"), [("Client", "failed"), ("MustUnderstand", "failed"), ("Server", "waiting")]
)
def test_a_fault_decides_over_the_status(sky: Sky, code: str, state: str) -> None:
    sent, job = sky.start()
    taken = answered(sky, job, ("text/xml", FAULT.format(code, "").encode()), 500)
    assert sky.state(sent) == state
    assert taken.detail == f"SOAP Fault {code}: no"


@pytest.mark.requirement("EB-067")
@pytest.mark.parametrize(
    ("codes", "state"), [(["206"], "waiting"), (["201", "206"], "waiting"), (["201"], "failed")]
)
def test_a_code_of_a_fault_that_the_agreement_calls_retryable_is_no_end(
    codes: list[str], state: str
) -> None:
    sky = make_sky(retryable_codes=["200", "206"])
    make_sky(retryable_codes=["201"])
    sent, job = sky.start()
    errors = "".join(f"<e:errorCode>{code}</e:errorCode>" for code in codes)
    detail = f'<detail><e:list xmlns:e="urn:e">{errors}</e:list></detail>'
    taken = answered(sky, job, ("text/xml", FAULT.format("Client", detail).encode()), 500)
    assert sky.state(sent) == state
    assert taken.detail == f"SOAP Fault Client: no ({', '.join(codes)})"


@pytest.mark.requirement("EB-071")
@pytest.mark.parametrize(
    "answer", [("text/html", b"<html>OK</html>"), ("", b"\x00"), ("a/b", b"x")]
)
def test_what_is_no_message_changes_nothing(sky: Sky, answer: tuple[str, bytes]) -> None:
    sent, job = sky.start()
    answered(sky, job, answer)
    assert sky.state(sent) == "waiting"
    assert notes(sent) == []


@pytest.mark.requirement("EB-072")
@pytest.mark.parametrize(
    ("extra", "state"), [("", "waiting"), ("Acknowledgment", "acknowledged"), ("Sync", "waiting")]
)
def test_a_business_message_in_the_answer_is_taken(sky: Sky, extra: str, state: str) -> None:
    """With SyncReply or without; its Acknowledgment goes by a POST of its own."""
    Agreement.objects.update(sync_reply="signalsAndResponse")
    sent, job = sky.start()
    assert job.answer_limit == settings.MSH_MESSAGE_LIMIT  # EB-157
    blocks = {"Acknowledgment": acknowledgment_block(sent.message_id), "Sync": SYNC_REPLY}
    out = message(ref_to_message_id=sent.message_id, extra=blocks.get(extra, ""))
    answered(sky, job, of(sky, out))
    assert InboundMessage.objects.get().message_id == out.message_id
    assert (sky.state(sent), notes(sent)) == (state, [])
    assert Signal.objects.get().pending == 1


def test_a_ping_in_the_answer_is_noted(sky: Sky) -> None:
    sent, job = sky.start()
    answered(sky, job, of(sky, message(service=SERVICE, action="Ping")))
    assert notes(sent) == ["a Ping in an answer is not supported"]


@pytest.mark.requirement("EB-069")
def test_an_answer_is_taken_by_the_round_that_records_its_attempt(sky: Sky) -> None:
    """If the database fails between, neither is written, and the answer is no late one."""
    sent, job = sky.start()
    answer = of(sky, acknowledgment(sent.message_id))
    result = AttemptResult(AttemptOutcome.TRANSMITTED, status=200, answer=answer)
    ended_with(Ended(job.key, result))
    assert sky.state(sent) == "waiting"
    answered(sky, job, answer)
    assert (sky.state(sent), OutboundMessage.objects.get().duplicate_acks) == ("acknowledged", 0)


@pytest.mark.requirement("EB-069")
def test_an_answer_after_the_acknowledgment_is_late(sky: Sky) -> None:
    sent, job = sky.start()
    sky.answer(sent)
    answered(sky, job, of(sky, acknowledgment(sent.message_id)))
    assert (sky.state(sent), OutboundMessage.objects.get().duplicate_acks) == ("acknowledged", 1)
    assert sent.attempts.get().outcome == "transmitted"


@pytest.mark.requirement("EB-069", "EB-123")
def test_an_answer_starts_the_next_message_of_its_conversation() -> None:
    sky = make_sky(ordered=True)
    first, second = (sky.submit(conversation_id="talk") for _ in range(2))
    (job,) = sky.poll()
    answered(sky, job, of(sky, acknowledgment(first.message_id)))
    assert sky.state(first) == "acknowledged"
    (job,) = sky.poll()
    sky.answer(second)
    answered(sky, job, of(sky, acknowledgment(second.message_id)))  # late
    third = sky.submit(conversation_id="talk")
    sky.poll()
    assert (sky.state(second), sky.state(third)) == ("acknowledged", "waiting")
