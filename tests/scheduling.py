"""pytest plugin: with `-n`, the tests of some folders go to one worker: one JVM, one browser, one
MSH with hosts of its own, one data folder of `manage.py up`, two MSHs that know each other. The
browser tests, which take longest, are shared between two. So do those of a file with a fixture for
all of them, such as a web server: it is started once.

tests/hosts makes and removes network interfaces. Chromium gives up every request under way when it
notices that (net::ERR_NETWORK_CHANGED), and a page then lacks a script. So tests/hosts comes after
the browser tests of its worker, and waits for those of the other one (`network_interfaces`).

(pytest-xdist 3.8 sees no mark xdist_group under pytest 9.2, so `--dist loadgroup` is not enough.)

Before that, workers share the work of the first import: in a fresh checkout every file has to be
compiled, tests twice.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

ROOT = Path(__file__).resolve().parents[1]
TOGETHER = {
    "tests/spark/": "spark",
    "tests/browser/test_a": "browser",  # access, actions, alerts: four tenths of the time
    "tests/browser/": "browser and hosts",
    "tests/hosts/": "browser and hosts",
    "tests/exchange/test_sides.py": "sides",
    "tests/processes/test_standalone.py": "standalone",
}
"""The worker's tests, by the beginning of their name: the first that fits."""


@contextmanager
def network_interfaces(*, change: bool) -> Iterator[None]:
    """Those of this machine stay as they are meanwhile, or only this test process changes them."""
    with (Path(os.environ["MSH_TESTS_FOLDER"]) / "network-interfaces").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX if change else fcntl.LOCK_SH)
        yield


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    """Each worker begins at another file, and finds what the others have compiled meanwhile. An
    error shows up again where the tests of the file are collected."""
    worker = os.environ.get("PYTEST_XDIST_WORKER")
    if worker is None:
        return
    root = session.config.rootpath
    folders = [path for word in session.config.args if (path := root / word).is_dir()]
    files = sorted({file for folder in folders for file in folder.rglob("test_*.py")})
    first = len(files) * int(worker[2:]) // int(os.environ["PYTEST_XDIST_WORKER_COUNT"])
    for file in files[first:] + files[:first]:
        with suppress(Exception, pytest.skip.Exception):
            import_module(".".join(file.relative_to(root).with_suffix("").parts))


@cache
def together(nodeid: str) -> str:
    """The name of the tests with which this one goes to one worker."""
    for beginning, name in TOGETHER.items():
        if nodeid.startswith(beginning):
            return name
    file = nodeid.partition("::")[0]
    return file if _shares_a_fixture(file) else nodeid


@cache
def _shares_a_fixture(file: str) -> bool:
    return 'scope="module"' in (ROOT / file).read_text(encoding="utf-8")


class FoldersTogether(LoadScopeScheduling):  # type: ignore[misc] # xdist has no types
    """Those tests first, the largest group before all; every other by itself to whichever worker
    is free."""

    def _split_scope(self, nodeid: str) -> str:
        return together(nodeid)


@pytest.hookimpl
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> FoldersTogether:
    return FoldersTogether(config, log)
