"""An outage of an ebMS 2.0 partner heals by itself: nobody acts, and nothing fails."""

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from msh.flows.operations import change_link
from msh.flows.operations.inspection.why_not_sent import explanation_of
from msh.flows.sending.answered import hear
from msh.models import Attempt, Flight, History, Incident, OutboundMessage
from msh.protocol.attempt import AttemptResult, outcome_of
from msh.protocol.ebms.vocabulary import FaultCode
from msh.protocol.flight.gate import REFUSALS
from msh.protocol.message import ErrorReport
from msh.protocol.reason import Reason
from msh.protocol.vocabulary import ErrorCode, Severity
from msh.store.history import Actor
from msh.transport.job import Job
from msh.wire.dialect import EBMS2
from msh.wire.ebms2.soap import compose_fault
from partners.setup import apply
from tests.peer.ebms2 import acknowledgment

from .byhand import TRANSMITTED
from .flying import BUSY, REFUSED, SILENT, Sky, make_sky

pytestmark = pytest.mark.django_db

ASKED_TO_WAIT = replace(BUSY, status=503, retry_after=5.0)


def end_all(sky: Sky, result: AttemptResult) -> int:
    """All that may leave now leaves and ends like this. How many POSTs that were."""
    posts = 0
    while jobs := sky.poll():
        posts += len(jobs)
        for job in jobs:
            sky.end(job, result)
    return posts


def acknowledge_all(sky: Sky) -> None:
    while jobs := sky.poll():
        for job in jobs:
            sky.end(job)
            sky.answer(OutboundMessage.objects.get(pk=job.key.key))  # type: ignore[attr-defined]


def states(messages: list[OutboundMessage], sky: Sky) -> Counter[str]:
    return Counter(sky.state(message) for message in messages)


@pytest.mark.requirement("EB-091")
def test_an_outage_of_ten_seconds_heals_by_itself() -> None:
    sky = make_sky(retry_interval=60, retries=3, time_to_live=241)
    messages = [sky.submit() for _ in range(20)]
    end_all(sky, SILENT)  # its connection was refused
    sky.let_pass(10)
    for _ in range(3):
        sky.let_pass(60)
        acknowledge_all(sky)

    assert states(messages, sky) == {"acknowledged": 20}
    assert sky.link.state == "idle"
    assert not Incident.objects.filter(partner=sky.partner).exists()


@pytest.mark.requirement("EB-089", "EB-090", "EB-091")
def test_a_partner_that_asks_to_wait_is_not_silent(sky: Sky) -> None:
    for _ in range(9):
        sky.submit()
    jobs: list[Job] = []
    while len(jobs) < 8:
        jobs += sky.poll()
    for job in jobs:
        sky.end(job, ASKED_TO_WAIT)
    sky.let_pass(6)
    assert sky.poll()
    assert (sky.link.state, sky.incidents()) == ("idle", [])


@pytest.mark.requirement("EB-089", "EB-090")
@pytest.mark.parametrize("status", [429, 503])
def test_waits_that_the_partner_asks_for_spend_no_retry(status: int) -> None:
    sky = make_sky(retries=1, retry_interval=5)
    messages = [sky.submit() for _ in range(20)]
    for _ in range(10):
        assert end_all(sky, replace(ASKED_TO_WAIT, status=status))
        sky.let_pass(6)
    acknowledge_all(sky)

    assert states(messages, sky) == {"acknowledged": 20}
    assert not Incident.objects.filter(partner=sky.partner).exists()


@pytest.mark.requirement("EB-091")
def test_a_silent_partner_is_probed_without_a_setting() -> None:
    sky = make_sky(retry_interval=60, retries=3)
    messages = [sky.submit() for _ in range(20)]
    end_all(sky, SILENT)
    sky.let_pass(61)
    end_all(sky, SILENT)
    assert sky.link.state == "suspended"
    assert sky.incidents() == ["partner_unreachable"]

    posts = 0
    for _ in range(120):  # two hours
        sky.let_pass(61)
        posts += end_all(sky, SILENT)
    assert 100 <= posts <= 120
    assert states(messages, sky)["failed"] == 0

    for _ in range(4):
        sky.let_pass(61)
        acknowledge_all(sky)
    assert states(messages, sky) == {"acknowledged": 20}
    assert (sky.link.state, sky.incidents()) == ("idle", [])


@pytest.mark.requirement("EB-091")
def test_a_long_retry_interval_is_that_of_the_probes() -> None:
    sky = make_sky(retry_interval=3600, retries=3)
    for _ in range(9):
        sky.submit()
    end_all(sky, SILENT)
    sky.let_pass(3601)
    end_all(sky, SILENT)
    assert sky.link.state == "suspended"
    sky.let_pass(3500)
    assert sky.poll() == []
    sky.let_pass(101)
    assert len(sky.poll()) == 1


