"""Two sessions work on the same rows: one claims them, the other skips them or waits."""

from collections.abc import Callable, Iterable
from contextlib import ExitStack
from queue import SimpleQueue
from typing import Any

import psycopg
import pytest
from django.db import connection, transaction
from django.utils import timezone
from psycopg.rows import class_row, tuple_row

from msh import wire
from msh.flows import worker_loop
from msh.flows.errors import NotPossible
from msh.flows.hints import Hints
from msh.flows.operations import cancel, change_link
from msh.flows.receiving import receive
from msh.flows.receiving.incoming import Incoming
from msh.flows.sending.sending_loop import SendingLoop
from msh.models import Attempt, InboundMessage, OutboundLink, OutboundMessage
from msh.protocol.effects import QueueError
from msh.protocol.message import Field
from msh.protocol.vocabulary import DeliverySemantics, ErrorCode
from msh.store.operations.operator_actions import open_links
from msh.store.receiving import messages
from msh.store.receiving.messages import queue_error
from msh.store.sending.links import OutboundLinks
from msh.transport.job import Job
from tests.sessions import beside, in_another_session, somebody_waits_for_us, waits_for_us
from tests.sql import Calls, Execute, wrap_execute
from tests.waiting import wait_until

from . import byhand
from .byhand import Carrying, end_lost_leases
from .recovering import ANN
from .test_isolation import Scripted
from .world import LOST, World, make_world

pytestmark = pytest.mark.django_db(transaction=True)

Prepare = Callable[[list[World]], object]
Act = Callable[[], object]
ONE_PLACE = Carrying(left=1)


def queue(worlds: list[World]) -> None:
    for world in worlds:
        world.submit()


def queue_best_effort(worlds: list[World]) -> None:
    for world in worlds:
        world.submit(semantics=DeliverySemantics.BEST_EFFORT)


def let_deadlines_pass(worlds: list[World]) -> None:
    queue(worlds)
    for job in byhand.poll():
        byhand.end(job)
    OutboundLink.objects.update(due=timezone.now())


def wait_for_a_place(worlds: list[World]) -> None:
    """Put in flight, but not sent for want of a place."""
    queue(worlds)
    busy = frozenset(world.there.pk for world in worlds)
    assert byhand.poll(Carrying(busy=busy)) == []


def queue_acks(worlds: list[World]) -> None:
    queue(worlds)
    for world, job in zip(worlds, byhand.poll(), strict=True):
        world.hand_over(job)
        world.end(job)


@pytest.mark.parametrize(
    "prepare", [queue, queue_best_effort, let_deadlines_pass, wait_for_a_place, queue_acks]
)
def test_claimed_work_is_skipped_by_another_worker(prepare: Prepare) -> None:
    """It claims the rest without waiting: a stuck worker stops nobody else."""
    prepare([make_world(), make_world()])

    with transaction.atomic():
        (first,) = byhand.poll(ONE_PLACE)
        (second,) = in_another_session(byhand.poll)

    assert first.partner_id != second.partner_id
    assert byhand.poll() == []


