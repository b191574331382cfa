"""A bulk job that cancels a long queue: how fast it is, and what it leaves to the others."""

import os
import subprocess
import sys
import time
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import django

from msh.standalone import datafolder

from .crowd import Crowd
from .drain import ACKNOWLEDGED, Drain
from .figure import wait_until
from .msh import ROOT

ONE_BY_ONE = 200
"""Messages of a round of the floor."""
_QUEUE = """
SELECT partner.name FROM msh_outboundlink link
JOIN partners_partner partner ON partner.id = link.partner_id
WHERE link.state = 'suspended'
  AND NOT EXISTS (SELECT FROM msh_outboundmessage WHERE link_id = link.id AND state = 'cancelled')
ORDER BY link.id LIMIT 1
"""
"""Of a suspended partner: nothing of it was cancelled yet."""
_JOB = "SELECT {} FROM msh_bulkjob ORDER BY id DESC LIMIT 1"
_RATE = """
SELECT count(*) / EXTRACT(EPOCH FROM max(completed_at) - min(completed_at))::float8
FROM (SELECT completed_at FROM msh_outboundmessage WHERE state = 'cancelled'
      ORDER BY completed_at DESC LIMIT {}) last
"""


class _Job:
    """Each suspended partner of the crowd has a queue for one job."""

    minimum = 0.0

    def __init__(self, crowd: Crowd) -> None:
        self._crowd = crowd
        self._queued = 0

    def quiet(self) -> AbstractContextManager[None]:
        return nullcontext()

    def facts(self) -> dict[str, Any]:
        return {"queued": self._queued}

    def _begin(self) -> None:
        """Returns when the first set is cancelled."""
        msh = self._crowd.msh
        msh.manage("cancel-queue", msh.value(_QUEUE), "--reason", "benchmark")
        self._queued = self._job("total")
        wait_until(lambda: self._job("done > 0"), "begun", lambda: self._job("state"))

    def _end(self) -> None:
        wait_until(lambda: self._job("state <> 'running'"), "done", lambda: self._job("done"))
        if self._job("done") != self._queued:
            raise RuntimeError(f"{self._queued} were queued, cancelled: {self._job('done')}")

    def _job(self, columns: str) -> Any:
        """Of the last one."""
        return self._crowd.msh.value(_JOB.format(columns))


class CancelQueue(_Job):
    """Messages that a job cancels, the others being sent beside it. Floor: the act on one message,
    again and again, by a process of its own."""

    name = "cancel_queue"

    def product(self) -> float:
        self._begin()
        self._end()
        return float(self._crowd.msh.value(_RATE.format(self._queued)))

    def floor(self) -> float:
        msh = self._crowd.msh
        command = [sys.executable, "-m", "benchmarks.cancel", str(msh.folder), str(ONE_BY_ONE)]
        subprocess.run(command, cwd=ROOT, env=msh.environment, check=True)
        return float(msh.value(_RATE.format(ONE_BY_ONE)))


class DrainBesideCancel(_Job):
    """Messages acknowledged in a second while a job cancels the queue of another partner. Floor:
    without the job."""

    name = "drain_beside_cancel"

    def __init__(self, crowd: Crowd) -> None:
        super().__init__(crowd)
        self._alone = Drain("drain", crowd, seconds=10)

    def product(self) -> float:
        self._begin()
        before, started = self._crowd.msh.value(ACKNOWLEDGED), time.monotonic()
        self._end()
        acknowledged = self._crowd.msh.value(ACKNOWLEDGED) - before
        return float(acknowledged / (time.monotonic() - started))

    def floor(self) -> float:
        return self._alone.product()


def main(folder: str, count: int) -> None:
    """Cancel so many queued messages of one suspended partner, one after the other."""
    datafolder.load_from_arguments([f"--data={folder}"])
    os.environ["DJANGO_SETTINGS_MODULE"] = "msh.settings"
    django.setup()
    # Models can be imported only now.
    from msh.flows.operations.cancel import cancel  # noqa: PLC0415
    from msh.models import OutboundLink, OutboundMessage  # noqa: PLC0415
    from msh.store.history import Actor  # noqa: PLC0415

    link = OutboundLink.objects.filter(state="suspended").order_by("-pk")[0]
    queued = OutboundMessage.objects.queued().filter(link=link).order_by("pk")
    for message in queued.select_related("link__partner", "agreement").defer("head")[:count]:
        cancel(message, None, Actor("benchmark", "one by one"))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
