"""Times as partners write them."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from msh.wire.ebms2.instants import read_instant
from msh.wire.values import Problem

FIRST, LAST = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)


@pytest.mark.requirement("EB-037")
@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2026-11-26T12:00:00+01:00", datetime(2026, 11, 26, 11, tzinfo=UTC)),
        ("0001-01-01T00:00:00Z", FIRST),
        ("9999-12-31T23:59:59.999999", LAST),
    ],
)
def test_a_usual_time_is_not_noted(text: str, moment: datetime) -> None:
    assert read_instant(text) == (moment, "")


@pytest.mark.requirement("EB-037")
@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2026-11-26T24:00:00Z", datetime(2026, 11, 27, tzinfo=UTC)),
        ("2026-12-31T24:00:00.00-04:00", datetime(2027, 1, 1, 4, tzinfo=UTC)),
        ("2026-11-26T23:59:60Z", datetime(2026, 11, 27, tzinfo=UTC)),
        ("2026-11-26T23:59:60.25", datetime(2026, 11, 27, 0, 0, 0, 250_000, tzinfo=UTC)),
        ("2026-11-26t12:00:00z", datetime(2026, 11, 26, 12, tzinfo=UTC)),
        ("9999-12-31T23:59:59-05:00", LAST),
        ("9999-12-31T24:00:00Z", LAST),
        ("9999-12-31T23:59:60Z", LAST),
        ("0001-01-01T00:00:00+14:00", FIRST),
        ("0000-12-31T00:00:00Z", FIRST),
        ("-0044-03-15T12:00:00", FIRST),
        ("10000-02-29T00:00:00Z", LAST),
        ("292278994-08-17T07:12:55.807Z", LAST),
    ],
)
def test_what_is_read_leniently_is_noted(text: str, moment: datetime) -> None:
    assert read_instant(text) == (moment, f"is {text!r}: taken for {moment.isoformat()}")


@pytest.mark.requirement("EB-037")
@pytest.mark.parametrize(
    "text",
    [
        *("2026-11-26T24:00:01Z", "2026-11-26T24:01:00Z", "2026-11-26T24:00:00.1Z"),
        *("2026-11-26T12:00:61Z", "2026-11-26T25:00:00Z", "2026-11-31T12:00:00Z"),
        *("10000-13-01T00:00:00Z", "2026-11-26T12:00:00+24:00", "2026-11-26 12:00:00"),
        *(
            "\u0662\u0660\u0662\u0666-11-26T12:00:00Z",
            "12026-1-1T00:00:00",
            "",
            "9999-12-31T23:59:59-05:00:00",
        ),
    ],
)
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(Problem):
        read_instant(text)


@pytest.mark.requirement("EB-037")
@given(
    st.datetimes(),
    st.sampled_from(["", "Z", "z", "+14:00", "-14:00", "+00:00", "-23:59"]),
    st.sampled_from(["", "1", "-"]),
)
def test_any_time_of_any_year_and_zone_is_read(naive: datetime, zone: str, before: str) -> None:
    moment, _ = read_instant(f"{before}{naive.isoformat()}{zone}")
    assert FIRST <= moment <= LAST
    assert moment.tzinfo is UTC
