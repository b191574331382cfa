"""pytest plugin: with `-n`, the tests of some folders go to one worker: one JVM, one browser, one
MSH with hosts of its own, one data folder of `manage.py up`, two MSHs that know each other. The
browser tests, which take longest, are shared between two.

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
from importlib import import_module
from pathlib import Path

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

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


class FoldersTogether(LoadScopeScheduling):  # type: ignore[misc] # xdist has no types
    """Tests of those folders first; every other by itself to whichever worker is free."""

    def _split_scope(self, nodeid: str) -> str:
        return next(
            (name for folder, name in TOGETHER.items() if nodeid.startswith(folder)), nodeid
        )


@pytest.hookimpl
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> FoldersTogether:
    return FoldersTogether(config, log)
