"""pytest plugin: with `-n`, the tests of some folders go to one worker: one JVM, one browser, one
MSH with hosts of its own, one data folder of `manage.py up`.

tests/hosts makes and removes network interfaces. Chromium gives up every request under way when it
notices that (net::ERR_NETWORK_CHANGED), and a page then lacks a script. So both folders have the
same worker, and never run at the same time.

(pytest-xdist 3.8 sees no mark xdist_group under pytest 9.2, so `--dist loadgroup` is not enough.)
"""

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

TOGETHER = {
    "tests/spark/": "spark",
    "tests/browser/": "browser and hosts",
    "tests/hosts/": "browser and hosts",
    "tests/test_standalone.py": "standalone",
}
"""The worker's tests, by the beginning of their name."""


class FoldersTogether(LoadScopeScheduling):  # type: ignore[misc] # xdist has no types
    """Tests of those folders first; every other by itself to whichever worker is free."""

    def _split_scope(self, nodeid: str) -> str:
        return next(
            (name for folder, name in TOGETHER.items() if nodeid.startswith(folder)), nodeid
        )


@pytest.hookimpl
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> FoldersTogether:
    return FoldersTogether(config, log)
