"""One MSH and one browser for the tests of this folder that run in one pytest worker."""

import os
from collections.abc import Iterator

import pytest
from django.conf import settings
from playwright.sync_api import Browser
from pytest_django import DjangoDbBlocker

from tests.browser.console import BrowserMissing, Console, running_browser
from tests.exchange.machine import Machine
from tests.exchange.pair import PairFactory
from tests.exchange.running import making_pairs, running
from tests.peer.mailbox import Mailbox
from tests.scheduling import network_interfaces


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """Playwright runs an event loop in this thread, in which Django would refuse its database."""
    before = os.environ.get("DJANGO_ALLOW_ASYNC_UNSAFE")
    os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "true"
    try:
        with network_interfaces(change=False), running_browser() as started:
            yield started
    except BrowserMissing as missing:
        pytest.fail(str(missing), pytrace=False)
    finally:
        if before is None:
            del os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"]


@pytest.fixture(scope="package")
def operators() -> Iterator[Mailbox]:
    """Where operators get their mail."""
    with Mailbox() as mailbox:
        yield mailbox


@pytest.fixture(scope="package")
def running_msh(
    browser: Browser,
    operators: Mailbox,
    tmp_path_factory: pytest.TempPathFactory,
    django_db_blocker: DjangoDbBlocker,
) -> Iterator[Machine]:
    mail = {
        "EMAIL_URL": f"smtp://127.0.0.1:{operators.port}",
        "MSH_OPERATORS_EMAIL": "operators@example.net",
        "MSH_SECOND_PERSON": "prune",
    }
    worker = os.environ.get("PYTEST_XDIST_WORKER", "")
    name = f"{settings.DATABASES['default']['NAME']}_browser{worker}"
    machine = Machine(tmp_path_factory.mktemp("msh"), name, settings=mail)
    with running(machine, django_db_blocker) as started:
        yield started


@pytest.fixture
def msh(running_msh: Machine, django_db_blocker: DjangoDbBlocker) -> Iterator[Machine]:
    """The MSH; this process looks into its database, without any transaction around the test."""
    with django_db_blocker.unblock(), running_msh.database():
        yield running_msh


@pytest.fixture
def console(msh: Machine, browser: Browser) -> Iterator[Console]:
    """Its console: pages ask nobody outside, and no script of theirs fails."""
    opened = Console(msh, browser)
    yield opened
    opened.close()
    assert opened.outside == []
    assert opened.problems == [], opened.failed


@pytest.fixture
def pair(msh: Machine) -> Iterator[PairFactory]:
    """Make pairs: `pair(timeout=1, retries=2, retry_interval=1, acknowledges=False, ...)`."""
    with making_pairs(msh) as make:
        yield make
