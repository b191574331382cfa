"""Text as every dialect treats it."""

import pytest

from msh.wire.text import has_control, prose, shown, trimmed


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("  a b\t", "a b"),
        ("\r\n  a\r\nb\nc\rd\r\n", "a b c d"),
        ("\n\t \r", ""),
        ("a\tb", "a\tb"),
        ("\u00a0a\u00a0", "\u00a0a\u00a0"),
        ("\x85a\x1c", "\x85a\x1c"),
    ],
    ids=ascii,
)
def test_trimmed_takes_off_only_the_white_space_of_xml(text: str, expected: str) -> None:
    """D61. Two ids that differ in a no-break space stay two ids."""
    assert trimmed(text) == expected


@pytest.mark.parametrize("text", ["a\tb", "\x00", "\x7f", "\x85", "\x9f", "\ud800", "\ufffe"])
def test_has_control_finds_what_no_value_may_hold(text: str) -> None:
    assert has_control(text)


@pytest.mark.parametrize(
    "text", ["", "a b", "\u00a0", "caf\u00e9 \u4e2d \U0001f600", "\u200e\u2028"]
)
def test_has_control_passes_every_other_character(text: str) -> None:
    assert not has_control(text)


def test_prose_is_one_line_without_control_characters() -> None:
    assert prose("\n one\r\ntwo\tthree\x00 ") == "one two three"


@pytest.mark.parametrize("text", ["a\nb", "\u4e2d\r\nX-Injected: 1", "x" * 10_000, "\ud800"])
def test_shown_fits_one_short_line_of_ascii(text: str) -> None:
    quoted = shown(text)
    assert quoted.isascii()
    assert quoted.isprintable()
    assert len(quoted) < 700
