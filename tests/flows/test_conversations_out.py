"""Messages that fly in the order of their conversation: numbers, who may start, what stops it."""

from collections.abc import Iterator

import pytest
from django.db import connection

from msh.flows.operations import change_flight
from msh.models import Flight, Incident, OutboundConversation, OutboundMessage
from msh.protocol.ebms.message import MessageOrder
from msh.protocol.ebms.vocabulary import OrderStatus
from msh.protocol.message import ErrorReport
from msh.protocol.vocabulary import ErrorCode, Severity
from msh.store.history import Actor
from msh.transport.job import Job
from msh.wire.ebms2 import envelope

from .flying import Sky, make_sky

pytestmark = pytest.mark.django_db

ANN = Actor("ann", "she says so")
WRONG = ErrorReport(ErrorCode.INCONSISTENT, Severity.HARD_ERROR, "/x", "wrong", None)
RESET, CONTINUE = OrderStatus.RESET, OrderStatus.CONTINUE


@pytest.fixture
def sky() -> Sky:
    return make_sky(ordered=True)


def submit(sky: Sky, conversation: str, count: int = 1) -> list[OutboundMessage]:
    return [sky.submit(conversation_id=conversation) for _ in range(count)]


def started(sky: Sky, conversation: str) -> OutboundMessage:
    """A conversation whose first message is acknowledged."""
    (first,) = submit(sky, conversation)
    sky.poll()
    sky.answer(first)
    return first


def order_of(job: Job) -> MessageOrder | None:
    return envelope.parse(job.content_type, job.body).message.order


def ids(jobs: list[Job]) -> list[str]:
    return [job.key.message_id for job in jobs]  # type: ignore[attr-defined]


def conversation_of(message: OutboundMessage) -> OutboundConversation:
    return OutboundConversation.objects.get(conversation_id=message.conversation_id)


@pytest.mark.requirement("EB-120", "EB-121", "EB-123")
def test_the_first_is_reset_and_acknowledged_before_others_leave(sky: Sky) -> None:
    first, *others = submit(sky, "talk", 3)
    (job,) = sky.poll()
    assert (ids([job]), order_of(job)) == ([first.message_id], MessageOrder(0, RESET))
    sky.end(job)
    assert sky.poll() == []

    sky.answer(first)

    jobs = sky.poll()
    assert ids(jobs) == [one.message_id for one in others]
    assert [order_of(job) for job in jobs] == [MessageOrder(1, CONTINUE), MessageOrder(2, CONTINUE)]
    numbers = OutboundMessage.objects.order_by("pk").values_list("order_number", flat=True)
    assert list(numbers) == [0, 1, 2]
