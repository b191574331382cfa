"""A worker that is told by name what to send."""

from msh.flows.names import NOTHING, Names
from msh.flows.sending.sending_loop import SendingLoop
from msh.flows.wake_up import WakeUp
from msh.transport.job import Job
from tests.flows.world import World, make_world


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


def names_of(asked: list[dict[WakeUp, Names]]) -> Names:
    names = NOTHING
    for one in asked:
        names |= one.get(WakeUp.TRANSMIT, NOTHING)
    asked.clear()
    return names
