"""MessageIds of key columns: the same for the same values, and only for them."""

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_bridge.message import message_id_of
from spark_bridge.options import Ids

IDS = Ids(key_columns=("key",), job_id="job")
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "decimal(38,18)": st.integers(-(10**38) + 1, 10**38 - 1).map(
        lambda unscaled: Decimal(unscaled).scaleb(-18)
    ),
    "timestamp": st.datetimes(timezones=st.just(UTC)),
    "date": st.dates(),
    "bigint": st.integers(-(2**63), 2**63 - 1),
    "binary": st.binary(),
    "string": st.text(),
}


def message_id(value: Any) -> str:
    return message_id_of({"key": value}, IDS)


@pytest.mark.requirement("001-05")
@given(pair=st.one_of(*(st.tuples(values, values) for values in VALUES.values())))
def test_only_the_same_values_have_the_same_id(pair: tuple[Any, Any]) -> None:
    assert (message_id(pair[0]) == message_id(pair[1])) == (pair[0] == pair[1])


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (Decimal("1" * 29 + ".1"), Decimal("1" * 29 + ".2")),
        (Decimal(10), Decimal(1)),
        (
            datetime(1970, 1, 1, 0, 0, 0, 500_000, UTC),
            datetime(1969, 12, 31, 23, 59, 59, 500_000, UTC),
        ),
    ],
)
def test_neighbours(one: Any, other: Any) -> None:
    assert message_id(one) != message_id(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (Decimal("1.00"), Decimal(1)),
        (Decimal(100), Decimal("1E+2")),
        (Decimal(1), "1"),
        (1, "1"),
        (date(2026, 11, 21), "2026-11-21"),
        (
            datetime(2026, 11, 21, 8, tzinfo=UTC),
            datetime(2026, 11, 21, 10, tzinfo=timezone(timedelta(hours=2))),
        ),
        # As a function of Spark's gets it: in the time zone of the machine.
        (
            datetime(2026, 11, 21, 8, tzinfo=UTC),
            datetime(2026, 11, 21, 8, tzinfo=UTC).astimezone().replace(tzinfo=None),
        ),
    ],
)
def test_same_value(one: Any, other: Any) -> None:
    assert message_id(one) == message_id(other)


def test_bytes_are_the_same_however_spark_gives_them() -> None:
    assert message_id(bytearray(b"\x00\xff")) == message_id(b"\x00\xff")


def test_first_moment_has_an_id_in_every_zone() -> None:
    east = timezone(timedelta(hours=14))
    first = datetime(1, 1, 1, tzinfo=east)
    assert message_id(first) != message_id(first + timedelta(microseconds=1))


@pytest.mark.parametrize(
    ("one", "other"),
    [("\u00e9", "e\u0301"), (date(2026, 1, 1), datetime(2026, 1, 1, tzinfo=UTC)), ("a", "a ")],
)
def test_what_looks_alike_has_another_id(one: Any, other: Any) -> None:
    """Composed and decomposed letters, another type, a blank: docs/spark.md says so."""
    assert message_id(one) != message_id(other)


def test_order_of_the_key_columns_is_part_of_the_id() -> None:
    row = {"a": 1, "b": 2}
    ids = [Ids(key_columns=names, job_id="job") for names in (("a", "b"), ("b", "a"))]
    assert message_id_of(row, ids[0]) != message_id_of(row, ids[1])


def test_id_is_the_same_in_every_run_and_another_in_every_job() -> None:
    expected = "job.455deb396aa0ff4105ee823fb415d3ee7059df43"
    assert message_id(1) == expected
    assert message_id_of({"key": 1}, replace(IDS, job_id="other"))[-40:] != expected[-40:]
