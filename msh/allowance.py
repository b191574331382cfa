"""Allowances for actions that are harmless a few times, but not without end: to guess credentials,
to be refused.

Kept in memory, by each process for itself.
"""

import ipaddress
import logging
import math
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Container, Hashable, Iterable
from functools import lru_cache
from threading import Lock
from typing import Generic, TypeVar

logger = logging.getLogger(__name__)

REMEMBERED = 10_000
"""The largest number of keys for which the rest of the allowance is kept."""

Who = TypeVar("Who", bound=Hashable)
Value = TypeVar("Value")


class Newest(OrderedDict[Who, Value]):
    """At most REMEMBERED entries: of more, those that were written longest ago are forgotten."""

    def put(self, who: Who, value: Value) -> None:
        self[who] = value
        self.move_to_end(who)
        if len(self) > REMEMBERED:
            self.popitem(last=False)


class Allowance(Generic[Who]):
    """For each of them so many times at once, and so many more each second. Any thread may use
    it."""

    def __init__(self, burst: int, refill: float) -> None:
        self._burst, self._refill = burst, refill
        self._left: Newest[Who, tuple[float, float]] = Newest()  # and when that was
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._left)

    def wait(self, who: Who, now: float | None = None) -> int:
        """Seconds until there is one again; 0: now."""
        missing = 1.0 - self._now_left(who, time.monotonic() if now is None else now)
        return math.ceil(missing / self._refill) if missing > 1e-9 else 0

    def spend(self, who: Who, now: float | None = None, count: int = 1) -> None:
        now = time.monotonic() if now is None else now
        with self._lock:
            left = self._now_left(who, now) - count
            self._left.put(who, (max(0.0, left), now))

    def forget(self) -> None:
        self._left.clear()

    def _now_left(self, who: Who, now: float) -> float:
        left, then = self._left.get(who, (self._burst, now))
        return min(self._burst, left + (now - then) * self._refill)


class AddressAllowance(Allowance[str]):
    """An allowance by IP address; for IPv6 by /64 network, whose addresses one host may choose."""

    def wait(self, who: str, now: float | None = None) -> int:
        return super().wait(group_of(who), now)

    def spend(self, who: str, now: float | None = None, count: int = 1) -> None:
        super().spend(group_of(who), now, count)


class Limited:
    """Lines of the log about what an address can have happen without end: a few, then one a minute,
    which says how many there were. By whom it is used, `logger` says."""

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger
        self._lines = AddressAllowance(burst=20, refill=1 / 60)
        self._unlogged: Counter[str] = Counter()

    def warning(
        self, address: str, text: str, error: Exception | None = None, *, code: str = ""
    ) -> None:
        group = group_of(address)
        if self._lines.wait(address):
            if len(self._unlogged) < REMEMBERED:
                self._unlogged[group] += 1
            return
        self._lines.spend(address)
        more = self._unlogged.pop(group, 0)
        before = f" ({more} more before)" if more else ""
        client = address or "a client"
        extra = {"code": code} if code else None
        self._logger.warning("from %s: %s%s", client, text, before, exc_info=error, extra=extra)


class Delays:
    """After `free` failures in a row, each further try of the same name has to wait, each time
    twice as long as before, at most `longest` seconds. Any thread may use it."""

    def __init__(self, free: int, longest: float) -> None:
        self._free, self._longest = free, longest
        self._failed: Newest[str, tuple[int, float]] = Newest()  # how often, and when last
        self._lock = Lock()

    def wait(self, who: str, now: float | None = None) -> int:
        """Seconds until the next try; 0: now."""
        now = time.monotonic() if now is None else now
        count, last = self._failed.get(who, (0, now))
        if count < self._free:
            return 0
        delay = min(self._longest, 2.0 ** min(count - self._free, 30))
        return max(0, math.ceil(last + delay - now))

    def fail(self, who: str, now: float | None = None) -> None:
        now = time.monotonic() if now is None else now
        with self._lock:
            self._failed.put(who, (self._failed.get(who, (0, now))[0] + 1, now))

    def forget(self, who: str) -> None:
        with self._lock:
            self._failed.pop(who, None)


@lru_cache(maxsize=4096)
def group_of(address: str) -> str:
    """Return the key for an address as text: the address itself, or its /64 network. Text that is
    no address is its own key."""
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
    """The digests of all credentials of a kind, or who has logged in from where, as `read` at most
    `seconds` ago: so a client with the same address as a guesser is served, by a process that has
    just begun too, and guesses cost the database nothing."""

    def __init__(self, read: Callable[[], Iterable[Hashable]], seconds: float = 10.0) -> None:
        self._read, self._seconds = read, seconds
        self._found: frozenset[Hashable] = frozenset()
        self._until = -math.inf

    def __contains__(self, one: object) -> bool:
        """Raises what reading raises."""
        if time.monotonic() >= self._until:
            self._found = frozenset(self._read())
            self._until = time.monotonic() + self._seconds
        return one in self._found

    def forget(self) -> None:
        self._until = -math.inf


guesses = AddressAllowance(burst=100, refill=2)
"""Attempts with unknown credentials, by address, of partners, applications and operators. A client
with a credential that is `Known` is served all the same."""

questions: Allowance[int] = Allowance(burst=100, refill=1)
"""Pings and StatusRequests that are answered, by partner."""

refusals: Allowance[int] = Allowance(burst=100, refill=1 / 60)
"""Messages that are refused and signals that mean nothing, by partner: each with an id of its own
is a row of the history and a pending signal. A Sender that waits for answers is refused once."""


def _joined(name: str, group: str) -> str:
    return f"{name}\n{group}"


class LoginLimits:
    """Log-ins to the console that are refused: when there may be a further one."""

    COST = 5
    """Guesses that a refused log-in spends: each costs the hash of a password."""

    def __init__(self, known: Container[object] = ()) -> None:
        """`known`: names with the addresses, or networks, from which they have logged in."""
        self._known = known
        self._new: Newest[tuple[str, str], None] = Newest()  # since `known` was read
        self._names = Delays(free=10, longest=60)
        self._of_known = Delays(free=10, longest=60)
        self._lines = Limited(logger)

    def wait(self, name: str, address: str) -> int:
        """Seconds until somebody may try to log in as `name` from there. Who has logged in from the
        same address before waits only for failures under that name from there: neither guessers of
        the name elsewhere stop him, nor those of other names behind the same NAT."""
        wait = max(guesses.wait(address), self._names.wait(name))
        pair = name, group_of(address)
        if wait and (pair in self._new or pair in self._known):
            return self._of_known.wait(_joined(*pair))
        return wait

    def fail(self, name: str, address: str) -> None:
        guesses.spend(address, count=self.COST)
        if name:
            self._names.fail(name)
            self._of_known.fail(_joined(name, group_of(address)))

    def succeed(self, name: str, address: str) -> None:
        self._names.forget(name)
        self._of_known.forget(_joined(name, group_of(address)))
        self._new.put((name, group_of(address)), None)

    def log(self, address: str) -> None:
        self._lines.warning(address, "a log-in to the console was refused")
