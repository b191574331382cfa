"""Messages that fly in the order of their conversation: numbers, who may start, what stops it."""

from collections.abc import Sequence
from datetime import timedelta

import pytest
from django.utils import timezone

from msh.flows.errors import NotPossible
from msh.flows.operations import (
    change_conversation,
    change_flight,
    change_incident,
    change_link,
)
from msh.flows.operations.cancel import cancel
from msh.flows.operations.inspection.flights import flight_of
from msh.flows.operations.inspection.why_not_sent import explanation_of
from msh.models import Flight, History, Incident, OutboundConversation, OutboundMessage
from msh.protocol.ebms.message import MessageOrder
from msh.protocol.ebms.vocabulary import OrderStatus
from msh.protocol.events import OperatorResumed
from msh.protocol.kinds import Verdict
from msh.protocol.message import ErrorReport
from msh.protocol.vocabulary import ErrorCode, Severity
from msh.store.history import Actor
from msh.transport.job import Job
from msh.wire.ebms2 import envelope

from .byhand import Carrying
from .flying import REFUSED, Sky, make_sky

pytestmark = pytest.mark.django_db

ANN = Actor("ann", "she says so")
WRONG = ErrorReport(ErrorCode.INCONSISTENT, Severity.HARD_ERROR, "/x", "wrong", None)
RESET, CONTINUE = OrderStatus.RESET, OrderStatus.CONTINUE


@pytest.fixture
def sky() -> Sky:
    return make_sky(ordered=True)


def submit(sky: Sky, conversation: str, count: int = 1) -> list[OutboundMessage]:
    return [sky.submit(conversation_id=conversation) for _ in range(count)]


def begun(sky: Sky, conversation: str) -> None:
    """Its first message is acknowledged."""
    (first,) = submit(sky, conversation)
    sky.poll()
    sky.answer(first)


def orders(jobs: Sequence[Job]) -> list[MessageOrder | None]:
    return [envelope.parse(job.content_type, job.body).message.order for job in jobs]


def ids(jobs: Sequence[Job]) -> list[str]:
    return [job.key.message_id for job in jobs]  # type: ignore[attr-defined]


def of(messages: Sequence[OutboundMessage]) -> list[str]:
    return [one.message_id for one in messages]


def state_of(conversation: str) -> str:
    return OutboundConversation.objects.get(conversation_id=conversation).state


@pytest.mark.requirement("EB-120", "EB-121", "EB-123")
def test_the_first_has_reset_and_is_acknowledged_before_others_leave(sky: Sky) -> None:
    first, *others = submit(sky, "talk", 3)
    (job,) = sky.poll()
    assert (ids([job]), orders([job])) == ([first.message_id], [MessageOrder(0, RESET)])
    assert "The first message of its conversation" in explanation_of(others[0].pk)
    sky.end(job)
    assert sky.poll() == []

    sky.answer(first)

    jobs = sky.poll()
    assert ids(jobs) == of(others)
    assert orders(jobs) == [MessageOrder(1, CONTINUE), MessageOrder(2, CONTINUE)]
    numbers = OutboundMessage.objects.order_by("pk").values_list("order_number", flat=True)
    assert list(numbers) == [0, 1, 2]


@pytest.mark.requirement("EB-121")
def test_after_the_last_number_comes_0_with_continue(sky: Sky) -> None:
    change_conversation.start_order_out(sky.agreement, "talk", 99_999_998, ANN)
    submit(sky, "talk", 2)
    assert orders(sky.poll()) == [MessageOrder(99_999_999, CONTINUE), MessageOrder(0, CONTINUE)]


@pytest.mark.requirement("EB-122")
def test_a_retry_keeps_its_number_and_one_that_was_never_sent_leaves_no_hole(sky: Sky) -> None:
    begun(sky, "talk")
    sent, never, last = submit(sky, "talk", 3)
    sky.poll(Carrying(left=0))
    change_flight.hold(never, ANN)
    (job,) = sky.poll()
    assert ids([job]) == [sent.message_id]  # the one that is held keeps back those behind it
    sky.end(job)
    assert OutboundConversation.objects.get().head is None  # a poll does not look for it
    assert "submitted before" in explanation_of(last.pk)
    cancel(never, None, ANN)
    sky.let_pass(61)
    again, next_one = sky.poll()
    assert again.body == job.body
    assert (ids([next_one]), orders([next_one])) == ([last.message_id], [MessageOrder(2, CONTINUE)])


