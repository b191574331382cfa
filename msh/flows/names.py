"""What a wake-up is about."""

from dataclasses import dataclass
from typing import NamedTuple, Self

_ALL = "*"


class Ready(NamedTuple):
    """A copy that is composed and may be claimed at once, as long as its link is in this `version`.
    `key` is the row of the message; `attempt`, and the seconds that a POST and the claim may take,
    are what the claim of this version decides."""

    partner_id: int
    version: int
    key: int
    attempt: int
    deadline: float
    due_in: float

    def token(self) -> str:
        return "r" + ":".join(map(repr, self))

    @classmethod
    def of_token(cls, token: str) -> Self:
        """Raises ValueError."""
        partner_id, version, key, attempt, deadline, due_in = token[1:].split(":")
        numbers = (int(partner_id), int(version), int(key), int(attempt))
        return cls(*numbers, float(deadline), float(due_in))


@dataclass(frozen=True, slots=True)
class Names:
    """Partners whose outbound link may have something to send, signals that were claimed with their
    message, partners to whom flights may leave, and copies that are ready. `all`: whatever there
    is."""

    links: frozenset[int] = frozenset()
    signals: frozenset[int] = frozenset()
    all: bool = False
    flights: frozenset[int] = frozenset()
    ready: frozenset[Ready] = frozenset()

    def __or__(self, other: "Names") -> "Names":
        return Names(
            self.links | other.links,
            self.signals | other.signals,
            self.all or other.all,
            self.flights | other.flights,
            self.ready | other.ready,
        )

    def __bool__(self) -> bool:
        return bool(self.links or self.signals or self.all or self.flights or self.ready)

    def token(self) -> str:
        """As an element of the Redis list, such as "l12 s345"; "*" is all."""
        if self.all:
            return _ALL
        return " ".join(
            (
                *(f"l{partner_id}" for partner_id in self.links),
                *(f"s{key}" for key in self.signals),
                *(f"f{partner_id}" for partner_id in self.flights),
                *(one.token() for one in self.ready),
            )
        )

    @classmethod
    def of_token(cls, token: bytes) -> Self:
        """What cannot be read may mean anything, and so everything."""
        try:
            names = token.decode().split()
            links = frozenset(int(name[1:]) for name in names if name[0] == "l")
            signals = frozenset(int(name[1:]) for name in names if name[0] == "s")
            flights = frozenset(int(name[1:]) for name in names if name[0] == "f")
            ready = frozenset(Ready.of_token(name) for name in names if name[0] == "r")
        except ValueError:
            return cls(all=True)
        known = len(links) + len(signals) + len(flights) + len(ready)
        return cls(links, signals, all=known < len(names), flights=flights, ready=ready)


EVERYTHING = Names(all=True)
NOTHING = Names()
