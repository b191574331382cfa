"""Values of documents by XPath: which paths are accepted, what is found, and what is not read."""

import time

import pytest

from msh.protocol.business_keys import SIZE_LIMIT, PathRefused
from msh.wire.business_keys import MARKUP_LIMIT, VALUES_LIMIT, document_of, key_path

UBL = "i=urn:example:invoice\nc = no\n".replace("c = no\n", "c=urn:example:common")
INVOICE = b"""<?xml version="1.0"?>
<Invoice xmlns="urn:example:invoice" xmlns:x="urn:example:common" currency="EUR">
  <x:ID> INV-<!-- split -->2026-1
  </x:ID><Line n="1"><x:Item type="a">bolt</x:Item></Line><Line n="2"><x:Item>nut</x:Item></Line>
</Invoice>"""


def found(path: str, document: bytes = INVOICE, namespaces: str = UBL) -> list[str]:
    root = document_of(document)
    assert root is not None
    return key_path(path, namespaces).values(root)


@pytest.mark.parametrize(
    ("path", "values"),
    [
        ("/i:Invoice/c:ID", ["INV-2026-1"]),
        ("//c:ID", ["INV-2026-1"]),
        ("/i:Invoice/@currency", ["EUR"]),
        ("/*/i:Line/c:Item", ["bolt", "nut"]),
        ("/*/i:Line[2]/c:Item/text()", ["nut"]),
        ("//c:Item[@type='a']", ["bolt"]),
        ('/*/i:Line[c:Item="nut"]/@n', ["2"]),
        ("/Invoice/ID", []),
    ],
)
def test_a_path_finds_its_values(path: str, values: list[str]) -> None:
    assert found(path) == values


@pytest.mark.parametrize(
    "path",
    [
        "c:ID",
        "//c:ID//i:Line",
        "/a[.//b = .//c]",
        "//*[count(//*) > 1]",
        "/a/../b",
        "/a/following::b",
        "/a | /b",
        "/a[1][2]",
        "document('x')",
        "/unknown:ID",
        "/a" * 21,
        "/" + "a" * 500,
        "/a[b='x' or 1]",
        "",
    ],
)
def test_what_could_take_long_or_cannot_be_evaluated_is_refused(path: str) -> None:
    with pytest.raises(PathRefused):
        key_path(path, UBL)


def test_a_namespace_that_is_none_is_named() -> None:
    with pytest.raises(PathRefused, match="c is not a namespace"):
        key_path("/c:ID", "c")


@pytest.mark.parametrize(
    "document",
    [
        b"",
        b"no XML",
        b"<a>",
        b"%PDF-1.7 <a/>",
        b'<!DOCTYPE a [<!ENTITY e "x">]><a>&e;</a>',
        b"<a>" + b"<b/>" * MARKUP_LIMIT + b"</a>",
        b"<a>" * 200 + b"</a>" * 200,
        b"<a>" + b" " * SIZE_LIMIT + b"</a>",
        b'<?xml version="1.0" encoding="UTF-7"?><a>+ADw-</a>',
        b'<?xml version="1.0" encoding="bz2"?><a/>',
        b"<a>\xff</a>",
    ],
)
def test_what_cannot_be_read_has_no_keys(document: bytes) -> None:
    assert document_of(document) is None


@pytest.mark.parametrize("charset", ["utf-8", "iso-8859-1", "utf-16", "utf-8-sig", "windows-1252"])
def test_common_charsets_are_read(charset: str) -> None:
    document = f'<?xml version="1.0" encoding="{charset}"?><a>Zürich 7</a>'.encode(charset)
    assert found("/a", document) == ["Zürich 7"]


def test_values_are_bounded_in_number_and_length() -> None:
    many = b"<a>" + b"".join(b"<b>%d</b>" % n for n in range(100)) + b"</a>"
    assert found("/a/b", many) == [str(n) for n in range(VALUES_LIMIT)]
    assert found("//b", b"<a><b>%s</b><b>  </b><b>7</b><b>7</b></a>" % (b"x" * 201)) == ["7"]


def test_the_largest_document_is_searched_in_bounded_time() -> None:
    """CPU time, so that a busy machine does not matter: it takes 0.1 s."""
    document = b"<a>" + b"<b>x</b>" * (MARKUP_LIMIT // 2 - 2) + b"</a>"
    began = time.process_time()
    assert found("//b[c='1']/d", document) == []
    assert time.process_time() - began < 5
