"""What the sending loop remembers from round to round: how POSTs ended, until that is recorded; and
whom it has just served, by which it gathers work."""

import math
from collections.abc import Collection, Container, Iterable, Iterator

from msh.flows.sending.kinds import Ended, FlightCopy
from msh.protocol.attempt import AttemptOutcome
from msh.transport.job import Lapse

HOLD = 0.25
"""Seconds that a 2xx may wait, half of them to be taken and half to be recorded by the transaction
of a later round: usually the Acknowledgement comes before. Then its message is complete, and the
link is not written for the 2xx. A 2xx completes nothing, and one that is lost with the process is a
worker that died after its POST. That of a flight does not wait."""
BEFORE_LAPSE = 0.3
"""Seconds before others may claim a promised copy at which its 2xx is held no longer."""
GATHER = 0.0005
"""Seconds between rounds for each pair or message that is served at once: with 6 pairs 1.7 times
the messages of always 20 ms, with 16 a tenth more."""
GATHER_MOST = 0.01


class Outcomes:
    """The outcomes that one loop has not recorded yet, each until when it may be held. `now` and
    `until` are by `time.monotonic`; `copies` are classes of copies."""

    def __init__(self) -> None:
        self._held: dict[Ended, float] = {}

    def __len__(self) -> int:
        return len(self._held)

    def __iter__(self) -> Iterator[Ended]:
        return iter(tuple(self._held))

    def hold(self, ended: Ended, now: float, lapse: Lapse | None = None) -> None:
        """It is to be recorded at once, unless it is a 2xx. `lapse` is that of its job."""
        until = 0.0
        is_2xx = ended.result.outcome is AttemptOutcome.TRANSMITTED
        if is_2xx and not isinstance(ended.copy, FlightCopy):
            until = min(now + HOLD / 2, lapse.at - BEFORE_LAPSE if lapse else math.inf)
        self._held[ended] = until

    def keep(self, several: Iterable[Ended], until: float = 0.0) -> None:
        """They are to be recorded then, as when others no longer hold what they would write."""
        self._held.update((one, until) for one in several)

    def replace(self, one: Ended, by: Ended) -> None:
        """For as long as it is held."""
        self._held[by] = self._held.pop(one)

    def forget(self, several: Iterable[Ended]) -> None:
        for one in several:
            self._held.pop(one, None)

    def next_at(self) -> float:
        """When the first of them is to be recorded."""
        return min(self._held.values(), default=math.inf)

    def are_due(self, copies: Collection[type], now: float) -> bool:
        return any(until <= now for one, until in self._held.items() if type(one.copy) in copies)

    def to_record(
        self, copies: Collection[type], now: float, partners: Container[int] = ()
    ) -> list[Ended]:
        """Outcomes for a transaction that is made now and locks the links of these `partners`. The
        2xx of another copy is left out until its time is over if for it the link would be written.
        """
        return [
            one
            for one, until in self._held.items()
            if type(one.copy) in copies
            and (until <= now or not one.copy.writes_link or one.copy.partner_id in partners)
        ]


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