@pytest.mark.requirement("EB-085", "EB-134")
def test_conversations_share_the_window_and_do_not_wait_for_each_other() -> None:
    sky = make_sky(ordered=True, window=3)
    begun(sky, "a")
    a, b = submit(sky, "a", 3), submit(sky, "b", 2)
    assert ids(sky.poll()) == of(a)
    assert sky.poll() == []
    heads = OutboundConversation.objects.order_by("pk").values_list("head", flat=True)
    assert list(heads) == [None, b[0].pk]
    sky.answer(a[1])
    (job,) = sky.poll()
    assert (ids([job]), orders([job])) == (of(b[:1]), [MessageOrder(0, RESET)])


@pytest.mark.requirement("EB-124", "EB-134")
def test_a_message_that_fails_stops_its_conversation_and_only_it(sky: Sky) -> None:
    begun(sky, "talk")
    bad, behind = submit(sky, "talk", 2)
    (job,) = sky.poll(Carrying(left=1))
    sky.end(job)
    sky.answer(bad, WRONG, acknowledged=False)
    assert (sky.state(bad), state_of("talk")) == ("failed", "stopped")
    (other,) = submit(sky, "other")
    assert ids(sky.poll()) == [other.message_id]
    incident = Incident.objects.get(kind="conversation_stopped")
    assert incident.detail.startswith(
        f"conversation talk of {sky.agreement}: message {bad.message_id}, number 1, is failed: "
    )
    assert explanation_of(behind.pk).startswith(
        f"Its conversation is stopped: message {bad.message_id}. See the page"
    )

    assert explanation_of(bad.pk).startswith("Failed at 20")
    assert "Resume the message. Or cancel the message with a verdict." in explanation_of(bad.pk)

    assert change_flight.resume(bad, ANN).state == "in_flight"

    again, next_one = sky.poll()
    assert (again.body, ids([next_one])) == (job.body, [behind.message_id])
    assert orders([next_one]) == [MessageOrder(2, CONTINUE)]
    assert sky.incidents() == []
    sky.end(again)
    sky.answer(bad)
    assert sky.state(bad) == "acknowledged"
    told = [kind for kind, _ in sky.events(bad)]
    assert told == ["failed", "acknowledged"]
    happened = History.objects.filter(subject="link", event__startswith="Message")
    assert list(happened.order_by("pk").values_list("event", "from_state", "to_state")) == [
        ("MessageStopped", "running", "stopped"),
        ("MessageResumed", "stopped", "running"),
    ]


@pytest.mark.requirement("EB-124")
def test_an_acknowledgment_after_the_failure_lets_it_go_on(sky: Sky) -> None:
    first, second = submit(sky, "talk", 2)
    sky.post(REFUSED)
    assert sky.poll() == []
    assert sky.incidents() == ["conversation_stopped", "refused_by_peer"]

    sky.answer(first)

    assert sky.incidents() == []
    assert ids(sky.poll()) == [second.message_id]


@pytest.mark.requirement("EB-124")
def test_a_number_that_is_given_up_needs_a_restart_when_all_is_accounted_for(sky: Sky) -> None:
    begun(sky, "talk")
    lost, under_way, waits = submit(sky, "talk", 3)
    jobs = sky.poll(Carrying(left=2))
    for job in jobs:
        sky.end(job)
    cancel(lost, Verdict.UNKNOWN, ANN)
    assert sky.incidents() == ["conversation_stopped"]
    assert sky.poll() == []
    change_link.suspend(sky.partner, ANN)
    change_link.resume(sky.partner, ANN)
    assert sky.incidents() == ["conversation_stopped"]
    with pytest.raises(
        NotPossible,
        match="talk: 1 message of the conversation is neither acknowledged nor cancelled",
    ):
        change_conversation.restart_conversation(sky.agreement, "talk", ANN)
    sky.answer(under_way)

    change_conversation.restart_conversation(sky.agreement, "talk", ANN)

    (job,) = sky.poll()
    assert (ids([job]), orders([job])) == ([waits.message_id], [MessageOrder(0, RESET)])
    assert sky.incidents() == []
    event = History.objects.get(event="ConversationRestarted")
    assert (event.actor, event.from_state, event.to_state) == ("ann", "stopped", "beginning")
    assert event.detail == (
        f"conversation talk of {sky.agreement}: the next number is 0; she says so"
    )


