"""Messages that fly: many at once, each with its retries, its end and its answer."""

from dataclasses import replace
from datetime import timedelta

import pytest
from django.utils import timezone

from msh.flows.operations import change_flight, change_link
from msh.flows.sending.answered import take_answer
from msh.models import Attempt, History, OutboundLink, OutboundMessage
from msh.protocol.attempt import AttemptResult, outcome_of
from msh.protocol.message import ErrorReport
from msh.protocol.vocabulary import ErrorCode, Severity
from msh.store.history import Actor
from msh.store.operations.clock_repair import make_far_work_due
from msh.wire.ebms2 import envelope
from partners.models import Agreement

from .byhand import Carrying
from .flying import BUSY, REFUSED, SILENT, Sky, make_sky

pytestmark = pytest.mark.django_db


@pytest.mark.requirement("EB-068")
@pytest.mark.parametrize(("mode", "there"), [("none", False), ("responseOnly", True)])
def test_sync_reply_is_written_if_agreed(mode: str, there: bool) -> None:
    sky = make_sky(sync_reply=mode)
    _, job = sky.start()
    assert envelope.parse(job.content_type, job.body).message.sync_reply is there


@pytest.mark.requirement("EB-078")
def test_a_message_is_stored_then_sent_then_acknowledged(sky: Sky) -> None:
    message = sky.submit(conversation_id="talk")
    assert sky.state(message) == "ready"

    (job,) = sky.poll()
    assert job.headers == (("SOAPAction", '"ebXML"'),)
    read = envelope.parse(job.content_type, job.body)
    header = read.message.header
    assert (header.message_id, header.cpa_id) == (message.message_id, sky.agreement.tpa_id)
    assert header.conversation_id == "talk"
    assert header.eliminates_duplicates
    assert len(read.message.ack_requested) == 1
    assert [payload.content for payload in read.payloads] == [b"<order/>"]
    assert read.defects == ()
    sky.end(job)
    assert sky.state(message) == "waiting"

    assert sky.answer(message)
    assert sky.state(message) == "acknowledged"
    assert [kind for kind, _ in sky.events(message)] == ["acknowledged"]
    assert sky.history(message) == [
        ("MessageSubmitted", "", "queued"),
        ("AttemptClaimed", "queued", "in_flight"),
        ("AckReceived", "in_flight", "acknowledged"),
    ]
    assert sky.incidents() == []


@pytest.mark.requirement("EB-151")
def test_soap_action_is_that_of_the_agreement() -> None:
    sky = make_sky(soap_action="urn:example/{service}/{action}")
    _, job = sky.start()
    assert job.headers == (("SOAPAction", '"urn:example/urn:orders/New"'),)


@pytest.mark.requirement("EB-151")
def test_message_whose_soap_action_no_header_can_be_has_failed() -> None:
    sky = make_sky(soap_action="{action}")
    bad, good = sky.submit(action="Bestätigung"), sky.submit()
    (job,) = sky.poll()
    assert sky.state(bad) == "failed"
    assert "SOAPAction" in last_detail(bad)
    assert job.key.message_id == good.message_id  # type: ignore[attr-defined]


@pytest.mark.requirement("EB-038")
@pytest.mark.parametrize("ref", ["", "quote-1@them.example"])
def test_ref_to_message_id_is_what_the_application_gives(sky: Sky, ref: str) -> None:
    _, job = sky.start(ref_to_message_id=ref)
    assert envelope.parse(job.content_type, job.body).message.header.ref_to_message_id == ref


@pytest.mark.requirement("EB-001")
def test_a_message_without_payload_is_one_entity(sky: Sky) -> None:
    _, job = sky.start("")
    assert job.content_type == 'text/xml; charset="UTF-8"'
    assert envelope.parse(job.content_type, job.body).defects == ()


@pytest.mark.requirement("EB-015", "EB-080", "EB-082")
def test_after_its_retries_a_message_has_failed_and_later_ones_go_on(sky: Sky) -> None:
    message = sky.submit()
    copies = []
    for _ in range(3):
        (job,) = sky.poll()
        copies.append(job.body)
        sky.end(job)
        assert sky.poll() == []  # not before RetryInterval is over
        sky.let_pass(61)
    later, job = sky.start()

    assert job.key.message_id == later.message_id  # type: ignore[attr-defined]
    assert len(set(copies)) == 1
    assert sky.state(message) == "failed"
    ((kind, detail),) = sky.events(message)
    assert (kind, detail) == (
        "failed",
        "DeliveryFailure: no Acknowledgement after 3 attempts",
    )
    assert sky.incidents() == ["retries_spent"]
    assert "Warning: DeliveryFailure" in last_detail(message)


