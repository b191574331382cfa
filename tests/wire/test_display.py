"""Foreign bytes shown as text: which charsets are taken, and what the others may cost."""

import bz2
import tracemalloc
import zlib

import pytest

from msh.wire import as_text, indented
from msh.wire.document import MARKUP_LIMIT

ZEROS = b"0" * 50_000_000


@pytest.mark.parametrize(
    ("charset", "content"),
    [("bz2", bz2.compress(ZEROS)), ("zlib", zlib.compress(ZEROS)), ("zip", zlib.compress(ZEROS))],
)
def test_compressed_payload_is_not_unpacked(charset: str, content: bytes) -> None:
    tracemalloc.start()
    try:
        shown = as_text(f"text/plain; charset={charset}", content, 256 * 1024)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert shown is None
    assert peak < 1_000_000


@pytest.mark.parametrize(
    "charset",
    [
        *("bz2", "base64", "hex", "quopri", "uu", "rot13", "punycode", "idna", "undefined"),
        *("unicode_escape", "raw_unicode_escape", "utf-7", "mbcs", "oem", "aliases", "../os", ""),
    ],
)
def test_codec_that_is_no_charset_of_text_is_refused(charset: str) -> None:
    assert as_text(f'text/plain; charset="{charset}"', b"abc-xyz", 100) is None


@pytest.mark.parametrize(
    "charset",
    [
        *("utf-8", "UTF8", "us-ascii", "utf-16", "UTF-16LE", "utf-32be", "iso-8859-1", "latin1"),
        *("ISO_8859-15", "windows-1252", "cp1251", "koi8-r", "Shift_JIS", "gb18030", "euc-kr"),
        *("macintosh", "ibm850", "Big5", "iso-2022-jp"),
    ],
)
def test_charset_of_text_is_shown(charset: str) -> None:
    content = "Order 4711".encode(charset)
    assert as_text(f"text/plain; charset={charset}", content, 100) == "Order 4711"


def test_text_that_is_cut_inside_a_character_is_shown_up_to_it() -> None:
    assert as_text("text/plain", "aü".encode(), 2) == "a"


@pytest.mark.parametrize("content", [b"\xff\xfe\xff", b"a\0b"])
def test_bytes_that_are_no_text_are_not_shown(content: bytes) -> None:
    assert as_text("text/plain", content, 100) is None


def test_xml_is_indented() -> None:
    assert indented(b"<a><b>1</b><b/></a>") == "<a>\n  <b>1</b>\n  <b/>\n</a>\n"


@pytest.mark.parametrize(
    "content",
    [
        b"not XML",
        b"<!DOCTYPE a []><a/>",
        b"<a>" * 200 + b"</a>" * 200,
        b"<a>" + b"<b/>" * MARKUP_LIMIT + b"</a>",
    ],
)
def test_other_content_is_not_indented(content: bytes) -> None:
    assert indented(content) is None
