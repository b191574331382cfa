"""Partners, a sending loop whose POSTs are kept, and the wake-ups that flows ask for."""

import pytest

from msh.flows import wake_up as wake_ups
from msh.flows.hints import Hints
from msh.flows.sending.sending_loop import SendingLoop
from msh.flows.wake_up import WakeUp
from tests.flows.byhand import KeepingCarrier
from tests.flows.flying import Sky, make_sky
from tests.flows.world import World, make_world


@pytest.fixture
def world() -> World:
    """A pair of partners, of whom nothing was sent yet."""
    return make_world()


@pytest.fixture
def sky() -> Sky:
    """A partner to whom messages fly, of whom nothing was sent yet."""
    return make_sky()


@pytest.fixture
def named(monkeypatch: pytest.MonkeyPatch) -> list[dict[WakeUp, Hints]]:
    """What was asked for, instead of being sent."""
    asked: list[dict[WakeUp, Hints]] = []

    class Messenger:
        send = asked.append

    monkeypatch.setattr(wake_ups, "_messenger", Messenger)
    return asked


@pytest.fixture
def loop() -> SendingLoop:
    loop = SendingLoop()
    loop.carrier = KeepingCarrier()  # type: ignore[assignment]
    return loop
