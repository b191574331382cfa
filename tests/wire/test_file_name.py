"""Labels as file names of parts, and back."""

import re
from email import message_from_bytes, policy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from msh.wire.file_name import FILE_NAME_LIMIT, FileName, disposition, file_name
from msh.wire.parameter import parameters

LONG = "a" * 300 + ".pdf"


@pytest.mark.requirement("EB-051")
@pytest.mark.parametrize(
    ("label", "line"),
    [
        ("order.xml", 'filename="order.xml"'),
        ("an order.xml", 'filename="an order.xml"'),
        ("\xe5.pdf", "filename=\"_.pdf\"; filename*=UTF-8''%C3%A5.pdf"),
        ('a "b".pdf', "filename=\"a _b_.pdf\"; filename*=UTF-8''a%20%22b%22.pdf"),
        ("50%.pdf", "filename=\"50_.pdf\"; filename*=UTF-8''50%25.pdf"),
        ("12/2026\\1.pdf", 'filename="12_2026_1.pdf"'),
        ("a\r\nX-Injected: 1", 'filename="a X-Injected: 1"'),
        ("\u2705\ud800", "filename=\"_\"; filename*=UTF-8''%E2%9C%85"),
    ],
)
def test_a_label_is_written_as_a_file_name(label: str, line: str) -> None:
    assert disposition(label) == f"Content-Disposition: attachment; {line}\r\n"


@pytest.mark.parametrize("label", ["", " ", ".", "..", "\x00"])
def test_a_label_that_says_nothing_is_not_written(label: str) -> None:
    assert disposition(label) == ""


@pytest.mark.requirement("EB-051")
@pytest.mark.parametrize(
    ("came", "label"),
    [
        ("C:\\Users\\x\\letter.pdf", "letter.pdf"),
        ("../../etc/passwd", "passwd"),
        ("..", ""),
        ("a/", ""),
        ("a\x00b\tc\u0085", "a b c"),
        ("=?UTF-8?Q?=C3=A5_1?=\t=?utf-8?b?LnBkZg==?=", "\xe5 1.pdf"),
        ("=?utf-8?b?Li4vYS5wZGY=?=", "a.pdf"),
        ("=?utf-8?b?A?=", "=?utf-8?b?A?="),
        ("=?rot13?b?YQ==?=", "=?rot13?b?YQ==?="),
    ],
)
def test_a_file_name_has_no_path_and_no_control_character(came: str, label: str) -> None:
    assert file_name(came) == FileName(label)


@pytest.mark.requirement("EB-051")
def test_a_long_file_name_is_shortened_and_keeps_its_suffix() -> None:
    assert file_name(LONG) == FileName("a" * 251 + ".pdf", shortened=True)
    assert file_name("a." + "b" * 300) == FileName(f"a.{'b' * 253}", shortened=True)


@pytest.mark.requirement("EB-051")
@given(st.text(max_size=400), st.booleans())
def test_what_is_written_is_read_as_it_was(label: str, in_lines: bool) -> None:
    written = disposition(label, in_lines=in_lines)
    named = parameters(written.replace("\r\n", "")).get("filename", "")
    assert written.isascii()
    assert max(map(len, written.splitlines()), default=0) < (998 if in_lines else 4000)
    assert disposition(named, in_lines=in_lines) == written
    assert len(named) <= FILE_NAME_LIMIT


@pytest.mark.requirement("EB-051")
@pytest.mark.parametrize("in_lines", [False, True])
def test_another_reader_finds_the_same_name(in_lines: bool) -> None:
    name = "\u4e2d\u6587 \u2705 r\xe9sum\xe9.pdf"
    head = disposition(name, in_lines=in_lines).encode() + b"\r\n"
    old: Any = message_from_bytes(head, policy=policy.HTTP)
    assert old.get_filename() == "__ _ r_sum_.pdf"
    new: Any = message_from_bytes(re.sub(rb'\s*filename="[^"]*";', b"", head), policy=policy.HTTP)
    assert new.get_filename() == name


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a; filename=x", "x"),
        ("a; filename*=UTF-8'en'%C3%A5; filename=x", "\xe5"),
        ("a; filename=x; filename*=iso-8859-1''%e5", "\xe5"),
        ("a; filename=x; filename*=klingon''%e5", "x"),
        ("a; filename=x; filename*=UTF-8''%e5", "x"),
        ('a; filename*1=" b"; filename*0="a"; filename*2*=%20c', "a b c"),
        ("a; filename*0*=UTF-8''%C3; filename*1*=%A5; filename*2=%41", "\xe5%41"),
        ("a; filename*1=b; filename=x", "x"),
        ("a; FileName*0=a; filename*0=b", "a"),
    ],
)
def test_pieces_and_charsets_are_put_together(text: str, found: str) -> None:
    """RFC 2231, RFC 5987."""
    assert parameters(text)["filename"] == found


@pytest.mark.parametrize("came", ["a" * 1_000_000, "=?utf-8?b?" * 100_000, "\\" * 1_000_000])
def test_a_file_name_is_read_once_however_long(came: str) -> None:
    assert len(file_name(came).text) <= FILE_NAME_LIMIT
