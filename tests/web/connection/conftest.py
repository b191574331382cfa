"""A world for each test, in which one partner is known."""

from collections.abc import Callable, Iterator

import pytest

from msh.web import senders
from msh.web.limits import Limits
from msh.web.senders import Sender
from tests.web.connection.world import PARTNER, World


@pytest.fixture
def make_world() -> Iterator[Callable[[Limits], World]]:
    worlds = []

    def make(limits: Limits) -> World:
        worlds.append(World(limits))
        return worlds[-1]

    yield make
    for world in worlds:
        world.close()


@pytest.fixture
def world() -> Iterator[World]:
    world = World()
    yield world
    world.close()


@pytest.fixture(autouse=True)
def known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who shows "Bearer token" is a partner that this process knows; the database knows nobody."""

    def remembered(environ: senders.Environ) -> Sender | None:
        return PARTNER if environ.get("HTTP_AUTHORIZATION") == "Bearer token" else None

    monkeypatch.setattr(senders, "cached", remembered)
    monkeypatch.setattr(senders, "find", lambda _: None)
