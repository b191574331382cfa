"""What a wake-up is about."""

from dataclasses import dataclass
from typing import NamedTuple, Self

from django.conf import settings

_ALL = "*"
_LARGEST_ID, _LARGEST_ATTEMPT = 2**63 - 1, 2**31 - 1
"""The largest values of the columns. Anybody who can write to Redis may send others."""


def _id(text: str, largest: int = _LARGEST_ID) -> int:
    """Raises ValueError for what no row has."""
    number = int(text)
    if not 0 <= number <= largest:
        raise ValueError(f"{text} is no id")
    return number


class Promise(NamedTuple):
    """A copy that is composed and promised to who reads this. `key` is the row of the message,
    `deadline` the seconds that the POST may take."""

    partner_id: int
    key: int
    attempt: int
    deadline: float

    def token(self) -> str:
        return "p" + ":".join(map(repr, self))

    @classmethod
    def of_token(cls, token: str) -> Self:
        """Raises ValueError, also for a deadline that no POST of ours has."""
        partner_id, key, attempt, text = token[1:].split(":")
        deadline = float(text)
        if not 0 < deadline <= settings.MSH_HTTP_DEADLINE:  # false for nan
            raise ValueError(f"a POST has no deadline of {text} s")
        return cls(_id(partner_id), _id(key), _id(attempt, _LARGEST_ATTEMPT), deadline)


@dataclass(frozen=True, slots=True)
class Hints:
    """Partners whose outbound link may have something to send, signals that were claimed with their
    message, partners to whom flights may leave, and copies that were promised. `all`: whatever a
    poll finds, which is nothing that is claimed or promised: beside it these hints count."""

    links: frozenset[int] = frozenset()
    signals: frozenset[int] = frozenset()
    all: bool = False
    flights: frozenset[int] = frozenset()
    promised: frozenset[Promise] = frozenset()

    def __or__(self, other: "Hints") -> "Hints":
        return Hints(
            self.links | other.links,
            self.signals | other.signals,
            self.all or other.all,
            self.flights | other.flights,
            self.promised | other.promised,
        )

    def __bool__(self) -> bool:
        return bool(self.links or self.signals or self.all or self.flights or self.promised)

    def token(self) -> str:
        """Return the element of the Redis list, such as "l12 s345"; "*" means everything."""
        return " ".join(
            (
                *([_ALL] if self.all else []),
                *(f"l{partner_id}" for partner_id in self.links),
                *(f"s{key}" for key in self.signals),
                *(f"f{partner_id}" for partner_id in self.flights),
                *(one.token() for one in self.promised),
            )
        )

    @classmethod
    def of_token(cls, token: bytes) -> Self:
        """Parse an element of the Redis list. One that cannot be read counts as "everything"."""
        try:
            hints = token.decode().split()
            links = frozenset(_id(name[1:]) for name in hints if name[0] == "l")
            signals = frozenset(_id(name[1:]) for name in hints if name[0] == "s")
            flights = frozenset(_id(name[1:]) for name in hints if name[0] == "f")
            promised = frozenset(Promise.of_token(name) for name in hints if name[0] == "p")
        except ValueError:
            return cls(all=True)
        known = len(links) + len(signals) + len(flights) + len(promised)
        return cls(links, signals, all=known < len(hints), flights=flights, promised=promised)


EVERYTHING = Hints(all=True)
NOTHING = Hints()
