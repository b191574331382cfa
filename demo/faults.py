"""What the fault proxy does to a request: chosen from a seed, so that a run can be repeated."""

from dataclasses import asdict, dataclass, fields
from enum import StrEnum
from random import Random
from typing import Protocol


class Fault(StrEnum):
    PASS = "pass"
    DROP_REQUEST = "drop-request"
    DROP_RESPONSE = "drop-response"
    DUPLICATE = "duplicate"
    DELAY = "delay"
    REORDER = "reorder"
    UNAVAILABLE = "unavailable"
    RESET = "reset"


class Ending(StrEnum):
    """How a connection ends that gets no answer."""

    CLOSED = "closed"
    RESET = "reset"
    SILENCE = "silence"
    """Left open without a word until the client gives up."""


@dataclass(frozen=True, slots=True)
class Rates:
    """The share of POSTs that suffers each fault, 0 to 1, together at most 1."""

    drop_request: float = 0.06
    drop_response: float = 0.06
    duplicate: float = 0.06
    delay: float = 0.05
    reorder: float = 0.05
    unavailable: float = 0.04
    reset: float = 0.03

    def __post_init__(self) -> None:
        if any(rate < 0 for rate in asdict(self).values()) or self.disturbed > 1:
            raise ValueError("Fault rates are shares: none below 0, together at most 1.")

    @property
    def disturbed(self) -> float:
        return float(sum(asdict(self).values()))

    @classmethod
    def names(cls) -> tuple[str, ...]:
        return tuple(field.name for field in fields(cls))


@dataclass(frozen=True, slots=True)
class Decision:
    """One request's fate. Fields that its fault does not use are there and mean nothing."""

    fault: Fault
    ending: Ending = Ending.CLOSED
    seconds: float = 0.0
    """Of a delay."""
    concurrent: bool = False
    """Duplicate: both copies at the same moment, or the second after the first's answer."""
    withheld: bool = False
    """Reorder: the original itself is held back, or it passes and only a copy is held."""
    later: int = 1
    """Reorder: how many later messages of the lane go first."""


class Fates(Protocol):
    def decide(self, lane: str, kind: str, ordinal: int) -> Decision:
        """The fate of the `ordinal`th request of this kind on this lane."""
        ...


@dataclass(frozen=True, slots=True)
class Schedule:
    """The fates of a run. The same seed, lane, kind and ordinal always meet the same one."""

    seed: int
    rates: Rates
    longest_delay: float = 3.0

    def decide(self, lane: str, kind: str, ordinal: int) -> Decision:
        # Seeded by text, not by a running generator: lanes interleave as they like.
        dice = Random(f"{self.seed}/{lane}/{kind}/{ordinal}")
        return Decision(
            fault=self._fault(dice.random()),
            ending=dice.choice(list(Ending)),
            seconds=dice.uniform(0.1, self.longest_delay),
            concurrent=dice.random() < 0.5,
            withheld=dice.random() < 0.5,
            later=dice.randint(1, 4),
        )

    def _fault(self, draw: float) -> Fault:
        threshold = 0.0
        for name, rate in asdict(self.rates).items():
            threshold += rate
            if draw < threshold:
                return Fault[name.upper()]
        return Fault.PASS
