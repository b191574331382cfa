"""What a wake-up is about."""

from dataclasses import dataclass
from typing import Self

_ALL = "*"


@dataclass(frozen=True, slots=True)
class Names:
    """Partners whose outbound link may have something to send, and signals that were claimed with
    their message. `all`: whatever there is."""

    links: frozenset[int] = frozenset()
    signals: frozenset[int] = frozenset()
    all: bool = False

    def __or__(self, other: "Names") -> "Names":
        both = (self.links | other.links, self.signals | other.signals)
        return Names(*both, self.all or other.all)

    def __bool__(self) -> bool:
        return bool(self.links or self.signals or self.all)

    def token(self) -> str:
        """As an element of the Redis list, such as "l12 s345"; "*" is all."""
        if self.all:
            return _ALL
        links = (f"l{partner_id}" for partner_id in self.links)
        return " ".join((*links, *(f"s{key}" for key in self.signals)))

    @classmethod
    def of_token(cls, token: bytes) -> Self:
        """What cannot be read may mean anything, and so everything."""
        try:
            names = token.decode().split()
            links = frozenset(int(name[1:]) for name in names if name[0] == "l")
            signals = frozenset(int(name[1:]) for name in names if name[0] == "s")
        except ValueError:
            return cls(all=True)
        return cls(links, signals, all=len(links) + len(signals) < len(names))


EVERYTHING = Names(all=True)
NOTHING = Names()
