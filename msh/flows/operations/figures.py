"""Figures as text."""

from datetime import timedelta
from math import floor, log10


def seconds_text(seconds: float) -> str:
    """With the two digits that the error of the statistics leaves: "230 ms", "4.2 min"."""
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1)):
        if seconds >= length:
            return f"{_two_digits(seconds / length)} {unit}"
    return f"{_two_digits(seconds * 1000)} ms"


def _two_digits(value: float) -> str:
    places = 1 - floor(log10(value)) if value else 0
    return f"{round(value, places):.{max(places, 0)}f}"


def duration_text(length: timedelta) -> str:
    """In its two largest units: "3 h 12 min"."""
    seconds = round(length.total_seconds())
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86_400
    if days:
        return f"{days} d {hours % 24} h"
    if hours:
        return f"{hours} h {minutes % 60} min"
    return f"{minutes} min" if minutes else f"{seconds} s"


def count_text(number: int, one: str, many: str = "") -> str:
    """ "1 message", "1,204 messages", "no messages"."""
    if number == 1:
        return f"1 {one}"
    return f"{f'{number:,}' if number else 'no'} {many or one + 's'}"
