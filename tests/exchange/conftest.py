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
