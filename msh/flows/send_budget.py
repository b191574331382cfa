"""How many more POSTs there may be at once, so that a slow partner stops only itself; and how many
bytes all of them may have, so that a worker's memory is bounded."""

from typing import Protocol

from msh.store.sending.message_sql import LARGE

BYTES_AT_ONCE = 64 * 1024 * 1024
"""Bytes under way above which no further large message is taken: one more than fits at most."""


class Carrying(Protocol):
    """What a carrier has left: of one partner, and of all together; and what it holds."""

    def free(self, partner_id: int) -> int: ...

    def free_in_all(self) -> int: ...

    def bytes_under_way(self) -> int: ...


class SendBudget:
    """The free slots of one poll, reserved one by one."""

    def __init__(self, carrier: Carrying) -> None:
        self._carrier = carrier
        self._slots = carrier.free_in_all()
        self._bytes = BYTES_AT_ONCE - carrier.bytes_under_way()
        self._left: dict[int, int] = {}
        self.refused = False
        """There was no free slot: poll again when a POST has ended."""

    @property
    def for_large(self) -> bool:
        return self._bytes > 0

    def reserve(self, partner_id: int, size: int = 0) -> bool:
        """Reserve a slot of this partner for `size` bytes of payload. False if it has none, or
        there is none at all."""
        if partner_id not in self._left:
            self._left[partner_id] = self._carrier.free(partner_id)
        full = self._slots <= 0 or (size >= LARGE and self._bytes <= 0)
        if self._left[partner_id] <= 0 or full:
            self.refused = True
            return False
        self._left[partner_id] -= 1
        self._slots -= 1
        self._bytes -= size
        return True
