"""Bytes to an XML element, hardened: whatever a peer sends, time and memory stay bounded."""

import codecs
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


_FAMILIES = {
    **dict.fromkeys(("utf-8", "utf8"), "UTF-8"),
    **dict.fromkeys(("us-ascii", "ascii"), "US-ASCII"),
    **dict.fromkeys(("utf-16", "utf-16le", "utf-16be"), "UTF-16"),
    **dict.fromkeys(("iso-8859-1", "iso_8859-1", "latin1"), "ISO-8859-1"),
}
_ALIKE = frozenset({"UTF-8", "US-ASCII"})
_UTF_16 = {
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
    b"<\0": "utf-16-le",
    b"\0<": "utf-16-be",
}
"""The first bytes of a document in UTF-16, and its codec."""
_DECLARED_WITHIN = 1024  # bytes
_DECLARATION = re.compile(r"\A<\?xml\s[^>]*\?>")


def hardened(*, drops_remarks: bool, drops_blanks: bool = True) -> etree.XMLParser:
    """A parser for what strangers send, with or without its comments and instructions, and the
    white space between its elements.

    The bytes are UTF-8 whatever they declare: UTF-7 could hide a DOCTYPE.
    """
    return etree.XMLParser(
        encoding="utf-8",
        resolve_entities=False,
        no_network=True,
        load_dtd=False,
        huge_tree=False,
        remove_blank_text=drops_blanks,
        remove_comments=drops_remarks,
        remove_pis=drops_remarks,
    )


_PARSER = hardened(drops_remarks=True)  # before they can split a value in two
_WHOLE = hardened(drops_remarks=False, drops_blanks=False)
too_deep = etree.XPath(f"boolean({'/*' * (DEPTH_LIMIT + 1)})")


def parse(document: bytes) -> etree._Element:
    """The document element. Raises Unreadable, status 400, for anything but UTF-8 XML without
    DOCTYPE within the limits (D59, D60)."""
    return _parse(document, _PARSER)


def parse_whole(document: bytes) -> etree._Element:
    """As `parse`, with everything that a signature covers: comments, instructions, white space."""
    return _parse(document, _WHOLE)


def _parse(document: bytes, parser: etree.XMLParser) -> etree._Element:
    document = document.removeprefix(_BOM)
    _check_encoding(document)
    if b"<!DOCTYPE" in document:
        raise Unreadable("the header document has a DOCTYPE: remove it")
    if document.count(b"<") + document.count(b"=") > MARKUP_LIMIT:
        raise Unreadable(f"the header document has more than {MARKUP_LIMIT} tags and attributes")
    try:
        root = etree.fromstring(document, parser)
    except etree.XMLSyntaxError as error:
        raise Unreadable(f"the header document is not XML: {shown(str(error.msg))}") from None
    if too_deep(root):
        raise Unreadable(f"the header document has more than {DEPTH_LIMIT} levels")
    return root


def in_utf_8(document: bytes, charset: str = "") -> tuple[bytes, str]:
    """A document in UTF-8, UTF-16, ISO-8859-1 or US-ASCII, and which of them it was in if it had to
    be written anew. `charset` is what its Content-Type says, empty if nothing. Raises Unreadable if
    that is not what the document itself says, or another (EB-006)."""
    own, codec = _charset_of(document)
    said = _family(charset) if charset else own
    if said != own and {said, own} != _ALIKE:
        raise Unreadable(f"the header document is in {own}, but its Content-Type says {said}")
    if own in _ALIKE:
        return document, ""
    try:
        text = document.decode(codec)
    except UnicodeDecodeError as error:
        raise Unreadable(f"the header document is not {own} at byte {error.start}") from None
    return _DECLARATION.sub("", text, count=1).encode(), own


def declared_charset(document: bytes) -> str:
    """Return the charset that a document declares, by its first bytes and its XML declaration; ""
    if none."""
    if codec := _UTF_16.get(document[:2]):
        return codec
    declared = DECLARED.match(document.removeprefix(_BOM)[:_DECLARED_WITHIN])
    return declared[1].decode("latin-1") if declared else ""


def _charset_of(document: bytes) -> tuple[str, str]:
    """Return the charset that a document declares, and a codec for it."""
    beginning, codec = document[:_DECLARED_WITHIN], _UTF_16.get(document[:2], "")
    if codec:
        beginning = beginning.decode(codec, "replace").encode("ascii", "replace")
    said = declared_charset(beginning)
    own = _family(said) if said else "UTF-16" if codec else "UTF-8"
    is_utf_8 = document.startswith(_BOM)
    if (own == "UTF-16") != bool(codec) or (is_utf_8 and own not in _ALIKE):
        raise Unreadable(f"the header document declares {own}, and is not in it")
    return own, codec or "iso-8859-1"


def _family(charset: str) -> str:
    family = _FAMILIES.get(charset.lower())
    if family is None:
        raise Unreadable(f"the header document is in {shown(charset)}: send UTF-8")
    return family


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
