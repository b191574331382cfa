"""How many more POSTs there may be at once: a slow partner stops only itself."""

from typing import Protocol


class Places(Protocol):
    """What a carrier has left: of one partner, and of all together."""

    def free(self, partner_id: int) -> int: ...

    def free_in_all(self) -> int: ...


class Room:
    """The free places of one look, taken one by one."""

    def __init__(self, carrier: Places) -> None:
        self._carrier = carrier
        self._places = carrier.free_in_all()
        self._left: dict[int, int] = {}
        self.refused = False
        """There was no free place: look again when a POST has ended."""

    def take(self, partner_id: int) -> bool:
        """Take a place of this partner. False if it has none, or there is none at all."""
        if partner_id not in self._left:
            self._left[partner_id] = self._carrier.free(partner_id)
        if self._left[partner_id] <= 0 or self._places <= 0:
            self.refused = True
            return False
        self._left[partner_id] -= 1
        self._places -= 1
        return True
