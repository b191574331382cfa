"""A pair of partners, and an application that has seen nothing yet."""

from collections.abc import Iterator

import pytest

from tests.flows.world import World, make_world

from . import application


@pytest.fixture(autouse=True)
def _fresh_application() -> Iterator[None]:
    application.reset()
    yield
    application.reset()


@pytest.fixture
def world() -> World:
    return make_world()
