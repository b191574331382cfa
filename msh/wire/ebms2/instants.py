"""xs:dateTime as partners write it (EB-037)."""

import re
from datetime import UTC, datetime, timedelta

from msh.protocol.vocabulary import ErrorCode
from msh.wire.text import shown
from msh.wire.values import Problem

_FORM = re.compile(
    r"(?P<year>-?[0-9]{4,})(?P<day>-[0-9]{2}-[0-9]{2})[Tt]"
    r"(?P<minute>[0-9]{2}:[0-9]{2}):(?P<second>[0-9]{2})(?P<fraction>\.[0-9]+)?"
    r"(?P<zone>[Zz]|[+-][0-9]{2}:[0-9]{2})?"
)
_SOME_LEAP_YEAR = "2000"
_FIRST, _LAST = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
_YEARS = _LAST - _FIRST


def read_instant(text: str) -> tuple[datetime, str]:
    """The time in UTC, and a sentence that goes on after the name of the element if it was read
    leniently: hour 24, second 60, small letters, a year that our time cannot have. Raises Problem.
    """
    try:
        moment, lenient = _read(text)
    except ValueError:
        sentence = f"is {shown(text)}: not CCYY-MM-DDThh:mm:ssZ"
        raise Problem(ErrorCode.VALUE_NOT_RECOGNIZED, sentence) from None
    return moment, f"is {shown(text)}: taken for {moment.isoformat()}" if lenient else ""


def _read(text: str) -> tuple[datetime, bool]:
    found = _FORM.fullmatch(text)
    if found is None:
        raise ValueError
    year, minute, second = found["year"], found["minute"], found["second"]
    fraction, later = found["fraction"] or "", timedelta()
    if (minute, second) == ("24:00", "00") and not fraction.strip(".0"):
        minute, later = "00:00", timedelta(days=1)
    elif second == "60":
        second, later = "59", timedelta(seconds=1)
    far = timedelta()
    if len(year) > 4 or year == "0000":
        year, far = _SOME_LEAP_YEAR, -_YEARS if year[0] in "-0" else _YEARS
    zone = found["zone"] or "Z"
    written = f"{year}{found['day']}T{minute}:{second}{fraction}{zone.upper()}"
    moment = datetime.fromisoformat(written)
    offset = moment.utcoffset() or timedelta()
    moved, is_in_range = _moved(moment.replace(tzinfo=UTC), later - offset + far)
    lenient = bool(later or not is_in_range or zone == "z" or "t" in text)
    return moved, lenient


def _moved(moment: datetime, by: timedelta) -> tuple[datetime, bool]:
    """Return the time that is so much later, but not after the last one that can be represented."""
    try:
        return moment + by, True
    except OverflowError:
        return (_LAST if by > timedelta() else _FIRST), False
