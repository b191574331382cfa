"""One MSH for the folder, whose servers are on hosts of their own."""

import os
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from urllib.parse import urlsplit

import pytest
from django.conf import settings
from pytest_django import DjangoDbBlocker

from tests.exchange.pair import PairFactory
from tests.exchange.running import making_pairs, running
from tests.hosts.machine import Hosts
from tests.hosts.network import Host, NamespacesMissing

POSTGRESQL, REDIS = 5432, 6379


@dataclass
class Network:
    """Where the servers are: PostgreSQL at two addresses at once, so that one may vanish."""

    first: Host
    second: Host
    redis: Host


@pytest.fixture(scope="package")
def network() -> Iterator[Network]:
    here = settings.DATABASES["default"]
    redis = urlsplit(os.environ["REDIS_URL"])
    try:
        with ExitStack() as stack:
            first, second, cache = (stack.enter_context(Host()) for _ in range(3))
            for host in (first, second):
                host.listen(POSTGRESQL, int(here["PORT"]))
            cache.listen(REDIS, redis.port or REDIS)
            yield Network(first, second, cache)
    except NamespacesMissing as missing:
        pytest.fail(str(missing), pytrace=False)


@pytest.fixture(scope="package")
def running_msh(
    network: Network,
    tmp_path_factory: pytest.TempPathFactory,
    django_db_blocker: DjangoDbBlocker,
) -> Iterator[Hosts]:
    here = settings.DATABASES["default"]
    redis = urlsplit(os.environ["REDIS_URL"])
    name = f"{here['NAME']}_hosts"
    both = f"{network.first.address}:{POSTGRESQL},{network.second.address}:{POSTGRESQL}"
    secret, _, _ = redis.netloc.rpartition("@")
    urls = {
        "DATABASE_URL": f"postgres://{here['USER']}:{here['PASSWORD']}@{both}/{name}",
        "REDIS_URL": f"redis://{secret}@{network.redis.address}:{REDIS}{redis.path}",
    }
    machine = Hosts(tmp_path_factory.mktemp("msh"), name, settings=urls)
    with running(machine, django_db_blocker):
        yield machine


@pytest.fixture
def msh(running_msh: Hosts, django_db_blocker: DjangoDbBlocker) -> Iterator[Hosts]:
    """The MSH; this process looks into its database directly, without any transaction."""
    with django_db_blocker.unblock(), running_msh.database():
        yield running_msh


@pytest.fixture
def pair(msh: Hosts) -> Iterator[PairFactory]:
    """Make pairs: `pair(timeout=1, retries=2, retry_interval=1, acknowledges=False, ...)`."""
    with making_pairs(msh) as make:
        yield make
