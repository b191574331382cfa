"""What somebody may do now and then, and not without end: guess credentials, be refused.

Kept in memory, by each process for itself.
"""

import ipaddress
import math
import time
from collections.abc import Callable, Hashable, Iterable
from functools import lru_cache
from threading import Lock
from typing import Generic, TypeVar

REMEMBERED = 10_000
"""Of whom it is known how much is left, at most."""

Who = TypeVar("Who", bound=Hashable)


class Allowance(Generic[Who]):
    """For each of them so many times at once, and so many more each second. Any thread may use
    it."""

    def __init__(self, burst: int, refill: float) -> None:
        self._burst, self._refill = burst, refill
        self._left: dict[Who, tuple[float, float]] = {}  # and when that was
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._left)

    def wait(self, who: Who, now: float | None = None) -> int:
        """Seconds until there is one again; 0: now."""
        missing = 1.0 - self._now_left(who, time.monotonic() if now is None else now)
        return math.ceil(missing / self._refill) if missing > 1e-9 else 0

    def spend(self, who: Who, now: float | None = None) -> None:
        now = time.monotonic() if now is None else now
        with self._lock:
            left = self._now_left(who, now) - 1
            if len(self._left) >= REMEMBERED and who not in self._left:
                self._left.clear()
            self._left[who] = (max(0.0, left), now)

    def forget(self) -> None:
        self._left.clear()

    def _now_left(self, who: Who, now: float) -> float:
        left, then = self._left.get(who, (self._burst, now))
        return min(self._burst, left + (now - then) * self._refill)


class AddressAllowance(Allowance[str]):
    """By IP address; of IPv6 by network of /64, whose addresses one host may choose among."""

    def wait(self, who: str, now: float | None = None) -> int:
        return super().wait(group_of(who), now)

    def spend(self, who: str, now: float | None = None) -> None:
        super().spend(group_of(who), now)


@lru_cache(maxsize=4096)
def group_of(address: str) -> str:
    """Those of whom `address` is one, as text: itself, or its /64. What is none is itself."""
    try:
        ip = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(ip, ipaddress.IPv4Address):
        return str(ip)
    if ip.ipv4_mapped:
        return str(ip.ipv4_mapped)
    return str(ipaddress.IPv6Network((int(ip) >> 64 << 64, 64)))


class Known:
    """The digests of all credentials of a kind, as `read` at most `seconds` ago: so who comes from
    the same address as a guesser is served, by a process that has just begun too, and guesses cost
    the database nothing."""

    def __init__(self, read: Callable[[], Iterable[str]], seconds: float = 10.0) -> None:
        self._read, self._seconds = read, seconds
        self._digests: frozenset[str] = frozenset()
        self._until = -math.inf

    def __contains__(self, digest: str) -> bool:
        """Raises what reading raises."""
        if time.monotonic() >= self._until:
            self._digests = frozenset(self._read())
            self._until = time.monotonic() + self._seconds
        return digest in self._digests

    def forget(self) -> None:
        self._until = -math.inf


guesses = AddressAllowance(burst=100, refill=2)
"""Credentials that nobody has, by address. Who shows one that is `Known` is served all the same."""

questions: Allowance[int] = Allowance(burst=100, refill=1)
"""Pings and StatusRequests that are answered, by partner."""

refusals: Allowance[int] = Allowance(burst=100, refill=1 / 60)
"""Messages that are refused and signals that mean nothing, by partner: each with an id of its own
is a row of the history and a pending signal. A Sender that waits for answers is refused once."""
