"""What fixtures of a running MSH share, whatever folder they are for."""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest
from django.conf import settings
from pytest_django import DjangoDbBlocker

from tests.exchange.machine import Machine
from tests.exchange.pair import Pair, PairFactory, new_pair
from tests.services import spare_redis


@contextmanager
def running(machine: Machine, blocker: DjangoDbBlocker) -> Iterator[Machine]:
    """Started on an empty database, which is gone with it."""
    with blocker.unblock():
        machine.create()
    try:
        machine.start()
        yield machine
    finally:
        with blocker.unblock():
            machine.destroy()


@contextmanager
def two_machines(
    name: str,
    tmp_path_factory: pytest.TempPathFactory,
    settings_of: Callable[[str], Mapping[str, str]] = lambda letter: {},
) -> Iterator[tuple[Machine, Machine]]:
    """A and B, each with a database and a Redis of its own, and settings by its letter."""
    worker = os.environ.get("PYTEST_XDIST_WORKER", "alone")
    database = f"{settings.DATABASES['default']['NAME']}_{name}_{worker}"
    a, b = (
        Machine(
            tmp_path_factory.mktemp(letter),
            f"{database}_{letter}",
            f"http://{letter}.example/ebxml/",
            spare_redis(os.environ["REDIS_URL"], number),
            settings_of(letter),
        )
        for number, letter in enumerate("ab", 1)
    )
    try:
        for machine in (a, b):
            machine.create()
            machine.start()
        yield a, b
    finally:
        for machine in (a, b):
            machine.destroy()


@contextmanager
def making_pairs(msh: Machine) -> Iterator[PairFactory]:
    """Make pairs with the options of `new_pair`; they are closed in the end."""
    pairs: list[Pair] = []

    def make(**options: Any) -> Pair:
        made = new_pair(msh, **options)
        pairs.append(made)
        return made

    yield make
    for made in pairs:
        made.close()
