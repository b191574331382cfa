"""What one message and one bulk row may cost: a round trip or a row more is seen here, on any
machine. `make bench-work` counts the same between two running MSHs, with what the clock cannot
hide: commits in the write-ahead log, index entries, wake-ups.

When something was made cheaper, lower its bounds.
"""

import math

import pytest

from msh.flows.sending.sending_loop import SendingLoop
from msh.flows.sending.submit import prepare
from msh.flows.sending.submit_many import Result, submit_all
from msh.protocol.message import Payload
from msh.transport.carrier import Finished
from msh.transport.job import Job

from .byhand import PLENTY, TRANSMITTED
from .work import Work
from .world import World, make_world

pytestmark = pytest.mark.django_db(transaction=True)

MESSAGES = 10
ROWS = 1_000
BLOCK = 500
"""Lines of one block of the bulk endpoint."""

EXCHANGE = {"statements": 52, "round trips": 26, "transactions": 10, "rows": 22}
"""For one reliable message, from its submit to its Acknowledgement, on both sides. Each poll finds
one thing, as between two MSHs with one pair: nothing is shared with other messages."""
SUBMIT = {"statements": 1, "round trips": 1, "transactions": 1, "rows": 3}
BULK_ROW = {"statements": 0.011, "round trips": 0.011, "transactions": 0.001, "rows": 3}


class Carrier:
    """Has room, and keeps what it was given."""

    def __init__(self) -> None:
        self.taken: list[Job] = []
        self.free_in_all = PLENTY.free_in_all
        self.free = PLENTY.free
        self.bytes_under_way = PLENTY.bytes_under_way

    def busy(self) -> frozenset[int]:
        return PLENTY.busy

    def submit(self, jobs: list[Job]) -> None:
        self.taken.extend(jobs)


def exchange(world: World, messages: int) -> Work:
    """The loop of the worker polls after each POST and records each outcome by itself."""
    work, loop, carrier = Work(), SendingLoop(), Carrier()
    loop.carrier = carrier  # type: ignore[assignment]
    loop._leases_at = math.inf  # what it does once a second
    for _ in range(messages):
        with work.of("submit"):
            world.submit()
        with work.of("poll after the submit"):
            loop.round(polling=True)
        while carrier.taken:
            job = carrier.taken.pop(0)
            kind = type(job.key).__name__
            with work.of(f"receive {kind}"):
                assert world.hand_over(job).status == 204
            with work.of(f"poll after the {kind}"):
                loop.round(polling=True)
            loop.take(Finished(job, TRANSMITTED))
            with work.of(f"outcome of {kind}"):
                loop.round(polling=False)
    return work


def test_work_for_an_exchanged_message() -> None:
    world = make_world()
    exchange(world, MESSAGES)  # what is read once

    work = exchange(world, MESSAGES)

    assert len(world.received()) == 2 * MESSAGES
    assert world.link.state == "idle"
    work.require(MESSAGES, EXCHANGE)


def test_work_for_a_submit() -> None:
    world, work = make_world(), Work()
    for _ in range(MESSAGES):
        world.submit()

    for _ in range(MESSAGES):
        with work.of("submit"):
            world.submit()

    work.require(MESSAGES, SUBMIT)


def test_work_for_a_bulk_row() -> None:
    world, work = make_world(), Work()
    world.submit()
    payload = Payload(b"<order/>", label="order.xml")
    new = [prepare(world.agreement, "Orders", "New", [payload]) for _ in range(ROWS)]

    with work.of("bulk"):
        answers = submit_all([new[at : at + BLOCK] for at in range(0, ROWS, BLOCK)])

    assert {answer.result for answer in answers} == {Result.ACCEPTED}
    work.require(ROWS, BULK_ROW)
