"""pytest plugin: with `-n`, the tests of some folders go to one worker each: one JVM, one browser,
one MSH with hosts of its own.

(pytest-xdist 3.8 sees no mark xdist_group under pytest 9.2, so `--dist loadgroup` is not enough.)
"""

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

TOGETHER = ("tests/spark/", "tests/browser/", "tests/hosts/")


class FoldersTogether(LoadScopeScheduling):  # type: ignore[misc] # xdist has no types
    """Tests of those folders first; every other by itself to whichever worker is free."""

    def _split_scope(self, nodeid: str) -> str:
        return next((folder for folder in TOGETHER if nodeid.startswith(folder)), nodeid)


@pytest.hookimpl
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> FoldersTogether:
    return FoldersTogether(config, log)
