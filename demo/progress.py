"""Progress of a long run: a bar on a terminal, elsewhere a line every few seconds."""

import time

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

LINE_EVERY = 5.0
"""Seconds."""


class Meter:
    """Shows how many of `total` are done while it is used as a context manager."""

    def __init__(self, console: Console, total: int, what: str, every: float = LINE_EVERY) -> None:
        self._console = console
        self._total = total
        self._what = what
        self._every = every
        self._began = self._printed_at = time.monotonic()
        self._bar = Progress(
            BarColumn(bar_width=14),
            MofNCompleteColumn(),
            TextColumn(f"{what}, [dim]{{task.fields[note]}}"),
            TimeElapsedColumn(),
            console=console,
            disable=not console.is_terminal,
        )
        self._task = self._bar.add_task("", total=total, note="")

    def __enter__(self) -> "Meter":
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def show(self, done: int, note: str = "") -> None:
        self._bar.update(self._task, completed=done, note=note)
        now = time.monotonic()
        if self._console.is_terminal or now - self._printed_at < self._every:
            return
        self._printed_at = now
        line = f"{now - self._began:5.0f} s  {done} of {self._total} {self._what}"
        self._console.print(", ".join(filter(None, (line, note))), highlight=False, soft_wrap=True)
