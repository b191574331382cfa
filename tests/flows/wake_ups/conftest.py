"""A worker that is told by name what to send."""

import time
from datetime import timedelta

import pytest

from msh.flows.hints import NOTHING, Hints
from msh.flows.sending.sending_loop import SendingLoop
from msh.flows.wake_up import WakeUp
from msh.models import Attempt, OutboundLink
from msh.store import clock
from msh.transport.job import Job
from tests.flows import byhand
from tests.flows.world import World, make_world

SECOND = timedelta(seconds=1)

# What `state_of` returns.
PROMISED = (True, True, 1, 0, [1])
SENT = (False, False, 1, 0, [1])
SENT_BY_ANOTHER = (False, False, 2, 0, [1, 2])


def in_use() -> World:
    """The first messages of a pair are received under a lock."""
    world = make_world()
    for _ in range(2):
        world.submit()
        world.settle()
    return world


def taken(loop: SendingLoop) -> list[Job]:
    jobs: list[Job] = loop.carrier.take()  # type: ignore[attr-defined]
    return jobs


def hints_of(asked: list[dict[WakeUp, Hints]]) -> Hints:
    hints = NOTHING
    for one in asked:
        hints |= one.get(WakeUp.TRANSMIT, NOTHING)
    asked.clear()
    return hints


@pytest.fixture
def promised(loop: SendingLoop, named: list[dict[WakeUp, Hints]]) -> tuple[World, Hints]:
    """A message that an Acknowledgement has put in flight, and what its wake-up names."""
    world = in_use()
    world.submit()
    world.submit("the next")
    hints_of(named)
    (first,) = byhand.poll()
    world.hand_over(first)
    byhand.end(first)
    (ack,) = byhand.poll()
    hints_of(named)
    world.hand_over(ack)
    hints = hints_of(named)
    assert (hints.links, hints.signals, hints.all) == (frozenset(), frozenset(), False)
    assert (world.link.unsent, world.link.promised) == (True, True)
    OutboundLink.objects.update(due=clock.read_clock() + 60 * SECOND)  # tests may be slow
    return world, hints


def time_is_over() -> None:
    """Of the promise."""
    OutboundLink.objects.update(due=clock.read_clock() - SECOND / 1000)


def state_of(world: World) -> tuple[object, ...]:
    """Unsent, promised, and the attempt; retries spent; numbers of the attempts in their rows."""
    link = world.link
    attempts = Attempt.objects.filter(message=link.in_flight).order_by("pk")
    numbers = list(attempts.values_list("number", flat=True))
    return link.unsent, link.promised, link.attempt, link.retries_spent, numbers


def seconds_until_due(world: World) -> float:
    assert world.link.due is not None
    return (world.link.due - clock.read_clock()).total_seconds()


def lapse(job: Job) -> None:
    """The second of its promise is over."""
    lapse_in(job, -0.001)


def lapse_in(job: Job, seconds: float) -> None:
    assert job.lapse is not None
    job.lapse.at = time.monotonic() + seconds
