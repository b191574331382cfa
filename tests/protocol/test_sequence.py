"""Sequence numbers: what is one, and what follows it."""

import pytest

from msh.protocol import sequence


@pytest.mark.requirement("000-043", "000-046")
@pytest.mark.parametrize(
    ("number", "following", "epoch"),
    [(1, 2, 7), (41, 42, 7), (999_999_998, 999_999_999, 7), (999_999_999, 1, 8)],
)
def test_following_wraps_around_into_a_new_epoch(number: int, following: int, epoch: int) -> None:
    assert sequence.following(number) == following
    assert sequence.epoch_following(number, 7) == epoch


@pytest.mark.parametrize(
    ("number", "preceding"), [(1, 999_999_999), (2, 1), (999_999_999, 999_999_998)]
)
def test_preceding_wraps_around(number: int, preceding: int) -> None:
    assert sequence.preceding(number) == preceding


@pytest.mark.parametrize(
    ("number", "of", "ahead"),
    [
        *((5, 5, True), (6, 5, True), (5, 6, False)),
        *((1, 999_999_999, True), (999_999_999, 1, False)),
        *((499_999_999, 1, True), (500_000_000, 1, False)),
    ],
)
def test_a_number_is_ahead_by_the_shorter_way_round(number: int, of: int, ahead: bool) -> None:
    assert sequence.is_ahead(number, of) is ahead


@pytest.mark.requirement("000-044")
@pytest.mark.parametrize(
    ("text", "number"),
    [("1", 1), ("23", 23), ("000000023", 23), ("999999999", 999_999_999), ("000000001", 1)],
)
def test_parse_reads_one_to_nine_digits(text: str, number: int) -> None:
    assert sequence.parse(text) == number


@pytest.mark.requirement("000-044")
@pytest.mark.parametrize(
    "text",
    [
        *("", "0", "000000000", "1000000000", "0000000001"),
        *("-1", "+1", "1.0", "1e3", " 1", "1_0", "x"),
        *("\u0661", "\u00b2", "\uff11"),
    ],
    ids=ascii,
)
def test_parse_refuses_everything_else(text: str) -> None:
    """Arabic-Indic, superscript and full-width digits too: ASCII numerals only."""
    assert sequence.parse(text) is None
