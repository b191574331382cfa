"""Bytes to an XML element, hardened: whatever a peer sends, time and memory stay bounded."""

import re

from lxml import etree

from msh.protocol.errors import Unreadable

from .text import shown

DEPTH_LIMIT = 100  # elements in one another; a header needs fewer than ten
MARKUP_LIMIT = 20_000
"""Tags and attributes, counted as `<` and `=`. A header that names 1,000 parts has 10,000;
without a limit lxml needs 17 s to canonicalise 100,000 attributes of one element."""

_BOM = b"\xef\xbb\xbf"
# `encoding` of the XML declaration, which may stand at the very beginning only.
DECLARED = re.compile(rb"<\?xml[^>]*?\sencoding\s*=\s*[\"']([^\"']*)[\"']")
_UTF_8 = frozenset({"utf-8", "utf8", "us-ascii"})  # ASCII is a part of UTF-8


def hardened(*, drops_remarks: bool) -> etree.XMLParser:
    """A parser for what strangers send, with or without its comments and instructions.

    The bytes are UTF-8 whatever they declare: UTF-7 could hide a DOCTYPE.
    """
    return etree.XMLParser(
        encoding="utf-8",
        resolve_entities=False,
        no_network=True,
        load_dtd=False,
        huge_tree=False,
        remove_blank_text=True,
        remove_comments=drops_remarks,
        remove_pis=drops_remarks,
    )


_PARSER = hardened(drops_remarks=True)  # before they can split a value in two
too_deep = etree.XPath(f"boolean({'/*' * (DEPTH_LIMIT + 1)})")


def parse(document: bytes) -> etree._Element:
    """The document element. Raises Unreadable, status 400, for anything but UTF-8 XML without
    DOCTYPE within the limits (D59, D60)."""
    document = document.removeprefix(_BOM)
    _check_encoding(document)
    if b"<!DOCTYPE" in document:
        raise Unreadable("the header document has a DOCTYPE: remove it")
    if document.count(b"<") + document.count(b"=") > MARKUP_LIMIT:
        raise Unreadable(f"the header document has more than {MARKUP_LIMIT} tags and attributes")
    try:
        root = etree.fromstring(document, _PARSER)
    except etree.XMLSyntaxError as error:
        raise Unreadable(f"the header document is not XML: {shown(str(error.msg))}") from None
    if too_deep(root):
        raise Unreadable(f"the header document has more than {DEPTH_LIMIT} levels")
    return root


def check_charset(charset: str) -> None:
    """Raises Unreadable if a header document is said to be anything but UTF-8 (D59)."""
    if charset.lower() not in _UTF_8:
        raise Unreadable(f"the header document is in {shown(charset)}: send UTF-8")


def canonical(element: etree._Element) -> bytes:
    """Exclusive canonical XML: the same for every way to write the same element (D45)."""
    try:
        return etree.tostring(element, method="c14n", exclusive=True, with_comments=False)
    except etree.C14NError:
        raise Unreadable(
            "the header document has a relative namespace: use an absolute one"
        ) from None


def _check_encoding(document: bytes) -> None:
    declared = DECLARED.match(document)
    if declared:
        check_charset(declared[1].decode("latin-1"))
    try:
        document.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Unreadable(f"the header document is not UTF-8 at byte {error.start}") from None