@pytest.mark.requirement("EB-067", "EB-089")
@pytest.mark.parametrize("status", [301, 401, 403, 404, 407, 408, 429, 502, 503, 504])
def test_over_a_fault_the_status_decides(sky: Sky, status: int) -> None:
    message, job = sky.start()
    fault = compose_fault(FaultCode.CLIENT, "who are you?")
    line = f"{status} Not (Retry-After: 5 s)"
    result = AttemptResult(outcome_of(status), status, f"{line}: <Envelope", status_line=line)
    sky.end(job, replace(result, answer=fault))
    assert sky.state(message) == "waiting"
    attempt = Attempt.objects.get(message=message)
    assert attempt.detail == f"{line}: SOAP Fault Client: who are you?"


@pytest.mark.requirement("EB-067")
@pytest.mark.parametrize("status", [200, 400, 500])
def test_a_fault_decides_over_a_status_that_says_less(sky: Sky, status: int) -> None:
    for code, state in ((FaultCode.CLIENT, "failed"), (FaultCode.SERVER, "waiting")):
        message, job = sky.start()
        fault = compose_fault(code, "no")
        sky.end(job, AttemptResult(outcome_of(status), status=status, answer=fault))
        assert sky.state(message) == state


@pytest.mark.requirement("EB-089")
def test_a_token_that_is_changed_early_costs_no_message() -> None:
    """Our own endpoint answers 401 with a Fault."""
    entity = EBMS2.refusal(401, "unknown credentials")
    answer = (entity.content_type, entity.body) if entity else None
    sky = make_sky(retry_interval=60, retries=3)
    messages = [sky.submit() for _ in range(20)]
    refused = AttemptResult(outcome_of(401), status=401, detail="401", answer=answer)
    end_all(sky, refused)
    sky.let_pass(61)
    for _ in range(3):
        acknowledge_all(sky)
        sky.let_pass(61)
    assert states(messages, sky) == {"acknowledged": 20}
    assert not Incident.objects.filter(partner=sky.partner).exists()


@pytest.mark.requirement("EB-083", "EB-091")
def test_time_to_live_of_what_has_not_left_begins_when_it_leaves() -> None:
    """The partner is away for longer than a TimeToLive: no connection is made, so nobody has seen
    a byte of the messages under way."""
    sky = make_sky(retry_interval=5, retries=3, time_to_live=1)
    messages = [sky.submit() for _ in range(20)]
    for _ in range(10):
        end_all(sky, SILENT)
        sky.let_pass(61)
    for _ in range(3):
        acknowledge_all(sky)
        sky.let_pass(6)
    assert states(messages, sky) == {"acknowledged": 20}


@pytest.mark.requirement("EB-083")
def test_time_to_live_of_what_may_have_left_goes_on() -> None:
    sky = make_sky(retry_interval=5, retries=3, time_to_live=1)
    message = sky.submit()
    bodies = []
    for result in (SILENT, replace(SILENT, body_sent=True), SILENT):
        (job,) = sky.poll()
        bodies.append(job.body)
        sky.end(job, result)
        sky.let_pass(6)
    assert bodies[1] == bodies[2]
    sky.let_pass(10)
    assert sky.poll() == []
    assert sky.state(message) == "failed"


@pytest.mark.requirement("EB-091")
def test_the_incident_says_which_messages_will_expire() -> None:
    sky = make_sky(retry_interval=60, retries=3, time_to_live=600)
    for _ in range(9):
        sky.submit()
    no_answer = replace(SILENT, body_sent=True)
    end_all(sky, no_answer)
    sky.let_pass(61)
    end_all(sky, no_answer)
    detail = Incident.objects.get(partner=sky.partner).detail
    first = Flight.objects.order_by("expires_at").first()
    assert first is not None
    assert "9 of 9 messages under way expire if it stays silent, the first at" in detail
    assert f"{first.expires_at:%Y-%m-%d %H:%M:%S} UTC" in detail
    assert sky.link.suspended_detail.endswith("UTC")


@pytest.mark.requirement("EB-091")
def test_a_partner_that_is_never_probed_waits_for_an_operator(sky: Sky) -> None:
    apply({"partners": [{"name": sky.partner.name, "never_probe": True, "probe_interval": 30}]})
    for _ in range(9):
        sky.submit()
    end_all(sky, SILENT)
    sky.let_pass(61)
    end_all(sky, SILENT)
    assert (sky.link.state, sky.link.probe_due) == ("suspended", None)
    sky.let_pass(30 * 86_400)
    hear(sky.partner.pk)
    assert sky.poll() == []


