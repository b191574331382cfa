"""The delivering loop by hand, in the test's own thread and transaction; POSTs are answered by the
test. And the consumers of an application that do as the test says."""

from collections.abc import Callable, Iterable
from typing import Any

from msh.flows.delivery.delivery_loop import DeliveryLoop
from msh.models import Consumer, ConsumerKind, Delivery, InboundMessage
from msh.protocol.attempt import AttemptResult, outcome_of
from msh.transport.job import Job
from tests.flows.world import World

Function = Callable[..., Any]
MOST_LOOKS = 1000


class Transmitted:
    """Takes the jobs of the loop; the test says how each ends."""

    def __init__(self) -> None:
        self.jobs: list[Job] = []
        self.slots = 8
        self.held = 0  # bytes of jobs that the test has not

    def submit(self, jobs: Iterable[Job]) -> None:
        self.jobs += jobs

    def full(self) -> set[int]:
        return {job.partner_id for job in self.jobs if not self.free(job.partner_id)}

    def free(self, key: int) -> int:
        return self.slots - sum(job.partner_id == key for job in self.jobs)

    def free_in_all(self) -> int:
        return 256 - len(self.jobs)

    def bytes_under_way(self) -> int:
        return self.held + sum(len(job.body) for job in self.jobs)

    def under_way(self) -> int:
        return len(self.jobs)


class Desk(DeliveryLoop):
    """One poll at a time; calls run at once."""

    def __init__(self) -> None:
        super().__init__()
        self.transmitted = Transmitted()
        self.carrier = self.transmitted  # type: ignore[assignment]

    def call(self, key: Any, function: Function, *arguments: Any) -> None:
        function(*arguments)

    def settle(self) -> None:
        """Poll until there is nothing to do but wait."""
        assert any(not self.poll() for _ in range(MOST_LOOKS)), "there is always something to do"

    def take_job(self) -> Job:
        """The one POST that is under way."""
        (job,) = self.transmitted.jobs
        self.transmitted.jobs.clear()
        return job

    def answer(self, status: int | None, detail: str = "", external_id: str = "") -> Job:
        """The one POST under way ends like this; None: no answer."""
        job = self.take_job()
        outcome = outcome_of(status or 500)
        result = AttemptResult(outcome, status, detail or str(status), external_id=external_id)
        self.finish(job.key, result)
        self.record_ended()
        return job


def consumer(kind: ConsumerKind, **values: Any) -> Consumer:
    """A consumer that takes everything."""
    places = {
        ConsumerKind.IN_PROCESS: {"path": "tests.delivery.application.consume"},
        ConsumerKind.HTTP: {"url": "http://127.0.0.1:9/orders"},
        ConsumerKind.PULL: {},
    }
    made = Consumer(**{"name": "orders", "kind": kind, **places[kind], **values})
    made.full_clean()
    made.save()
    return made


def receive(world: World, count: int = 1) -> list[InboundMessage]:
    """That many messages arrive from the partner `here`, in order."""
    before = InboundMessage.objects.count()
    for _ in range(count):
        world.submit()
    world.settle()
    return list(InboundMessage.objects.order_by("pk")[before:])


def delivery_of(message: InboundMessage) -> Delivery:
    return Delivery.objects.get(message=message)


def state_of(message: InboundMessage) -> tuple[str, str]:
    """Of the message, and of its delivery ("" without one)."""
    message.refresh_from_db()
    found = Delivery.objects.filter(message=message).first()
    return message.state, found.state if found else ""
