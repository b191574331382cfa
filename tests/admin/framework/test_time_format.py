"""Times and durations in words."""

from datetime import UTC, datetime, timedelta

import pytest

from msh.admin.framework.time_format import format_duration, format_seconds, format_time

NOW = datetime(2026, 11, 21, 14, 5, tzinfo=UTC)


def test_a_time_of_another_day_has_its_date() -> None:
    assert format_time(NOW, NOW) == "14:05:00 UTC"
    assert format_time(NOW - timedelta(days=1), NOW) == "2026-11-20 14:05:00 UTC"


@pytest.mark.parametrize(
    ("length", "words"),
    [
        (timedelta(seconds=-3), "0 s"),
        (timedelta(seconds=59), "59 s"),
        (timedelta(seconds=60), "1 min"),
        (timedelta(hours=3, minutes=12), "3 h 12 min"),
        (timedelta(days=2, hours=5), "2 d 5 h"),
    ],
)
def test_duration_has_its_two_largest_units(length: timedelta, words: str) -> None:
    assert format_duration(NOW, NOW + length) == words


@pytest.mark.parametrize(
    ("count", "words"),
    [(60, "60 s"), (90, "90 s"), (120, "2 min"), (7_200, "2 h"), (7_201, "7201 s")],
)
def test_seconds_stay_exact(count: int, words: str) -> None:
    assert format_seconds(count) == words
