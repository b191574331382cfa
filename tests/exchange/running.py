"""What fixtures of a running MSH share, whatever folder they are for."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pytest_django import DjangoDbBlocker

from tests.exchange.machine import Machine
from tests.exchange.pair import Pair, PairFactory, new_pair


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
