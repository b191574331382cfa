"""What applications call: send in their own transaction, reply, and what they are told."""

import json
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import transaction
from pytest_django import DjangoCaptureOnCommitCallbacks, Settings

from msh import Payload, reply, send
from msh.flows.sending import notification_loop, webhooks
from msh.flows.sending.notification_loop import NotificationLoop
from msh.flows.sending.prepare import SubmitRefused
from msh.flows.sending.submit import MessageIdReused
from msh.models import ConsumerKind, InboundMessage, OutboundMessage, PartyEvent
from msh.protocol.attempt import AttemptResult, outcome_of
from tests.delivery import application
from tests.delivery.desk import Desk, Transmitted, consumer
from tests.flows.world import World, make_world

pytestmark = pytest.mark.django_db

ORDER = [Payload(b"<order/>")]


class _Changed(Exception):
    """The application changes its mind."""


@pytest.mark.requirement("003-01", "003-08", "001-14")
def test_send_rolls_back_with_the_application(
    world: World,
    django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks,
) -> None:
    with django_capture_on_commit_callbacks() as wake_ups:
        try:
            with transaction.atomic():
                User.objects.create(username="order 1")
                send(world.agreement, "Orders", "New", ORDER)
                raise _Changed
        except _Changed:
            pass
    assert wake_ups == []
    assert not User.objects.exists()
    assert not OutboundMessage.objects.exists()

    with django_capture_on_commit_callbacks() as wake_ups, transaction.atomic():
        User.objects.create(username="order 1")
        message_id = send(world.agreement, "Orders", "New", ORDER)
    assert len(wake_ups) == 1
    world.settle()
    assert world.received() == [message_id]
    assert OutboundMessage.objects.get().sequence_number == 1


@pytest.mark.requirement("001-05", "001-17", "001-18")
def test_the_same_id_is_the_same_message_or_refused(world: World) -> None:
    first = send(world.agreement, "Orders", "New", ORDER, message_id="order-1")
    assert send(world.agreement, "Orders", "New", ORDER, message_id="order-1") == first
    with pytest.raises(MessageIdReused, match="order-1"):
        send(world.agreement, "Orders", "New", [Payload(b"<other/>")], message_id="order-1")
    with pytest.raises(SubmitRefused, match="300 characters"):
        send(world.agreement, "Orders", "New", ORDER, message_id="x" * 300)
    with pytest.raises(SubmitRefused, match="message_id is empty"):
        send(world.agreement, "Orders", "New", ORDER, message_id="")
    raw: Any = b"<order/>"
    with pytest.raises(SubmitRefused, match=r"payloads\[2\]: must be a Payload.*, not bytes"):
        send(world.agreement, "Orders", "New", [*ORDER, raw])
    sometimes: Any = "Sometimes"
    with pytest.raises(SubmitRefused, match="semantics 'Sometimes': must be one of Once"):
        send(world.agreement, "Orders", "New", ORDER, semantics=sometimes)
    assert OutboundMessage.objects.count() == 1


def answered(world: World, action: str, document: bytes) -> OutboundMessage:
    """Our request is answered by the partner's application, and comes back to ours."""
    consumer(ConsumerKind.IN_PROCESS, name="theirs", partner=world.here)
    application.act = lambda message: reply(message, action, [Payload(document)])
    request = world.submit()
    world.settle()
    Desk().settle()
    world.settle()
    return request


@pytest.mark.requirement("003-06")
def test_one_way(world: World) -> None:
    consumer(ConsumerKind.IN_PROCESS, partner=world.here)
    message = world.submit()
    world.settle()
    Desk().settle()
    assert application.taken == [message.message_id]


@pytest.mark.requirement("003-06")
@pytest.mark.parametrize(
    ("action", "document"), [("Confirm", b"<confirmation/>"), ("Fault", b"<fault/>")]
)
def test_request_and_reply_or_fault(world: World, action: str, document: bytes) -> None:
    request = answered(world, action, document)

    came = InboundMessage.objects.get(link__partner=world.there)
    assert (came.ref_to_message_id, came.conversation_id) == (
        request.message_id,
        request.conversation_id,
    )
    assert (came.service_interface, came.action) == ("Orders", action)
    assert bytes(came.payloads.get().content) == document
    application.act = None
    consumer(ConsumerKind.IN_PROCESS, name="ours", partner=world.there, action=action)
    Desk().settle()
    assert application.taken == [request.message_id, came.message_id]


@pytest.mark.requirement("003-03", "003-08")
def test_a_reply_is_sent_only_if_its_consumer_goes_well(world: World) -> None:
    consumer(ConsumerKind.IN_PROCESS, partner=world.here, retry_interval=0)

    def reply_and_fail(message: InboundMessage) -> None:
        reply(message, "Confirm", ORDER)
        raise ConnectionError

    application.act = reply_and_fail
    world.submit()
    world.settle()
    desk = Desk()
    desk.poll()
    assert not OutboundMessage.objects.filter(action="Confirm").exists()
    application.act = lambda message: reply(message, "Confirm", ORDER)
    desk.settle()
    assert OutboundMessage.objects.filter(action="Confirm").count() == 1