def silent_sky(**settings: Any) -> Sky:
    sky = make_sky(**settings)
    for _ in range(9):
        sky.submit()
    end_all(sky, SILENT)
    sky.let_pass(61)
    end_all(sky, SILENT)
    assert sky.link.suspended_for == "partner_unreachable"
    sky.submit()
    return sky


@pytest.mark.requirement("EB-091")
def test_what_a_silent_partner_sends_lets_one_probe_leave() -> None:
    sky = silent_sky(window=20)
    assert sky.poll() == []
    hear(sky.partner.pk)
    (probe,) = sky.poll()
    assert sky.poll() == []
    sky.end(probe, SILENT)
    for _ in range(10):  # it sends many, and is not asked each time
        hear(sky.partner.pk)
        assert sky.poll() == []

    sky.let_pass(61)
    hear(sky.partner.pk)
    (probe,) = sky.poll()
    sky.end(probe)
    assert (sky.link.state, sky.incidents()) == ("idle", [])


@pytest.mark.requirement("EB-091")
def test_what_the_partner_sends_opens_nothing_that_an_operator_closed(sky: Sky) -> None:
    sky.submit()
    change_link.suspend(sky.partner, Actor("ann", "moved"))
    hear(sky.partner.pk)
    assert sky.poll() == []


@pytest.mark.requirement("EB-089")
@pytest.mark.parametrize("answer", ["status", "fault", "error"])
def test_what_is_refused_in_a_row_with_one_code_costs_no_queue(sky: Sky, answer: str) -> None:
    messages = [sky.submit() for _ in range(30)]

    def refuse(job: Job) -> None:
        if answer == "status":
            sky.end(job, REFUSED)
        elif answer == "fault":
            fault = compose_fault(FaultCode.CLIENT, "no such action")
            sky.end(job, AttemptResult(outcome_of(500), status=500, answer=fault))
        else:
            sky.end(job)
            key = job.key.key  # type: ignore[attr-defined]
            error = ErrorReport(ErrorCode.INCONSISTENT, Severity.HARD_ERROR, "/x", "wrong", None)
            sky.answer(OutboundMessage.objects.get(pk=key), error, acknowledged=False)

    while jobs := sky.poll():
        for job in jobs:
            refuse(job)
    assert REFUSALS <= states(messages, sky)["failed"] < REFUSALS + 4  # four leave at once
    assert (sky.link.state, sky.link.suspended_for) == ("suspended", "partner_refuses")
    assert "partner_refuses" in sky.incidents()
    sky.let_pass(86_400)
    hear(sky.partner.pk)
    assert sky.poll() == []

    change_link.resume(sky.partner, Actor("ann", "corrected"))
    assert "partner_refuses" not in sky.incidents()
    while states(messages, sky)["ready"]:
        acknowledge_all(sky)
        sky.let_pass(61)
    assert sky.link.state == "idle"


@pytest.mark.requirement("EB-089")
def test_refusals_between_which_a_message_is_acknowledged_stop_nothing(sky: Sky) -> None:
    for number in range(20):
        message, job = sky.start()
        sky.end(job, REFUSED if number % 4 else TRANSMITTED)
        if number % 4 == 0:
            sky.answer(message)
    assert sky.link.state == "idle"


@pytest.mark.requirement("EB-089")
def test_refusals_with_different_codes_stop_nothing(sky: Sky) -> None:
    for number in range(12):
        _, job = sky.start()
        status = (400, 413, 422)[number % 3]
        sky.end(job, replace(REFUSED, status=status))
    assert sky.link.state == "idle"


@pytest.mark.requirement("EB-091")
@pytest.mark.parametrize("retries", [0, 2])
def test_the_cause_of_a_silence_reaches_incident_and_advice(retries: int) -> None:
    sky = make_sky(retries=retries)
    message = sky.submit()
    why = "Certificate not trusted: certificate has expired (them.example:443)"
    while sky.link.state != "suspended":
        end_all(sky, replace(SILENT, detail=why, reason=Reason.TLS))
        sky.let_pass(61)
    assert why in Incident.objects.get(partner=sky.partner).detail
    said = explanation_of(message.pk)
    assert why in said
    assert "this host must trust its CA" in said


@pytest.mark.requirement("EB-082")
def test_the_cause_stands_in_the_incident_of_a_message_that_failed() -> None:
    sky = make_sky(retries=0)
    message, job = sky.start()
    sky.end(job, BUSY)
    sky.let_pass(61)
    sky.poll()
    assert sky.state(message) == "failed"
    detail = Incident.objects.get(partner=sky.partner).detail
    assert detail.endswith("no Acknowledgement after 1 attempt, the last: Internal Server Error")


