"""The sending application: submits the messages of the exchange, each in a commit of its own.

A process beside the MSH, as an application is. Django takes a second to load, so it is started
before the clock is.
"""

import os
import subprocess
import sys
import time
from types import TracebackType
from typing import Self

import django

from msh.standalone import datafolder

from .msh import ROOT, Msh
from .wire import payload_of

_READY, _DONE = "ready\n", "done\n"


class Producer:
    """Submits `messages` to each of the first `pairs` partners of `msh` when told to.

    Each has `size` bytes of payload, or the order of `wire` where that is 0. `names`: what the
    TPAIds of these partners begin with.
    """

    def __init__(
        self, msh: Msh, *, pairs: int, messages: int, size: int = 0, names: str = ""
    ) -> None:
        self._process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "benchmarks.producer",
                str(msh.folder),
                str(pairs),
                str(messages),
                str(size),
                names,
            ],
            cwd=ROOT,
            env=msh.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Self:
        self._expect(_READY)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._process.terminate()
        self._process.communicate()

    def submit(self) -> float:
        """Submits everything; the seconds it took. RuntimeError if the process failed."""
        assert self._process.stdin is not None
        started = time.monotonic()
        self._process.stdin.write("go\n")
        self._process.stdin.flush()
        self._expect(_DONE)
        return time.monotonic() - started

    def _expect(self, line: str) -> None:
        assert self._process.stdout is not None
        if self._process.stdout.readline() != line:
            raise RuntimeError("the producer failed, see above")


def main(folder: str, pairs: int, messages: int, size: int, names: str) -> None:
    datafolder.load_from_arguments([f"--data={folder}"])
    os.environ["DJANGO_SETTINGS_MODULE"] = "msh.settings"
    django.setup()
    # Models can be imported only now.
    from msh.flows.sending.submit import submit  # noqa: PLC0415
    from msh.protocol.message import Payload  # noqa: PLC0415
    from partners.models import Agreement  # noqa: PLC0415

    chosen = Agreement.objects.filter(tpa_id__startswith=names).select_related("partner")
    agreements = list(chosen.order_by("tpa_id")[:pairs])
    order = Payload(payload_of(size), label="PurchaseOrder")
    _say(_READY)
    sys.stdin.readline()
    for _ in range(messages):
        for agreement in agreements:
            submit(agreement, "QuoteToCollect", "NewPurchaseOrder", [order])
    _say(_DONE)


def _say(line: str) -> None:
    sys.stdout.write(line)
    sys.stdout.flush()


if __name__ == "__main__":
    pairs, messages, size = map(int, sys.argv[2:5])
    main(sys.argv[1], pairs, messages, size, sys.argv[5])
