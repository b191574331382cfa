"""Progress messages for steps that take long."""

import threading
import time
from collections.abc import Callable
from typing import Self

REPORT_EVERY = 10.0
"""Seconds."""


class Waiting:
    """A context: every REPORT_EVERY seconds `say` gets a line that names what is waited for, from a
    thread of its own, until the context is left or `over` is called."""

    def __init__(self, say: Callable[[str], None], what: str) -> None:
        self._say = say
        self._what = what
        self._since = time.monotonic()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="msh-waiting", daemon=True)

    def goes_on_with(self, what: str) -> None:
        self._what, self._since = what, time.monotonic()

    def over(self) -> None:
        self._over.set()
        self._thread.join()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.over()

    def _run(self) -> None:
        while not self._over.wait(REPORT_EVERY):
            self._say(f"{self._what}: {time.monotonic() - self._since:.0f} s so far")
