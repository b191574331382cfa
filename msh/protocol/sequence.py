"""Sequence numbers: 1 to 999,999,999, then 1 again (000 §2.2.2)."""

FIRST = 1
LAST = 999_999_999


def following(number: int) -> int:
    return FIRST if number == LAST else number + 1


def preceding(number: int) -> int:
    return LAST if number == FIRST else number - 1


def is_ahead(number: int, of: int) -> bool:
    """True if `number` comes after `of` or is the same, by the shorter way round."""
    return (number - of) % LAST < LAST // 2


def epoch_following(number: int, epoch: int) -> int:
    """The epoch of the number after `number`: it rises where the numbers start again at 1."""
    return epoch + 1 if number == LAST else epoch


def parse(text: str) -> int | None:
    """The number written in 1 to 9 ASCII digits, leading zeros allowed, or None (D32)."""
    if not (len(text) <= 9 and text.isascii() and text.isdigit()):  # "" is no digit
        return None
    return int(text) or None