def last_detail(message: OutboundMessage) -> str:
    rows = History.objects.filter(message_id=message.message_id).order_by("-pk")
    return rows.values_list("detail", flat=True)[0]


@pytest.mark.requirement("EB-087")
def test_an_acknowledgment_after_the_failure_counts(sky: Sky) -> None:
    message, job = sky.start()
    sky.end(job, REFUSED)
    assert sky.state(message) == "failed"
    assert sky.incidents() == ["refused_by_peer"]

    assert sky.answer(message)

    assert sky.state(message) == "acknowledged"
    assert sky.incidents() == []
    assert [kind for kind, _ in sky.events(message)] == ["failed", "acknowledged"]
    sky.answer(message)
    assert OutboundMessage.objects.get(pk=message.pk).duplicate_acks == 1


@pytest.mark.requirement("EB-086", "EB-104")
def test_an_answer_of_others_counts_for_nothing(sky: Sky) -> None:
    message, other = sky.submit(), make_sky()
    sky.poll()
    assert not other.answer(message)
    assert not sky.answer(OutboundMessage(message_id="unknown"))
    another = Agreement.objects.get(pk=sky.agreement.pk)
    another.pk, another.tpa_id = None, "another"
    another.save()
    assert not take_answer(sky.partner.pk, another.pk, message.message_id, acknowledged=True)
    assert sky.state(message) == "waiting"


@pytest.mark.requirement("EB-058", "EB-059", "EB-060")
def test_an_error_fails_the_message_a_warning_does_not(sky: Sky) -> None:
    message = sky.submit()
    sky.poll()
    warning = ErrorReport(ErrorCode.OTHER_XML, Severity.WARNING, "", "odd", None)
    error = ErrorReport(ErrorCode.INCONSISTENT, Severity.HARD_ERROR, "/x", "wrong", None)

    sky.answer(message, warning, acknowledged=False)
    assert sky.state(message) == "waiting"
    sky.answer(message, error)

    assert sky.state(message) == "failed"
    kinds = [kind for kind, _ in sky.events(message)]
    assert kinds == ["warning", "failed"]
    assert sky.incidents() == ["error_received"]


@pytest.mark.requirement("EB-085")
def test_no_more_messages_are_under_way_than_the_window_allows() -> None:
    sky = make_sky(window=6)
    messages = [sky.submit() for _ in range(9)]
    jobs = sky.poll()
    assert len(jobs) == 4  # at once to one partner
    assert len(sky.poll()) == 2
    for job in jobs:
        sky.end(job)
    assert sky.poll() == []

    sky.answer(messages[0])
    (job,) = sky.poll()
    assert job.key.message_id == messages[6].message_id  # type: ignore[attr-defined]


@pytest.mark.requirement("EB-085")
def test_a_retry_needs_no_other_place_and_goes_first() -> None:
    sky = make_sky(window=2)
    older, sent = sky.submit(), sky.submit()
    change_flight.hold(older, Actor("ann", "not yet"))
    sky.post()
    change_flight.resume(older, Actor("ann", "now"))
    sky.let_pass(61)
    (again,) = sky.poll(Carrying(left=1))
    assert again.key.message_id == sent.message_id  # type: ignore[attr-defined]


@pytest.mark.requirement("EB-089", "EB-090")
def test_503_is_no_end_and_retry_after_is_waited_for(sky: Sky) -> None:
    message, job = sky.start()
    sky.end(job, replace(BUSY, status=503, retry_after=300.0))
    sky.let_pass(200)
    assert sky.poll() == []
    sky.let_pass(101)
    (job,) = sky.poll()
    assert sky.answer(message)


@pytest.mark.requirement("EB-089")
@pytest.mark.parametrize(
    ("statuses", "state", "early"),
    [
        ((408, 425, 429, 500, 503), "waiting", False),
        ((400, 413, 415, 422), "failed", False),
        ((301, 307, 401, 404), "waiting", True),
    ],
)
def test_what_a_status_means_for_a_message(
    statuses: tuple[int, ...], state: str, early: bool
) -> None:
    sky = make_sky(retries=1)
    for status in statuses:
        message, job = sky.start()
        sky.end(job, AttemptResult(outcome_of(status), status=status, detail=f"{status}"))
        assert sky.state(message) == state, status
        warned = History.objects.filter(message_id=message.message_id, code="early_warning")
        assert warned.exists() is early, status
        kinds = [kind for kind, _ in sky.events(message)]
        assert kinds == (["failed"] if state == "failed" else []), status


