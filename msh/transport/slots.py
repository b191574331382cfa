"""Slots for POSTs: how many each partner may have under way, so that partners that do not answer
leave room for others.

It only counts, and may be called from any thread.
"""

import threading
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum


class Standing(Enum):
    """How a partner's last POST from this process ended."""

    ANSWERS = "answers"
    """It was answered, or ended quickly: its slots are soon free again."""
    UNKNOWN = "unknown"
    SILENT = "silent"
    """It takes long, or ended without an answer."""


@dataclass(slots=True, eq=False)
class Slot:
    """The slot of one POST. A slow one is among those that have no part in the others' slots."""

    partner_id: int
    standing: Standing
    size: int
    """Bytes of the POST."""
    slow: bool = False


@dataclass(frozen=True, slots=True)
class Room:
    """The number of further POSTs that may be made to these `partners`; unless `only`, to all
    others."""

    partners: Collection[int]
    only: bool
    slots: int


class Slots:
    """`at_once` in all. Of these at most half for partners that are not known to answer, half of
    that for those that are known not to. A POST that takes long leaves them for one of
    `slow_at_once` others, while there are some."""

    def __init__(self, at_once: int, slow_at_once: int, per_partner: int) -> None:
        self._at_once, self._slow_at_once, self._per_partner = at_once, slow_at_once, per_partner
        self._unproven_at_once = max(1, at_once // 2)
        self._silent_at_once = max(1, at_once // 4)
        self._standings: dict[int, Standing] = {}
        self._is_open = True
        self._lock = threading.RLock()
        self.clear()

    def take_no_more(self) -> None:
        """There is room for nobody from now on."""
        self._is_open = False

    def clear(self) -> None:
        """Nothing is under way."""
        self._of_partner: Counter[int] = Counter()
        self._quick: Counter[Standing] = Counter()
        self._slow = self._bytes = 0

    def enter(self, partner_id: int, size: int = 0) -> Slot:
        """One more, whether there is room or not."""
        with self._lock:
            standing = self._standings.get(partner_id, Standing.UNKNOWN)
            self._of_partner[partner_id] += 1
            self._quick[standing] += 1
            self._bytes += size
        return Slot(partner_id, standing, size)

    def slow_down(self, slot: Slot) -> bool:
        """Note that this POST takes long. True if its slot is free for another one now."""
        with self._lock:
            self._standings[slot.partner_id] = Standing.SILENT
            if self._slow >= self._slow_at_once:
                return False
            self._quick[slot.standing] -= 1
            self._slow += 1
            slot.slow = True
            return True

    def leave(self, slot: Slot, standing: Standing | None) -> None:
        """Note that this POST has ended. `standing`: what its end says about the partner, None if
        nothing."""
        with self._lock:
            if slot.slow:
                self._slow -= 1
            else:
                self._quick[slot.standing] -= 1
            self._bytes -= slot.size
            self._of_partner[slot.partner_id] -= 1
            if not self._of_partner[slot.partner_id]:
                del self._of_partner[slot.partner_id]
            if standing is not None:
                self._standings[slot.partner_id] = standing

    def free(self, partner_id: int) -> int:
        with self._lock:
            own = max(0, self._per_partner - self._of_partner[partner_id])
            return min(own, self._left(self._standings.get(partner_id, Standing.UNKNOWN)))

    def free_in_all(self) -> int:
        with self._lock:
            return max(0, self._at_once - self._quick.total()) if self._is_open else 0

    def under_way(self) -> int:
        """POSTs that have not ended."""
        with self._lock:
            return self._of_partner.total()

    def bytes_under_way(self) -> int:
        return self._bytes

    def full(self) -> set[int]:
        with self._lock:
            own = {one for one, count in self._of_partner.items() if count >= self._per_partner}
            if self._left(Standing.SILENT):
                return own
            return own | {one for one, how in self._standings.items() if how is Standing.SILENT}

    def rooms(self, enough: int) -> list[Room]:
        """Return the rooms for a caller that looks for `enough` POSTs to make. Each kind of partner
        has a room of its own if one of them has fewer free slots: messages that wait for a slot
        must not hide those that have one."""
        with self._lock:
            full, in_all = self.full(), self.free_in_all()
            unproven, silent = self._left(Standing.UNKNOWN), self._left(Standing.SILENT)
            standings = tuple(self._standings.items())
        if min(unproven, silent) >= min(enough, in_all):
            return [Room(full, False, in_all)]
        answering = {one for one, how in standings if how is Standing.ANSWERS}
        quiet = {one for one, how in standings if how is Standing.SILENT}
        rooms = [Room(answering - full, True, in_all)]
        if unproven:
            rooms.append(Room(answering | quiet | full, False, unproven))
        if silent:
            rooms.append(Room(quiet - full, True, silent))
        return rooms

    def _left(self, standing: Standing) -> int:
        left = [self.free_in_all()]
        if standing is not Standing.ANSWERS:
            unproven = self._quick[Standing.UNKNOWN] + self._quick[Standing.SILENT]
            left.append(self._unproven_at_once - unproven)
        if standing is Standing.SILENT:
            left.append(self._silent_at_once - self._quick[Standing.SILENT])
        return max(0, min(left))
