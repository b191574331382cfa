"""Quiet hours, by the clock on the wall: nights, weekends, other zones, and clocks that are set."""

from datetime import UTC, datetime, time, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from msh.alerts.rules.quiet import EVERY_DAY, QuietHours, never_end, quiet_until

AMSTERDAM, NEW_YORK, LORD_HOWE = "Europe/Amsterdam", "America/New_York", "Australia/Lord_Howe"
WEEKDAYS, WEEKEND = frozenset(range(1, 6)), frozenset({6, 7})
NIGHT = QuietHours(AMSTERDAM, time(22), time(7))
NOON = QuietHours(AMSTERDAM, time(12), time(13, 10))
WORKING = QuietHours(AMSTERDAM, time(18), time(8), all_day=WEEKEND)
ABROAD = QuietHours(NEW_YORK, time(22), time(7))
SMALL_HOURS = QuietHours(AMSTERDAM, time(1), time(2, 30))


def at(text: str, zone: str = AMSTERDAM, fold: int = 0) -> datetime:
    local = datetime.fromisoformat(f"2026-{text}").replace(tzinfo=ZoneInfo(zone), fold=fold)
    return local.astimezone(UTC)


@pytest.mark.parametrize(
    ("hours", "now", "until"),
    [
        (NIGHT, at("11-23 21:59"), None),
        (NIGHT, at("11-23 22:00"), at("11-24 07:00")),
        (NIGHT, at("11-24 06:59:59"), at("11-24 07:00")),
        (NIGHT, at("11-24 07:00"), None),
        (NOON, at("11-23 12:30"), at("11-23 13:10")),
        (NOON, at("11-23 13:10"), None),
        # Monday 23 November 2026; from Friday evening to Monday morning it is one quiet.
        (WORKING, at("11-27 17:59"), None),
        (WORKING, at("11-27 18:00"), at("11-30 08:00")),
        (WORKING, at("11-29 12:00"), at("11-30 08:00")),
        (WORKING, at("11-30 12:00"), None),
        (QuietHours(AMSTERDAM, time(18), time(8), WEEKDAYS), at("11-28 12:00"), None),
        (QuietHours(AMSTERDAM, time(18), time(8), WEEKDAYS), at("11-28 07:00"), at("11-28 08:00")),
        (QuietHours(AMSTERDAM, time(18), time(8), WEEKDAYS), at("11-30 07:00"), None),
        (QuietHours(AMSTERDAM, all_day=WEEKEND), at("11-28 00:00"), at("11-30 00:00")),
        # In New York it is evening when the night is over in Amsterdam.
        (ABROAD, at("11-24 03:59"), None),
        (ABROAD, at("11-24 04:00"), at("11-24 13:00")),
        # 29 March 2026: 02:00 is 03:00. The night has 8 hours; 02:30 is not there.
        (NIGHT, at("03-28 22:00"), at("03-28 22:00") + timedelta(hours=8)),
        (SMALL_HOURS, at("03-29 01:30"), at("03-29 03:00")),
        # 25 October 2026: 03:00 is 02:00. The night has 10 hours; 02:10 is quiet twice.
        (NIGHT, at("10-24 22:00"), at("10-24 22:00") + timedelta(hours=10)),
        (SMALL_HOURS, at("10-25 02:10"), at("10-25 02:30")),
        (SMALL_HOURS, at("10-25 02:40"), None),
        (SMALL_HOURS, at("10-25 02:10", fold=1), at("10-25 02:30", fold=1)),
    ],
)
def test_quiet_until(hours: QuietHours, now: datetime, until: datetime | None) -> None:
    assert quiet_until(hours, now) == until


@pytest.mark.parametrize(
    ("hours", "never"),
    [
        (QuietHours(AMSTERDAM, all_day=EVERY_DAY), True),
        (QuietHours(AMSTERDAM, time(8), time(8)), True),
        (QuietHours(AMSTERDAM, time(8), time(8), WEEKDAYS, WEEKEND), True),
        (QuietHours(AMSTERDAM, time(8), time(8), WEEKDAYS), False),
        (QuietHours(AMSTERDAM, all_day=EVERY_DAY - {3}), False),
        (WORKING, False),
    ],
)
def test_quiet_hours_that_never_end(hours: QuietHours, never: bool) -> None:
    assert never_end(hours) == never


minutes = st.times().map(lambda at: at.replace(second=0, microsecond=0))
weekdays = st.frozensets(st.integers(1, 7), max_size=6)


@given(
    hours=st.builds(
        QuietHours, st.sampled_from([AMSTERDAM, NEW_YORK, LORD_HOWE]),
        minutes, minutes, weekdays, weekdays,
    ),
    now=st.integers(0, 365 * 86_400).map(lambda second: at("01-01") + timedelta(seconds=second)),
    part=st.floats(0, 1, exclude_max=True),
)  # fmt: skip
def test_it_is_quiet_until_then_and_not_any_more(
    hours: QuietHours, now: datetime, part: float
) -> None:
    until = quiet_until(hours, now)
    if until is None:
        assert not hours.contain(now)
    elif not never_end(hours):
        assert hours.contain(min(now + (until - now) * part, until - datetime.resolution))
        assert not hours.contain(until)
