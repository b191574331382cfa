"""For every test: on a busy machine an example takes as long as it takes; the test database is a
copy of a migrated one, and is emptied quickly."""

import gc
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connection
from django.test import TransactionTestCase
from hypothesis import settings
from pytest_django import DjangoDbBlocker
from redis.connection import AbstractConnection

from tests import quick
from tests.flushing import Flushing
from tests.template import template

settings.register_profile("unhurried", deadline=None)
settings.load_profile("unhurried")


@pytest.hookimpl(tryfirst=True)
def pytest_collection() -> None:
    """What is loaded here stays: nothing of it is garbage."""
    gc.disable()


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop() -> None:
    """To look through what is loaded again and again takes a tenth of the time of the tests."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000)
    gc.enable()


@pytest.fixture(scope="session", autouse=True)
def quick_and_patient() -> Iterator[None]:
    with quick.passwords(), quick.static_files(), quick.patient_redis():
        yield


@pytest.fixture(scope="session", autouse=True)
def closed_connections_to_redis() -> Iterator[None]:
    """The test that leaves one open fails, or one soon after it. Otherwise one of a thousand runs
    would fail, anywhere: the one in which Python's collector comes to the socket first."""
    end: Any = AbstractConnection.__del__

    def end_closed(self: Any) -> None:
        if getattr(self, "_sock", None) is not None:
            warnings.warn(f"{self!r} was left open", ResourceWarning, stacklevel=1)
        end(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(AbstractConnection, "__del__", end_closed)
        yield


@pytest.fixture(scope="session")
def django_db_modify_db_settings(
    django_db_modify_db_settings: None,
    django_db_keepdb: bool,
    django_db_blocker: DjangoDbBlocker,
) -> None:
    # A test thinks inside its transaction; on a busy machine a page of 10,000 rows takes 10 s.
    options = connection.settings_dict["OPTIONS"]
    options["options"] += " -c idle_in_transaction_session_timeout=10min"
    if not django_db_keepdb:
        with django_db_blocker.unblock():
            connection.settings_dict["TEST"]["TEMPLATE"] = template()


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    with django_db_blocker.unblock():
        flushing = Flushing()

    def teardown(case: TransactionTestCase) -> None:
        flushing.flush(case)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TransactionTestCase, "_fixture_teardown", teardown)
        yield
