"""How long the sending loop gathers work, so that one round and one commit serve several."""

GATHER = 0.0005
"""Seconds between rounds for each pair or message that is served at once: with 6 pairs 1.7 times
the messages of always 20 ms, with 16 a tenth more."""
GATHER_MOST = 0.01


class Served:
    """The partners who have just been served, and how many messages of each at once: one of the
    draft's, up to its window of ebMS 2.0."""

    MANY = 4
    WITHIN = 0.1  # seconds

    def __init__(self) -> None:
        self._partners: dict[int, tuple[float, int]] = {}

    def note(self, partner_id: int, now: float, messages: int = 1) -> None:
        self._partners[partner_id] = now, messages

    def gather(self, now: float) -> float:
        """Seconds between rounds. None for a few messages: each would wait for nothing."""
        self._partners = {
            partner_id: (at, messages)
            for partner_id, (at, messages) in self._partners.items()
            if now - at < self.WITHIN
        }
        many = sum(messages for _, messages in self._partners.values())
        return min(GATHER * many, GATHER_MOST) if many >= self.MANY else 0.0
