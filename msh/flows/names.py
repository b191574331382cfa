"""What a wake-up is about."""

from dataclasses import dataclass
from typing import Self

_ALL = "*"


@dataclass(frozen=True, slots=True)
class Names:
    """Partners whose outbound link may have something to send, signals that were claimed with their
    message, and partners to whom flights may be ready. `all`: whatever there is."""

    links: frozenset[int] = frozenset()
    signals: frozenset[int] = frozenset()
    all: bool = False
    flights: frozenset[int] = frozenset()

    def __or__(self, other: "Names") -> "Names":
        both = (self.links | other.links, self.signals | other.signals)
        return Names(*both, self.all or other.all, self.flights | other.flights)

    def __bool__(self) -> bool:
        return bool(self.links or self.signals or self.all or self.flights)

    def token(self) -> str:
        """As an element of the Redis list, such as "l12 s345"; "*" is all."""
        if self.all:
            return _ALL
        links = (f"l{partner_id}" for partner_id in self.links)
        flights = (f"f{partner_id}" for partner_id in self.flights)
        return " ".join((*links, *(f"s{key}" for key in self.signals), *flights))

    @classmethod
    def of_token(cls, token: bytes) -> Self:
        """What cannot be read may mean anything, and so everything."""
        try:
            names = token.decode().split()
            links = frozenset(int(name[1:]) for name in names if name[0] == "l")
            signals = frozenset(int(name[1:]) for name in names if name[0] == "s")
            flights = frozenset(int(name[1:]) for name in names if name[0] == "f")
        except ValueError:
            return cls(all=True)
        known = len(links) + len(signals) + len(flights)
        return cls(links, signals, all=known < len(names), flights=flights)


EVERYTHING = Names(all=True)
NOTHING = Names()