@pytest.mark.requirement("EB-083")
def test_past_its_time_to_live_a_message_has_failed() -> None:
    sky = make_sky(time_to_live=200, retries=2)
    message, job = sky.start()
    header = envelope.parse(job.content_type, job.body).message.header
    assert header.time_to_live is not None
    assert (header.time_to_live - header.timestamp).total_seconds() == 200
    sky.end(job)
    sky.let_pass(201)
    assert sky.poll() == []
    assert sky.state(message) == "failed"
    assert sky.events(message)[-1][1].startswith("TimeToLiveExpired: not acknowledged by")


@pytest.mark.requirement("EB-082")
def test_a_message_is_held_where_the_agreement_says_so() -> None:
    sky = make_sky(on_failure="hold", retries=0)
    message, job = sky.start()
    sky.end(job)
    sky.let_pass(61)
    assert sky.poll() == []
    assert sky.state(message) == "held"
    assert sky.events(message)[-1][0] == "suspended"
    assert sky.incidents() == ["retries_spent"]
    assert sky.answer(message)
    assert (sky.state(message), sky.incidents()) == ("acknowledged", [])


def fail_until_suspended(sky: Sky) -> None:
    """Eight attempts in a row, and the first is older than RetryInterval."""
    while sky.link.state != "suspended":
        jobs = sky.poll()
        for job in jobs:
            sky.end(job, SILENT)
        if not jobs:
            sky.let_pass(61)


@pytest.mark.requirement("EB-091")
def test_a_dead_partner_is_suspended_probed_and_released() -> None:
    sky = make_sky(probe_interval=30, retries=5)
    messages = [sky.submit() for _ in range(10)]
    fail_until_suspended(sky)
    assert sky.link.state == "suspended"
    assert sky.incidents() == ["partner_unreachable"]
    sky.let_pass(20)
    assert sky.poll() == []

    sky.let_pass(11)
    (probe,) = sky.poll()
    assert sky.poll() == []
    sky.end(probe)

    assert sky.link.state == "idle"
    assert sky.link.failures == 0
    assert sky.incidents() == []
    assert sky.poll()
    assert all(sky.state(message) in ("ready", "waiting") for message in messages)


def test_an_operator_who_resumes_the_link_begins_to_count_anew(sky: Sky) -> None:
    for _ in range(9):
        sky.submit()
    fail_until_suspended(sky)
    change_link.resume(sky.partner, Actor("ann", "it is up again"))
    assert (sky.link.state, sky.link.failures) == ("idle", 0)
    assert sky.poll()


def test_nothing_is_claimed_for_which_there_is_no_place(sky: Sky) -> None:
    for _ in range(3):
        sky.submit()
    assert len(sky.poll(Carrying(left=1))) == 1
    assert sky.poll(Carrying(busy=frozenset({sky.partner.pk}))) == []


def test_what_cannot_be_composed_fails_alone(sky: Sky) -> None:
    bad, good = sky.submit(), sky.submit()
    OutboundMessage.objects.filter(pk=bad.pk).update(action="x\x01")
    jobs = sky.poll()
    assert [job.key.message_id for job in jobs] == [good.message_id]  # type: ignore[attr-defined]
    assert sky.state(bad) == "failed"
    assert Attempt.objects.get(message=bad).outcome == "refused"


def test_a_clock_that_was_set_back_keeps_no_flight_and_no_probe_waiting() -> None:
    sky = make_sky(probe_interval=30)
    _, job = sky.start()
    sky.end(job)
    sky.let_pass(-86_400)
    OutboundLink.objects.update(probe_due=timezone.now() + timedelta(days=1))
    make_far_work_due()
    assert len(sky.poll()) == 1
    assert sky.link.probe_due is not None
    assert sky.link.probe_due <= timezone.now()


def test_a_long_wait_that_was_agreed_is_no_jump_of_the_clock() -> None:
    sky = make_sky(retry_interval=86_400)
    _, job = sky.start()
    sky.end(job)
    make_far_work_due()
    assert sky.poll() == []


def test_stored_bytes_that_have_changed_are_not_sent(sky: Sky) -> None:
    message, job = sky.start()
    sky.end(job)
    OutboundMessage.objects.filter(pk=message.pk).update(head=b"something else")
    sky.let_pass(61)
    assert sky.poll() == []
    assert sky.state(message) == "failed"
    assert "have changed" in sky.events(message)[-1][1]
