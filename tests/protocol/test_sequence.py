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
