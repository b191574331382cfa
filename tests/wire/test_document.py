"""Bytes to an XML element: what lxml takes, and what is kept from it."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from msh.protocol.errors import Unreadable
from msh.wire import document
from msh.wire.document import DEPTH_LIMIT, MARKUP_LIMIT


@pytest.fixture
def refused() -> Callable[[bytes], str]:
    def refused(text: bytes) -> str:
        with pytest.raises(Unreadable) as caught:
            document.parse(text)
        assert caught.value.status == 400
        reason = str(caught.value)
        assert reason.isascii()
        assert "\n" not in reason
        return reason

    return refused


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"   ",
        b"not xml",
        b"<a>",
        b"<a></b>",
        b"<a/><b/>",
        b'<a b="1" b="2"/>',
        b"<x:a/>",
        b"<a>\x00</a>",
        b"<a>&#0;</a>",
        b"<a>&#xD800;</a>",
        b"<a>&nbsp;</a>",
        b'<?xml version="1.1"?><a>&#1;</a>',
        b"%PDF-1.4",
    ],
)
def test_invalid_xml_is_refused(text: bytes, refused: Callable[[bytes], str]) -> None:
    assert "not XML" in refused(text)


def test_a_name_in_the_reason_is_quoted(refused: Callable[[bytes], str]) -> None:
    refused("<\u4e2d\u4e2d></a>".encode())


@pytest.mark.parametrize("declared", ["UTF-8", "utf-8", "US-ASCII"])
def test_utf_8_is_taken_declared_or_not_and_with_a_byte_order_mark(declared: str) -> None:
    """D59."""
    text = f'<?xml version="1.0" encoding="{declared}"?><a>\u4e2d</a>'.encode()
    assert document.parse(text).text == "\u4e2d"
    assert document.parse(b"\xef\xbb\xbf" + text).text == "\u4e2d"
    assert document.parse("<a>\u4e2d</a>".encode()).text == "\u4e2d"


@pytest.mark.parametrize(
    "text",
    [
        b'<?xml version="1.0" encoding="ISO-8859-1"?><a>\xe9</a>',
        b"<?xml version='1.0' encoding='ISO-8859-1'?><a>\xc3\xa9</a>",
        b'<?xml version="1.0" encoding="UTF-7"?><a>+ADwAIQ-DOCTYPE+AD4-</a>',
        b'<?xml version = "1.0" encoding = "utf-16"?><a/>',
        '<?xml version="1.0" encoding="UTF-16"?><a/>'.encode("utf-16"),
        "<a/>".encode("utf-16-le"),
        "<a/>".encode("utf-32"),
        b"\xef\xbb\xbf<?xml version='1.0' encoding='ISO-8859-1'?><a/>",
        b"<a>\xff</a>",
        b"<a>\xc0\xaf</a>",
        b"<a>\xed\xa0\x80</a>",
    ],
)
def test_any_other_encoding_is_refused(text: bytes, refused: Callable[[bytes], str]) -> None:
    """D59."""
    refused(text)


BILLION_LAUGHS = b"""<?xml version="1.0"?>
<!DOCTYPE a [
 <!ENTITY b "ha">
 <!ENTITY c "&b;&b;&b;&b;&b;&b;&b;&b;&b;&b;">
 <!ENTITY d "&c;&c;&c;&c;&c;&c;&c;&c;&c;&c;">
]><a>&d;</a>"""


@pytest.mark.parametrize(
    "text",
    [
        b"<!DOCTYPE a><a/>",
        BILLION_LAUGHS,
        b'<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]><a>&x;</a>',
        b'<!DOCTYPE a SYSTEM "http://192.0.2.1/a.dtd"><a/>',
        b'<!DOCTYPE a [<!ENTITY x "y">]><a b="&x;"/>',
        b'<!DOCTYPE a [<!ENTITY % p SYSTEM "file:///etc/passwd"> %p;]><a/>',
    ],
)
def test_a_doctype_is_refused(text: bytes, refused: Callable[[bytes], str]) -> None:
    assert "DOCTYPE" in refused(text)


def test_external_references_are_not_followed(tmp_path: Path) -> None:
    secret = tmp_path / "secret.xml"
    secret.write_text("<secret/>")
    text = (
        f'<a xmlns:xi="http://www.w3.org/2001/XInclude" xml:base="{tmp_path}/">'
        f'<xi:include href="{secret}"/><?xml-stylesheet href="{secret}"?></a>'
    )
    root = document.parse(text.encode())
    assert [child.tag for child in root] == ["{http://www.w3.org/2001/XInclude}include"]
    assert len(root[0]) == 0


def test_comments_instructions_and_cdata_do_not_split_a_value() -> None:
    root = document.parse(b"<?a?><!-- --><a>or<!-- x -->de<?pi y?>r<![CDATA[-<&>]]>1</a><!-- -->")
    assert root.text == "order-<&>1"
    assert len(root) == 0


def test_depth_is_limited(refused: Callable[[bytes], str]) -> None:
    """D60."""
    document.parse(b"<a>" * DEPTH_LIMIT + b"</a>" * DEPTH_LIMIT)
    for depth in (DEPTH_LIMIT + 1, 300, 20_000):
        refused(b"<a>" * depth + b"</a>" * depth)


HOSTILE = {
    "elements": b"<r>" + b"<a/>" * 250_000 + b"</r>",
    "attributes": b"<r>" + b"<h %b/>" % b" ".join(b'a%d=""' % n for n in range(90_000)) + b"</r>",
    "prefixed attributes": b"<r %b/>"
    % b" ".join(b'xmlns:a%d="u:%d" a%d:q=""' % (n, n, n) for n in range(25_000)),
    "namespaces": b"<r %b/>" % b" ".join(b'xmlns:a%d="u:%d"' % (n, n) for n in range(45_000)),
    "unclosed": b"<a " * 300_000,
    "comments": b"<r>" + b"a<!---->" * 130_000 + b"</r>",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_flood_of_markup_is_refused_at_once(name: str, refused: Callable[[bytes], str]) -> None:
    started = time.process_time()
    refused(HOSTILE[name])
    assert time.process_time() - started < 0.5


def test_the_worst_document_within_the_limits_is_canonicalised_in_time() -> None:
    """lxml needs quadratic time for the attributes of one element."""
    count = MARKUP_LIMIT // 3 - 2
    names = b" ".join(b'xmlns:a%d="u:%d" a%d:q=""' % (n, n, n) for n in range(count // 2))
    more = b" ".join(b'b%d=""' % n for n in range(count // 2))
    root = document.parse(b"<r %b %b/>" % (names, more))
    started = time.process_time()
    document.canonical(root)
    assert time.process_time() - started < 5


def test_canonical_is_the_same_for_every_way_to_write_an_element() -> None:
    one = document.parse(b'<a xmlns="u:1" y="2" x="1"><b/><c>d</c></a>')
    other = document.parse(
        b"<?xml version='1.0'?>\n<a  x='&#49;' xmlns='u:1' y='2'>\n  <b></b><!-- -->\n"
        b"  <c><![CDATA[d]]></c>\n</a>"
    )
    assert document.canonical(one) == document.canonical(other)


@pytest.mark.parametrize(
    "text",
    [
        b'<a xmlns="u:1" y="2" x="1"><b/><c>D</c></a>',
        b'<a xmlns="u:2" y="2" x="1"><b/><c>d</c></a>',
        b'<a xmlns="u:1" y="3" x="1"><b/><c>d</c></a>',
        b'<a xmlns="u:1" y="2" x="1"><c>d</c><b/></a>',
    ],
)
def test_canonical_differs_where_the_element_does(text: bytes) -> None:
    one = document.parse(b'<a xmlns="u:1" y="2" x="1"><b/><c>d</c></a>')
    assert document.canonical(document.parse(text)) != document.canonical(one)


def test_a_relative_namespace_has_no_canonical_form() -> None:
    root = document.parse(b'<a xmlns:b="relative"><b:c/></a>')
    with pytest.raises(Unreadable, match="relative namespace"):
        document.canonical(root)
