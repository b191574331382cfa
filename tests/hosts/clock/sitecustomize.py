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


def _follow() -> None:
    seen = _FILE.with_name(f"{_FILE.name}.seen.{os.getpid()}")
    seen.write_text("0.0")
    travel, off = None, 0.0
    while True:
        wanted = float(_FILE.read_text())
        if wanted != off:
            if travel:
                travel.stop()
            travel, off = time_machine.travel(time.time() + wanted), wanted
            travel.start()
            seen.write_text(str(wanted))
        threading.Event().wait(0.05)


threading.Thread(target=_follow, name="clock", daemon=True).start()
