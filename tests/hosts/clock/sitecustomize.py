# ruff: noqa: INP001  Python finds it by its name
"""In a process that has this folder in PYTHONPATH: the wall clock is off by what a file says.

libfaketime cannot be used here: under it, Python's `time.sleep` fails now and then (EINVAL).
`time.monotonic` and sleeping are not touched.
"""

import os
import threading
import time
from pathlib import Path

import time_machine

_FILE = Path(os.environ["MSH_TEST_CLOCK"])


class _Clock:
    travel: "time_machine.travel | None" = None
    off = 0.0


def _follow() -> None:
    seen = _FILE.with_name(f"{_FILE.name}.seen.{os.getpid()}")
    seen.write_text(str(_Clock.off))
    while True:
        wanted = float(_FILE.read_text())
        if wanted != _Clock.off:
            if _Clock.travel:
                _Clock.travel.stop()
            _Clock.travel, _Clock.off = time_machine.travel(time.time() + wanted), wanted
            _Clock.travel.start()
            seen.write_text(str(wanted))
        threading.Event().wait(0.05)


def _start() -> None:
    threading.Thread(target=_follow, name="clock", daemon=True).start()


_start()
os.register_at_fork(after_in_child=_start)
