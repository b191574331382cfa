"""Bounds for mail in this process: connections, and bytes of mails that are not answered yet."""

from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass
from typing import TypeVar

from msh.allowance import group_of

K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Limits:
    """Numbers of connections, bytes, and seconds."""

    connections: int = 1000
    of_address: int = 100
    """Connections from one address (IPv6: from one /64 network)."""
    memory: int = 256 << 20
    """Bytes of mails that are received and stored now, of all partners; of one at most half."""
    stranger: float = 60.0
    """Seconds in which a client has to show who it is, by AUTH or MAIL."""
    idle: float = 300.0
    """Seconds for the next command of a client that has (RFC 5321 §4.5.3.2), and of DATA, after
    which the mail must have moved on at `rate`."""
    rate: int = 8 * 1024
    """Bytes a second."""


class Bounds:
    """Counts what is in use now. Used on the event loop only."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.connections = 0
        self.held = 0
        self._by_address: Counter[str] = Counter()
        self._by_partner: Counter[Hashable] = Counter()

    def connect(self, address: str) -> str:
        """Count a connection of `address`; empty, or why there may be no further one."""
        group = group_of(address)
        if self.connections >= self.limits.connections:
            return "too many connections"
        if self._by_address[group] >= self.limits.of_address:
            return "too many connections from your address"
        self.connections += 1
        self._by_address[group] += 1
        return ""

    def disconnect(self, address: str) -> None:
        self.connections -= 1
        _subtract(self._by_address, group_of(address), 1)

    def hold(self, partner: Hashable, size: int) -> bool:
        """False, with nothing counted, if so many bytes of this partner are too many now."""
        limit = self.limits.memory
        if self.held + size > limit or self._by_partner[partner] + size > limit // 2:
            return False
        self.held += size
        self._by_partner[partner] += size
        return True

    def release(self, partner: Hashable, size: int) -> None:
        self.held -= size
        _subtract(self._by_partner, partner, size)


def _subtract(counter: Counter[K], key: K, count: int) -> None:
    """Subtract, and forget a count that is 0: addresses come and go."""
    counter[key] -= count
    if not counter[key]:
        del counter[key]
