"""One real MSH for the folder, shared by its tests; partners of its own for each test."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.conf import settings
from pytest_django import DjangoDbBlocker

from tests.exchange.machine import Machine
from tests.exchange.pair import PairFactory
from tests.exchange.running import making_pairs, running
from tests.exchange.sides import Side
from tests.services import spare_redis


@pytest.fixture(scope="package")
def running_msh(
    tmp_path_factory: pytest.TempPathFactory, django_db_blocker: DjangoDbBlocker
) -> Iterator[Machine]:
    """It runs while tests of this folder do, one for each worker of pytest-xdist."""
    worker = os.environ.get("PYTEST_XDIST_WORKER", "alone")
    folder: Path = tmp_path_factory.mktemp("msh")
    machine = Machine(folder, f"{settings.DATABASES['default']['NAME']}_exchange_{worker}")
    with running(machine, django_db_blocker) as started:
        yield started


@pytest.fixture
def msh(running_msh: Machine, django_db_blocker: DjangoDbBlocker) -> Iterator[Machine]:
    """The MSH; this process looks into its database, without any transaction around the test."""
    with django_db_blocker.unblock(), running_msh.database():
        yield running_msh


@pytest.fixture
def pair(msh: Machine) -> Iterator[PairFactory]:
    """Make pairs: `pair(timeout=1, retries=2, retry_interval=1, acknowledges=False, ...)`."""
    with making_pairs(msh) as make:
        yield make


@pytest.fixture
def sides(tmp_path: Path, django_db_blocker: DjangoDbBlocker) -> Iterator[tuple[Side, Side]]:
    """A and B, which know each other."""
    worker = os.environ.get("PYTEST_XDIST_WORKER", "alone")
    database = f"{settings.DATABASES['default']['NAME']}_backups_{worker}"
    machines = []
    with django_db_blocker.unblock():
        for number, letter in enumerate("ab", 1):
            (tmp_path / letter).mkdir()
            redis_url = spare_redis(os.environ["REDIS_URL"], number)
            uri = f"http://{letter}.example/ebxml/"
            machines.append(Machine(tmp_path / letter, f"{database}_{letter}", uri, redis_url))
        try:
            for machine in machines:
                machine.create()
                machine.start()
            a, b = (Side(machine) for machine in machines)
            a.knows(b, "b")
            b.knows(a, "a")
            yield a, b
        finally:
            for machine in machines:
                machine.destroy()
