"""Who shows credentials that nobody has: an address may guess now and then, not without end.

What was found once is remembered by its process (`Partner.objects.remembered`), so partners that
come from the same address as a guesser are served all the same.
"""

import math
import time
from threading import Lock

BURST = 100
"""Wrong credentials of one address that are looked up one after the other."""
REFILL = 2.0
"""And so many more each second."""
REMEMBERED = 10_000
"""Addresses, at most."""


class Guesses:
    """For each address, how many lookups it has left. Any thread may use it."""

    def __init__(self) -> None:
        self._left: dict[str, tuple[float, float]] = {}  # and when that was
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._left)

    def wait(self, address: str, now: float | None = None) -> int:
        """Seconds until what it shows is looked up again; 0: now."""
        missing = 1.0 - self._now_left(address, time.monotonic() if now is None else now)
        return math.ceil(missing / REFILL) if missing > 1e-9 else 0

    def failed(self, address: str, now: float | None = None) -> None:
        """What it has shown is nobody's."""
        now = time.monotonic() if now is None else now
        with self._lock:
            left = self._now_left(address, now) - 1
            if len(self._left) >= REMEMBERED and address not in self._left:
                self._left.clear()
            self._left[address] = (max(0.0, left), now)

    def _now_left(self, address: str, now: float) -> float:
        left, then = self._left.get(address, (BURST, now))
        return min(BURST, left + (now - then) * REFILL)


guesses = Guesses()
"""Of this process: of partners and of applications."""