@pytest.mark.parametrize(
    "prepare", [queue, queue_best_effort, let_deadlines_pass, wait_for_a_place, queue_acks]
)
def test_work_claimed_during_the_poll_is_skipped(
    prepare: Prepare, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its statements still see the rows as they were before the other worker's commit."""
    prepare([make_world()])
    claimed: list[Job] = []

    def run_late(_: Execute, calls: Calls) -> Any:
        monkeypatch.undo()
        begin(calls)
        claimed.extend(in_another_session(byhand.poll))
        return end(calls)

    wrap_execute(monkeypatch, run_late)

    assert byhand.poll() == []
    assert len(claimed) == 1


def begin(calls: Calls) -> None:
    """Open a cursor for each: it reads what is committed now, and locks when it is read."""
    cursor = psycopg.ClientCursor(connection.connection)
    for number, call in enumerate(calls):
        cursor.execute(f"DECLARE late_{number} CURSOR FOR {call.statement.sql}", call.values)


def end(calls: Calls) -> list[list[Any]]:
    """The rows of all of them."""
    rows = []
    for number, call in enumerate(calls):
        make_rows = class_row(call.statement.row) if call.statement.row else tuple_row
        cursor: Any = psycopg.Cursor(connection.connection, row_factory=make_rows)
        rows.append(cursor.execute(f"FETCH ALL FROM late_{number}").fetchall())
    return rows


def test_a_lost_lease_is_ended_by_one_worker() -> None:
    world = make_world()
    message = world.submit(semantics=DeliverySemantics.BEST_EFFORT)
    world.poll()
    OutboundMessage.objects.update(due=message.submitted_at)

    with transaction.atomic():
        end_lost_leases()
        in_another_session(end_lost_leases)

    message.refresh_from_db()
    assert message.state == "failed"


def put_in_flight(world: World) -> Job:
    world.submit()
    (job,) = world.poll()
    return job


def suspend(world: World, job: Job) -> Act:
    return lambda: change_link.suspend(world.there, ANN)


def end_attempt(world: World, job: Job) -> Act:
    return lambda: world.end(job, LOST)


def take_ack(world: World, job: Job) -> Act:
    world.hand_over(job)
    (ack,) = world.poll()
    return lambda: world.hand_over(ack)


def take_error(world: World, job: Job) -> Act:
    message = wire.parse(job.content_type, job.body)
    why = QueueError(ErrorCode.OTHER_XML, Field.MESSAGE, "cannot be read")
    queue_error(world.here.pk, why, message.header, 1)
    (error,) = world.poll()
    return lambda: world.hand_over(error)


@pytest.mark.parametrize("prepare", [suspend, end_attempt, take_ack, take_error])
def test_changing_a_lane_waits_for_its_lock(prepare: Callable[[World, Job], Act]) -> None:
    """Otherwise the later write would undo the earlier one."""
    world = make_world()
    act = prepare(world, put_in_flight(world))
    before = world.link

    with transaction.atomic():
        assert world.there.pk in OutboundLinks.lock([world.there.pk])
        assert waits_for_us(act)

    assert (world.link.state, world.link.due) == (before.state, before.due)
    act()
    assert (world.link.state, world.link.due) != (before.state, before.due)


def test_lanes_are_locked_in_the_order_of_their_links() -> None:
    """Otherwise two workers that lock the same lanes could wait for each other."""
    second, first = make_world(), make_world()
    for key, world in ((2, second), (1, first)):  # stored, and indexed, in the other order
        OutboundLink.objects.create(pk=key, partner=world.there)
    both = [second.there.pk, first.there.pk]

    with ExitStack() as stack, transaction.atomic():
        OutboundLinks.lock([first.there.pk])
        locking = stack.enter_context(beside(lambda: OutboundLinks.lock(both)))
        wait_until(lambda: somebody_waits_for_us() or locking.done())
        in_another_session(lambda: OutboundLinks.lock([second.there.pk]))


def test_cancelling_waits_for_the_claim_of_the_message() -> None:
    world = make_world()
    message = world.submit()

    with transaction.atomic():
        world.poll()
        assert waits_for_us(lambda: cancel.cancel(message, None, ANN))

    with pytest.raises(NotPossible, match="did the partner receive it"):
        cancel.cancel(message, None, ANN)


def test_submit_waits_for_no_worker() -> None:
    world = make_world()
    put_in_flight(world)
    best_effort = DeliverySemantics.BEST_EFFORT

    with transaction.atomic():
        assert world.there.pk in OutboundLinks.lock([world.there.pk])
        in_another_session(world.submit)
        in_another_session(lambda: world.submit(semantics=best_effort))

    assert OutboundMessage.objects.filter(state="queued").count() == 2


def test_an_attempt_is_claimed_once() -> None:
    world = make_world()
    let_deadlines_pass([world])

    with transaction.atomic():
        world.poll()
        assert in_another_session(byhand.poll) == []

    assert list(Attempt.objects.order_by("pk").values_list("number", flat=True)) == [1, 2]


class Watching(Scripted):
    """A carrier that looks, from a session of its own, which attempts are claimed."""

    def __init__(self, events: "SimpleQueue[Any]", **limits: int) -> None:
        super().__init__(events, **limits)
        self.claimed: list[int] = []

    def submit(self, jobs: Iterable[Job]) -> None:
        self.claimed.append(in_another_session(Attempt.objects.count))
        super().submit(jobs)


@pytest.mark.parametrize("semantics", DeliverySemantics)
def test_the_carrier_is_given_only_what_is_claimed_and_committed(
    monkeypatch: pytest.MonkeyPatch, semantics: DeliverySemantics
) -> None:
    """Otherwise a commit that fails would leave a copy on its way that nobody knows of."""
    monkeypatch.setattr(worker_loop, "Carrier", Watching)
    make_world().submit(semantics=semantics)
    driven = SendingLoop()

    byhand.run_until_quiet(driven)

    carrier: Any = driven.carrier
    assert carrier.claimed == [1]


def test_the_carrier_is_given_nothing_for_a_named_signal_that_is_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As when another worker has sent it. A wake-up may name anything: the rows decide."""
    monkeypatch.setattr(worker_loop, "Carrier", Watching)
    make_world()
    driven = SendingLoop()
    driven._hints = Hints(signals=frozenset([10**9]))

    byhand.run_until_quiet(driven)

    carrier: Any = driven.carrier
    assert carrier.claimed == []


def test_a_copy_waits_until_the_message_before_it_is_stored(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The copy is then decided with what the first has committed."""
    world = make_world()
    job = put_in_flight(world)
    decide = messages._decide
    waited = []

    def take() -> receive.Answer:
        return receive.receive(world.here, Incoming(job.content_type, job.body))

    def decide_while_a_copy_arrives(*given: Any) -> Any:
        monkeypatch.undo()
        waited.append(waits_for_us(take))
        return decide(*given)

    open_links(world.here)
    monkeypatch.setattr(messages, "_decide", decide_while_a_copy_arrives)
    take()
    take()

    assert waited == [True]
    message = InboundMessage.objects.get()
    assert message.duplicates == 1
