"""The clock of each process and server in turn is set a day ahead and back: nobody waits longer."""

import pytest

from msh.protocol.lane import LaneState
from tests.exchange.pair import PairFactory
from tests.hosts.conftest import Servers
from tests.hosts.machine import Hosts
from tests.hosts.traffic import Traffic
from tests.waiting import wait_until

WAITS = 60.0
"""Seconds that a test waits for what should come at once, on a busy machine."""


@pytest.mark.requirement("000-005", "000-043")
@pytest.mark.parametrize("process", ["web", "worker", "beat"])
def test_clock_of_a_process_is_set(msh: Hosts, pair: PairFactory, process: str) -> None:
    """Deadlines pass, a lane is suspended, a queue moves, what comes in is acknowledged."""
    talking = pair(timeout=60, acknowledges=True)
    for days in (1, -1, 0):
        silent = pair(timeout=2, retries=1, retry_interval=1)
        message = silent.submit()
        silent.wait_for_copies(message, 1)
        msh.clocks[process].set(days)
        silent.wait_for_copies(message, 2)
        silent.wait_for_link(LaneState.SUSPENDED)
        talking.wait_for_state(talking.submit())
        talking.receive()
        wait_until(msh.is_ready)


@pytest.mark.requirement("000-005", "000-043", "000-021")
def test_clocks_of_the_servers_are_set(msh: Hosts, pair: PairFactory, servers: Servers) -> None:
    """Those of PostgreSQL and Redis, in opposite directions. The same as above, and what was under
    way comes once: messages submitted and received before and after, acknowledged or not."""
    talking = pair(timeout=60, acknowledges=True)
    traffic = Traffic(msh, talking)
    for days in (1, -1, 0):
        silent = pair(timeout=2, retries=1, retry_interval=1)
        message = silent.submit()
        silent.wait_for_copies(message, 1)
        traffic.submit()
        traffic.receive()
        servers.database.clock.set(days)
        servers.cache.clock.set(-days)
        traffic.submit()
        traffic.receive()
        silent.wait_for_copies(message, 2)
        silent.wait_for_link(LaneState.SUSPENDED)
        traffic.wait_until_acknowledged(WAITS)
        wait_until(msh.is_ready)
    traffic.assert_once()


def test_beat_is_started_after_its_clock_was_set_back(msh: Hosts, pair: PairFactory) -> None:
    """What it has stored as its last runs is tomorrow."""
    msh.clocks["beat"].set(1)
    silent = pair(timeout=2, retries=1, retry_interval=1)
    message = silent.submit()
    silent.wait_for_copies(message, 1)
    msh.stop_process("beat")
    msh.clocks["beat"].set(0)
    msh.start_process("beat")
    silent.wait_for_link(LaneState.SUSPENDED)