@pytest.mark.requirement("EB-124")
def test_a_failed_message_is_outstanding_until_it_is_cancelled(sky: Sky) -> None:
    first, second = submit(sky, "talk", 2)
    sky.post(REFUSED)
    with pytest.raises(NotPossible, match="1 message "):
        change_conversation.restart_conversation(sky.agreement, "talk", ANN)
    Incident.objects.update(resolved_at=timezone.now())
    shown = flight_of(OutboundMessage.objects.get(pk=first.pk))
    assert shown is not None
    assert change_flight.why_not(shown, OperatorResumed(), timezone.now()) == ""
    cancel(first, Verdict.UNKNOWN, ANN)
    assert (sky.state(first), sky.incidents()) == ("cancelled", ["conversation_stopped"])
    with pytest.raises(NotPossible, match="has already ended"):
        change_flight.resume(first, ANN)
    change_conversation.restart_conversation(sky.agreement, "talk", ANN)
    assert (sky.incidents(), ids(sky.poll())) == ([], [second.message_id])
    with pytest.raises(NotPossible, match="its message with Reset is not acknowledged yet"):
        change_conversation.restart_conversation(sky.agreement, "talk", ANN)


@pytest.mark.requirement("EB-124")
def test_received_after_all_leaves_no_hole(sky: Sky) -> None:
    first, second = submit(sky, "talk", 2)
    sky.poll()
    cancel(first, Verdict.RECEIVED, ANN)
    assert (ids(sky.poll()), sky.incidents()) == ([second.message_id], [])


def test_one_incident_stands_for_all_conversations_of_a_partner(sky: Sky) -> None:
    for name in ("a", "b"):
        submit(sky, name)
    for job in sky.poll():
        sky.end(job, REFUSED)
    first, second = OutboundMessage.objects.order_by("pk")
    incident = Incident.objects.get(kind="conversation_stopped")
    assert incident.count == 2
    sky.answer(first)
    assert "conversation_stopped" in sky.incidents()
    with pytest.raises(NotPossible, match=f"with {sky.partner.name} is stopped: b. Resume"):
        change_incident.resolve(incident, ANN)
    sky.answer(second)
    assert "conversation_stopped" not in sky.incidents()


def test_what_cannot_be_composed_keeps_its_number_and_reset(sky: Sky) -> None:
    (bad,) = submit(sky, "talk")
    OutboundMessage.objects.filter(pk=bad.pk).update(action="x\x01")
    assert sky.poll() == []
    assert (sky.state(bad), state_of("talk")) == ("failed", "stopped")
    OutboundMessage.objects.filter(pk=bad.pk).update(action="x")
    change_flight.resume(bad, ANN)
    assert orders(sky.poll()) == [MessageOrder(0, RESET)]


def test_an_agreement_without_order_gives_no_numbers() -> None:
    sky = make_sky()
    submit(sky, "talk", 2)
    assert orders(sky.poll()) == [None, None]
    assert not OutboundConversation.objects.exists()
    with pytest.raises(NotPossible, match="is not ordered"):
        change_conversation.start_order_out(sky.agreement, "talk", 5, ANN)
    with pytest.raises(NotPossible, match="No message of a conversation talk was sent in order"):
        change_conversation.restart_conversation(sky.agreement, "talk", ANN)


@pytest.mark.requirement("EB-084")
def test_past_its_persist_duration_a_failed_message_is_not_sent_again() -> None:
    sky = make_sky(ordered=True, persist_duration=200)
    (first,) = submit(sky, "talk")
    sky.post(REFUSED)
    long_ago = first.submitted_at - timedelta(seconds=201)
    OutboundMessage.objects.update(first_sent_at=long_ago)
    with pytest.raises(NotPossible, match="it is past its PersistDuration"):
        change_flight.resume(first, ANN)
    shown = flight_of(OutboundMessage.objects.get(pk=first.pk))
    assert shown is not None
    why = change_flight.why_not(shown, OperatorResumed(), timezone.now())
    assert (why, shown.attempt) == ("it is past its PersistDuration", 1), "as the console shows it"
    assert not Flight.objects.exists()
