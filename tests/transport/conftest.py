"""Carrying to a scripted peer."""

import time
from collections.abc import Callable, Iterator
from queue import SimpleQueue
from typing import Any

import pytest

from msh.transport.carrier import Carrier, Finished
from msh.transport.job import Job
from tests.peer import Peer


@pytest.fixture
def peer() -> Iterator[Peer]:
    with Peer() as peer:
        yield peer


@pytest.fixture
def results() -> "SimpleQueue[Finished]":
    return SimpleQueue()


@pytest.fixture
def carrier(results: "SimpleQueue[Finished]") -> Iterator[Carrier]:
    carrier = Carrier(results)
    yield carrier
    carrier.close()


@pytest.fixture
def job(peer: Peer) -> Callable[..., Job]:
    """A job to the peer; keywords override."""

    def make(**fields: Any) -> Job:
        given: dict[str, Any] = {
            "key": "job",
            "partner_id": 1,
            "url": peer.address,
            "content_type": "multipart/related; boundary=b",
            "body": b"--b--",
            "authorization": "Bearer token",
            "deadline": 10.0,
            "not_after": time.monotonic() + 60,
        }
        return Job(**{**given, **fields})

    return make


@pytest.fixture
def transmit(
    carrier: Carrier, results: "SimpleQueue[Finished]", job: Callable[..., Job]
) -> Callable[..., Finished]:
    """Transmit one job and wait for its end."""

    def transmit(**fields: Any) -> Finished:
        carrier.submit([job(**fields)])
        return results.get(timeout=20)

    return transmit