@pytest.mark.requirement("EB-056", "EB-057", "EB-058")
def test_every_error_of_a_list_is_noted_and_the_first_explains_the_failure(sky: Sky) -> None:
    message, job = sky.start()
    sky.end(job)
    first = ErrorReport(ErrorCode.UNKNOWN, Severity.HARD_ERROR, "/x", "no such action", None, "302")
    first = replace(first, code_context="urn:example:errors")
    second = ErrorReport(ErrorCode.INCONSISTENT, Severity.HARD_ERROR, "/y", "no such role", None)
    third = replace(second, location="/z", description="no such service")
    sky.answer(message, first, second, third, acknowledged=False)

    rows = History.objects.filter(message_id=message.message_id, event="ErrorReceived")
    noted = " | ".join(rows.values_list("detail", flat=True))
    for said in (
        "302: no such action (at /x, code of urn:example:errors)",
        "Inconsistent: no such role (at /y)",
        "Inconsistent: no such service (at /z)",
    ):
        assert said in noted
    explained = explanation_of(message.pk)
    assert "302: no such action (at /x, code of urn:example:errors). Last answer:" in explained
    assert len([kind for kind, _ in sky.events(message) if kind == "failed"]) == 1


@pytest.mark.requirement("EB-069")
@pytest.mark.parametrize("kind", ["", "application/soap+xml; charset=utf-8", "text/plain"])
def test_an_acknowledgment_of_unclear_type_is_read(sky: Sky, kind: str) -> None:
    message, job = sky.start()
    signal = sky.from_partner(acknowledgment(message.message_id))
    sky.end(job, replace(TRANSMITTED, answer=(kind, signal.body)))
    assert sky.state(message) == "acknowledged"


@pytest.mark.requirement("EB-071")
@pytest.mark.parametrize("body", [b"<html>welcome</html>", b"ok", b"<S:Envelope/>", b"\x00\xff"])
def test_an_answer_that_is_not_read_is_mentioned(sky: Sky, body: bytes) -> None:
    message, job = sky.start()
    sky.end(job, replace(TRANSMITTED, detail="200 OK", status=200, answer=("text/odd", body)))
    assert sky.state(message) == "waiting"
    said = f"200 OK, answer of {len(body)} bytes, text/odd: not read"
    assert Attempt.objects.get(message=message).detail == said


@pytest.mark.requirement("EB-067")
def test_a_fault_inside_a_package_is_read(sky: Sky) -> None:
    """JAX-WS wraps a Fault as it wraps anything else."""
    for code, state in ((FaultCode.SERVER, "waiting"), (FaultCode.CLIENT, "failed")):
        message, job = sky.start()
        _, fault = compose_fault(code, "who knows")
        head = b"--edge\r\nContent-Type: text/xml; charset=UTF-8\r\nContent-ID: <root>\r\n\r\n"
        package = head + fault + b"\r\n--edge--\r\n"
        kind = 'multipart/related; boundary="edge"; type="text/xml"; start="<root>"'
        sky.end(job, AttemptResult(outcome_of(500), status=500, answer=(kind, package)))
        assert sky.state(message) == state
        assert Attempt.objects.get(message=message).detail == f"SOAP Fault {code}: who knows"


@pytest.mark.requirement("EB-087")
@pytest.mark.parametrize("ends", ["500", "silence", "error"])
def test_an_acknowledgment_that_comes_before_the_answer_is_final(sky: Sky, ends: str) -> None:
    message, job = sky.start()
    assert sky.answer(message)
    if ends == "error":
        sky.end(job, replace(TRANSMITTED, answer=("text/xml", b"<S:Envelope/>")))
    else:
        sky.end(job, BUSY if ends == "500" else replace(SILENT, body_sent=True))
    sky.let_pass(3600)
    assert sky.poll() == []
    assert sky.state(message) == "acknowledged"
    assert not Incident.objects.filter(partner=sky.partner).exists()


@pytest.mark.requirement("EB-087")
@pytest.mark.parametrize("how", ["silence", "refusal", "error"])
def test_an_incident_of_several_is_resolved_when_none_of_them_is_failed_any_more(how: str) -> None:
    sky = make_sky(retries=0)
    messages = [sky.submit() for _ in range(3)]
    for job in sky.poll():
        sky.end(job, REFUSED if how == "refusal" else TRANSMITTED)
    error = ErrorReport(ErrorCode.INCONSISTENT, Severity.HARD_ERROR, "/x", "wrong", None)
    for message in messages if how == "error" else ():
        sky.answer(message, error, acknowledged=False)
    sky.let_pass(61)
    sky.poll()
    assert states(messages, sky) == {"failed": 3}
    (kind,) = sky.incidents()
    for message in messages:
        assert sky.incidents() == [kind]
        sky.answer(message)
    assert sky.incidents() == []
