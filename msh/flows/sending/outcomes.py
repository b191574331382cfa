"""How POSTs ended, from the end of each until it is recorded."""

import math
from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

from msh.flows.sending.transmit import Copy
from msh.protocol.attempt import AttemptOutcome
from msh.transport.carrier import Finished

HOLD = 0.25
"""Seconds that a 2xx may wait, half of them to be taken and half to be recorded by the transaction
of a later round: usually the Acknowledgement comes before. Then its message is complete, and the
link is not written for the 2xx. A 2xx completes nothing, and one that is lost with the process is a
worker that died after its POST."""
BEFORE_LAPSE = 0.3
"""Seconds before others may claim a promised copy at which its 2xx is held no longer."""


class Held(NamedTuple):
    """`until`: by `time.monotonic`."""

    finished: Finished
    until: float


class Outcomes:
    """The outcomes that one loop has not recorded yet. `now` is by `time.monotonic`."""

    def __init__(self) -> None:
        self._held: list[Held] = []

    def __len__(self) -> int:
        return len(self._held)

    def __iter__(self) -> Iterator[Finished]:
        return (one.finished for one in self._held)

    def hold(self, finished: Finished, now: float) -> None:
        """It is to be recorded at once, unless it is a 2xx."""
        until = 0.0
        if finished.outcome.outcome is AttemptOutcome.TRANSMITTED:
            lapse = finished.job.lapse
            until = min(now + HOLD / 2, lapse.at - BEFORE_LAPSE if lapse else math.inf)
        self._held.append(Held(finished, until))

    def add(self, several: Iterable[Finished]) -> None:
        """They are to be recorded at once."""
        self._held += [Held(one, 0.0) for one in several]

    def pop_due(self, now: float) -> list[Finished]:
        due = [one.finished for one in self._held if one.until <= now]
        self._held = [one for one in self._held if one.until > now]
        return due

    def keep(self, several: Iterable[Held]) -> None:
        """For as long as they were held before."""
        self._held += several

    def take(self, several: Iterable[Finished]) -> list[Held]:
        keys = {id(one.job.key) for one in several}
        taken = [one for one in self._held if id(one.finished.job.key) in keys]
        self.forget(keys)
        return taken

    def forget(self, keys: Collection[int]) -> None:
        """`keys`: the `id` of the key of each job."""
        self._held = [one for one in self._held if id(one.finished.job.key) not in keys]

    def put_off(self, keys: Collection[int], until: float) -> None:
        """They cannot be recorded before: others hold what they would write."""
        self._held = [
            Held(one, until) if id(one.job.key) in keys else Held(one, before)
            for one, before in self._held
        ]

    def next_at(self) -> float:
        """When the first of them is to be recorded."""
        return min((one.until for one in self._held), default=math.inf)

    def are_due(self, now: float) -> bool:
        return any(one.until <= now for one in self._held)

    def to_record(self, now: float, partners: Collection[int]) -> list[Finished]:
        """Outcomes for a transaction that is made now and locks the links of these `partners`. The
        2xx of another copy is left out until its time is over: for it the link would be written."""
        return [
            finished
            for finished, until in self._held
            if until <= now
            or not isinstance(finished.job.key, Copy)
            or finished.job.partner_id in partners
        ]
