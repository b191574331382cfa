"""What it costs to choose what to send next, in a process beside an MSH that stands still.

`python -m benchmarks.choose FOLDER POLLS` prints the milliseconds of each poll as JSON: a poll
finds, locks and loads what is to be sent; nothing is changed.
"""

import json
import os
import statistics
import subprocess
import sys
import time
from typing import Any

import django

from msh.standalone import datafolder

from .crowd import Crowd
from .msh import ROOT
from .report import tell

POLLS = 200
_WARM_UP = 10
"""Statements are planned in these, and then never again."""


class Choose:
    """Half of the partners are suspended; each has as many messages queued. The crowd is still."""

    name = "choose_ms"
    unit = "ms"
    at_most = 10.0

    def __init__(self, crowd: Crowd, queued: int) -> None:
        self._crowd = crowd
        self._queued = queued
        self._polls: list[float] = []

    def measure(self) -> float:
        msh = self._crowd.msh
        with msh.paused("web"):
            done = subprocess.run(
                [sys.executable, "-m", "benchmarks.choose", str(msh.folder), str(POLLS)],
                cwd=ROOT,
                env=msh.environment,
                stdout=subprocess.PIPE,
                text=True,
                check=False,
            )
        if done.returncode:
            raise RuntimeError("choosing failed, see above")
        self._polls = json.loads(done.stdout.splitlines()[-1])
        tell(f"fastest poll {min(self._polls):.2f} ms")
        return statistics.median(self._polls)

    def facts(self) -> dict[str, Any]:
        return {
            "queued": self._queued,
            "partners": self._crowd.partners,
            "fastest_ms": min(self._polls),
            "p99_ms": statistics.quantiles(self._polls, n=100)[98],
        }


def main(folder: str, polls: int) -> None:
    datafolder.load_from_arguments([f"--data={folder}"])
    os.environ["DJANGO_SETTINGS_MODULE"] = "msh.settings"
    django.setup()
    # Models can be imported only now.
    from django.db import transaction  # noqa: PLC0415

    from msh.store import plans  # noqa: PLC0415
    from msh.store.sending import polling  # noqa: PLC0415

    plans.plan_for_hot_path()  # as the worker's threads do
    slots = polling.Slots(of_partner=4, in_all=256)
    times = []
    for _ in range(_WARM_UP + polls):
        began = time.perf_counter()
        with transaction.atomic():
            found = polling.lock_work((), slots)
        times.append((time.perf_counter() - began) * 1000)
    if not list(found):
        raise SystemExit("the poll found nothing")
    sys.stdout.write(json.dumps(times[_WARM_UP:]) + "\n")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
