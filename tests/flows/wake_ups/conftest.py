"""A worker that is told by name what to send."""

import pytest

from msh.flows import wake_up as wake_ups
from msh.flows.names import NOTHING, Names
from msh.flows.sending.sending_loop import SendingLoop
from msh.flows.wake_up import WakeUp
from msh.transport.job import Job
from tests.flows.byhand import KeepingCarrier
from tests.flows.world import World, make_world


@pytest.fixture
def named(monkeypatch: pytest.MonkeyPatch) -> list[dict[WakeUp, Names]]:
    """What was asked for, instead of being sent."""
    asked: list[dict[WakeUp, Names]] = []

    class Messenger:
        send = asked.append

    monkeypatch.setattr(wake_ups, "_messenger", Messenger)
    return asked


@pytest.fixture
def loop() -> SendingLoop:
    loop = SendingLoop()
    loop.carrier = KeepingCarrier()  # type: ignore[assignment]
    return loop


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
