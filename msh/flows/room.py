"""How many more POSTs a partner may have at once: a slow partner stops only itself."""

from collections.abc import Callable


class Room:
    """The free places of one look, taken one by one."""

    def __init__(self, free: Callable[[int], int]) -> None:
        self._free = free
        self._left: dict[int, int] = {}
        self.refused = False
        """A partner had no free place: look again when one of its POSTs has ended."""

    def take(self, partner_id: int) -> bool:
        """Take a place of this partner. False if it has none."""
        if partner_id not in self._left:
            self._left[partner_id] = self._free(partner_id)
        if self._left[partner_id] <= 0:
            self.refused = True
            return False
        self._left[partner_id] -= 1
        return True
