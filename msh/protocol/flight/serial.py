"""Numbers of MessageOrder: 0 to 99,999,999, then 0 again, for each conversation (EB-121)."""

from dataclasses import dataclass

FIRST = 0
LAST = 99_999_999
_COUNT = LAST + 1


@dataclass(frozen=True, slots=True)
class Order:
    """MessageOrder of one message. `resets`: its status is Reset, else Continue."""

    number: int
    resets: bool = False


def following(number: int) -> int:
    return (number + 1) % _COUNT


def distance(number: int, of: int) -> int:
    """Return how far `number` is ahead of `of`, by the shorter way round the circle of numbers;
    negative if it is behind."""
    ahead = (number - of) % _COUNT
    return ahead if ahead <= _COUNT // 2 else ahead - _COUNT


def is_behind(number: int, of: int) -> bool:
    """Less than 50,000,000 behind is lower, anything else is higher."""
    return 0 < (of - number) % _COUNT < _COUNT // 2