heard: list[str] = []


def hear(event: PartyEvent) -> None:
    heard.append(event.kind)
    if len(heard) == 1:
        raise TimeoutError("busy")


class Office(NotificationLoop):
    """The loop that tells, one poll at a time."""

    def __init__(self) -> None:
        super().__init__()
        self.transmitted = Transmitted()
        self.carrier = self.transmitted  # type: ignore[assignment]

    def call(self, key: object, function: object, *arguments: object) -> None:
        function(*arguments)  # type: ignore[operator]

    def answer(self, status: int) -> dict[str, str]:
        (job,) = self.transmitted.jobs
        self.transmitted.jobs.clear()
        self.finish(job.key, AttemptResult(outcome_of(status), status, f"{status}"))
        self.record_ended()
        assert dict(job.headers)["Idempotency-Key"] == json.loads(job.body)["event_id"]
        return json.loads(job.body)  # type: ignore[no-any-return]


def told_twice(world: World) -> OutboundMessage:
    """A message about which two events wait."""
    message = world.submit()
    world.settle()
    acknowledged = PartyEvent.objects.get(message=message)
    PartyEvent.objects.filter(pk=acknowledged.pk).update(kind="suspended")
    PartyEvent.objects.create(
        message=message, kind="acknowledged", at=acknowledged.at, due=acknowledged.due
    )
    return message


@pytest.mark.requirement("000-004")
def test_handler_gets_events_in_order_and_again_after_a_failure(
    settings: Settings,
) -> None:
    settings.MSH_FROM_PARTY_HANDLER = "tests.delivery.test_application.hear"
    heard.clear()
    told_twice(make_world())
    office = Office()
    while office.poll():
        pass
    assert heard == ["suspended"], "the later one waits behind the failed one"
    PartyEvent.objects.filter(delivered_at=None).update(due="2026-01-01T00:00Z")
    while office.poll():
        pass
    assert heard == ["suspended", "suspended", "acknowledged"]


@pytest.mark.requirement("000-004")
def test_event_is_posted_to_an_address_at_least_once(settings: Settings) -> None:
    settings.MSH_FROM_PARTY_HANDLER = "http://127.0.0.1:9/events"
    message = told_twice(make_world())
    office = Office()
    office.poll()
    first = office.answer(302)
    assert not office.poll(), "it waits for its retry, and the later one behind it"
    PartyEvent.objects.filter(delivered_at=None).update(due="2026-01-01T00:00Z")
    office.poll()
    again = office.answer(204)
    assert again == first
    assert (again["kind"], again["message_id"]) == ("suspended", message.message_id)
    office.poll()
    assert office.answer(200)["kind"] == "acknowledged"
    assert not office.poll()


def test_no_more_events_are_claimed_than_can_be_posted_at_once(settings: Settings) -> None:
    settings.MSH_FROM_PARTY_HANDLER = "http://127.0.0.1:9/events"
    world = make_world()
    for _ in range(3):
        world.submit()
    world.settle()
    office = Office()
    office.transmitted.slots = 2
    assert office.poll()
    assert len(office.transmitted.jobs) == 2
    assert not office.poll()

    (slow, quick), office.transmitted.jobs = office.transmitted.jobs, []
    office.transmitted.submit([slow])
    office.finish(quick.key, AttemptResult(outcome_of(204), 204))
    office.record_ended()
    assert office.poll(), "a slow answer holds one slot only"
    assert len(office.transmitted.jobs) == 2
    assert PartyEvent.objects.filter(tries=0, delivered_at=None).count() == 2


def test_event_that_cannot_be_sent_does_not_block_others(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.MSH_FROM_PARTY_HANDLER = "http://127.0.0.1:9/events"
    world = make_world()
    broken, other = world.submit(), world.submit()
    world.settle()
    document_of = webhooks.document_of

    def raising(event: PartyEvent) -> dict[str, Any]:
        if event.message == broken:
            raise RuntimeError("what nobody has thought of")
        return document_of(event)

    monkeypatch.setattr(notification_loop, "document_of", raising)
    office = Office()
    assert office.poll()
    assert office.answer(204)["message_id"] == other.message_id
    assert not office.poll(), "it waits for its retry"
    assert PartyEvent.objects.get(message=broken).tries == 1


def test_event_claimed_by_a_dead_worker_is_sent_again(settings: Settings) -> None:
    settings.MSH_FROM_PARTY_HANDLER = "http://127.0.0.1:9/events"
    world = make_world()
    world.submit()
    world.settle()
    Office().poll()
    assert not Office().poll(), "somebody is telling it"
    PartyEvent.objects.update(due="2026-01-01T00:00Z")
    office = Office()
    assert office.poll()
    office.answer(200)


def test_events_without_a_handler_are_not_sent(world: World) -> None:
    world.submit()
    world.settle()
    assert not Office().poll()
    assert PartyEvent.objects.filter(delivered_at=None).count() == 1
