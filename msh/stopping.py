"""A process that was asked to end does end within LIMIT, whatever it waits for.

Celery's warm shutdown waits for every task, opens connections to the broker, and the end of Python
waits for every thread. Each connection asks a name server first, in C: while one does not answer,
10 to 40 seconds for each name, no handler of signals runs in the thread that asked. So the signal
itself wakes a thread of ours. What is given up is as after a crash (`msh/flows/worker_loop.py`).
"""

import json
import os
import select
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

LIMIT = 20.0
"""Seconds from the signal to the end. Docker and Kubernetes kill after 30 (`stop_grace_period`,
`terminationGracePeriodSeconds`)."""
_SIGNALS = {signal.SIGTERM, signal.SIGINT, signal.SIGQUIT}
_FRAMES = 4
_WRITABLE = select.PIPE_BUF
"""Bytes that a pipe which is ready takes without waiting."""


def limit(on_stop: Callable[[], None] = lambda: None) -> None:
    """From the first SIGTERM, SIGINT or SIGQUIT on, this process has LIMIT seconds; `on_stop` is
    called at once, in a thread of ours. Call it in the main thread. It changes no handler, and
    sees no signal that has none in Python."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    waiting = threading.Thread(target=_wait, args=(reader, on_stop), name="msh-stop", daemon=True)
    waiting.start()


def begin(on_stop: Callable[[], None] = lambda: None) -> None:
    """Begin the time limit now, for a process that has been asked to end in any way."""
    threading.Thread(target=_end, args=(on_stop,), name="msh-stop", daemon=True).start()


def _wait(reader: int, on_stop: Callable[[], None]) -> None:
    while not _SIGNALS.intersection(os.read(reader, 64)):
        pass
    _end(on_stop)


def _end(on_stop: Callable[[], None]) -> None:
    end = time.monotonic() + LIMIT
    try:
        on_stop()
    finally:
        time.sleep(max(0.0, end - time.monotonic()))
        with suppress(Exception):
            _say()
        os._exit(0)


def _say() -> None:
    """To standard error, if it takes it at once, and without a lock: logging might wait."""
    line = {
        "event": f"ended {LIMIT:g} s after it was asked to, without waiting any longer",
        "level": "warning",
        "logger": __name__,
        "timestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "waited_for": _waited_for(),
    }
    said = json.dumps(line).encode()
    if len(said) >= _WRITABLE:
        said = json.dumps(line | {"waited_for": "many threads"}).encode()
    poll = select.poll()
    poll.register(sys.__stderr__ or 2, select.POLLOUT)
    if poll.poll(0):
        os.write(2, said + b"\n")


def _waited_for() -> dict[str, str]:
    """Return where the threads are that a process waits for at its end, the innermost call
    first."""
    frames = sys._current_frames()  # noqa: SLF001
    found = {}
    for thread in threading.enumerate():
        frame = frames.get(thread.ident or 0)
        if thread.daemon or frame is None:
            continue
        calls = traceback.extract_stack(frame)[: -_FRAMES - 1 : -1]
        if calls[0].name != "_worker":  # of a pool, with nothing to do
            found[thread.name] = ", ".join(
                f"{call.name} ({Path(call.filename).name}:{call.lineno})" for call in calls
            )
    return found
