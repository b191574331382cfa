"""One MSH for the folder, whose servers are on hosts of their own."""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
from pytest_django import DjangoDbBlocker

from tests.exchange.pair import PairFactory
from tests.exchange.running import making_pairs, running
from tests.hosts.machine import Hosts
from tests.hosts.network import Host, HostsMissing
from tests.hosts.server_clock import ServerClock, clock_folder
from tests.hosts.servers import Cache, Primary, Standby
from tests.scheduling import network_interfaces

DATABASE = "hosts"


@dataclass
class Servers:
    """Each on a host of its own."""

    primary: Primary
    standby: Standby
    cache: Cache
    promoted: bool = False

    @property
    def database(self) -> Primary:
        """The one that can be written to."""
        return self.standby if self.promoted else self.primary

    def promote_standby(self) -> None:
        """In place of the primary, which must be cut off already. There is no way back."""
        self.standby.promote()
        self.promoted = True


@pytest.fixture(scope="package", autouse=True)
def network() -> Iterator[None]:
    with network_interfaces(change=True):
        yield


@pytest.fixture(scope="package")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    folder = tmp_path_factory.mktemp("servers")
    try:
        with ExitStack() as stack:
            yield _start(folder, stack)
    except HostsMissing as missing:
        pytest.fail(str(missing), pytrace=False)


def _start(folder: Path, stack: ExitStack) -> Servers:
    names = ("postgresql", "standby", "redis")
    hosts = [stack.enter_context(Host()) for _ in names]
    library = stack.enter_context(clock_folder())
    clocks = [ServerClock(library, name) for name in names]
    primary = Primary(folder / "primary", hosts[0], clocks[0])
    standby = Standby(folder / "standby", hosts[1], clocks[1], primary)
    cache = Cache(folder / "cache", hosts[2], clocks[2])
    for server in (primary, standby, cache):
        stack.callback(server.stop)
        server.start()
    standby.wait_until_it_follows()
    return Servers(primary, standby, cache)


@pytest.fixture(scope="package")
def running_msh(
    servers: Servers, tmp_path_factory: pytest.TempPathFactory, django_db_blocker: DjangoDbBlocker
) -> Iterator[Hosts]:
    url = servers.primary.url(DATABASE)
    both = f"{servers.primary.address},{servers.standby.address}"
    machine = Hosts(
        tmp_path_factory.mktemp("msh"),
        url.replace(servers.primary.address, both),
        servers.cache.url(),
    )
    with running(machine, django_db_blocker):
        yield machine


@pytest.fixture
def msh(running_msh: Hosts, django_db_blocker: DjangoDbBlocker) -> Iterator[Hosts]:
    """The MSH; this process looks into its database directly, without any transaction."""
    running_msh.restore()
    with django_db_blocker.unblock(), running_msh.database():
        yield running_msh


@pytest.fixture
def pair(msh: Hosts) -> Iterator[PairFactory]:
    """Make pairs: `pair(timeout=1, retries=2, retry_interval=1, acknowledges=False, ...)`."""
    with making_pairs(msh) as make:
        yield make
