"""Values of a business document by XPath, in bounded time whatever the document.

A path names elements from the document element, or from anywhere (`//`) and then down. It has no
functions and no other axes: each element is looked at once for each of its steps.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from lxml import etree
from lxml.etree import _Element

from msh.protocol.business_keys import PATH_LIMIT, SIZE_LIMIT, VALUE_LIMIT, PathRefused

from .display import CHARSETS, codec_of
from .document import DECLARED, hardened, too_deep

MARKUP_LIMIT = 200_000
VALUES_LIMIT = 20
"""Values of one path in one payload."""
STEPS_LIMIT = 20

_NAME = r"[^\W\d][\w.-]*"
_QNAME = rf"(?:{_NAME}:)?{_NAME}"
_LITERAL = r"(?:\"[^\"]*\"|'[^']*')"
_PREDICATE = rf"\[(?:[1-9]\d{{0,5}}|@?{_QNAME}={_LITERAL})\]"
_STEP = rf"(?:{_QNAME}|\*)(?:{_PREDICATE})?"
_PATH = re.compile(rf"//?{_STEP}(?:/{_STEP})*(?:/@{_QNAME}|/text\(\))?")
_BINDING = re.compile(rf"({_NAME})=(\S+)")
_PARSER = hardened(drops_remarks=True)  # before they can split a value in two


@dataclass(frozen=True, slots=True)
class KeyPath:
    """A path that was checked. Made by `key_path`."""

    _find: etree.XPath

    def values(self, document: _Element) -> list[str]:
        found: Iterable[object] = self._find(document.getroottree())  # type: ignore[assignment]
        texts = (
            "".join(map(str, one.itertext())) if isinstance(one, _Element) else str(one)
            for one, _ in zip(found, range(VALUES_LIMIT), strict=False)
        )
        tidy = (" ".join(text.split()) for text in texts)
        return list(dict.fromkeys(text for text in tidy if 0 < len(text) <= VALUE_LIMIT))


def key_path(path: str, namespaces: str) -> KeyPath:
    """`namespaces`: a line `prefix=URI` for each prefix of the path. Raises PathRefused."""
    if len(path) > PATH_LIMIT or path.count("/") > STEPS_LIMIT or not _PATH.fullmatch(path):
        raise PathRefused(
            "This is not a path that can be searched. Write steps such as /o:Order/o:Id,"
            " //o:Id or /Order/Line[@type='main']/@id: names with * and prefixes, one [n],"
            f" [@name='value'] or [name='value'] for each, at most {STEPS_LIMIT} steps and"
            f" {PATH_LIMIT} characters."
        )
    try:
        find = etree.XPath(path, namespaces=_bindings(namespaces) or None)
        find(etree.Element("x").getroottree())  # an unknown prefix is found now
    except etree.XPathError as error:
        raise PathRefused(f"{path}: {error}. Add a line prefix=URI for each prefix.") from None
    return KeyPath(find)


def _bindings(namespaces: str) -> Mapping[str, str]:
    bindings = {}
    for line in filter(None, map(str.strip, namespaces.splitlines())):
        found = _BINDING.fullmatch(line)
        if found is None:
            raise PathRefused(f"{line} is not a namespace. Write prefix=URI.")
        bindings[found[1]] = found[2]
    return bindings


def document_of(content: bytes) -> _Element | None:
    """Return the document to be searched. None for anything but XML without DOCTYPE in a common
    charset, and for XML that is too large."""
    if len(content) > SIZE_LIMIT:
        return None
    text = _in_utf_8(content)
    if text is None or b"<!DOCTYPE" in text:
        return None
    if text.count(b"<") + text.count(b"=") > MARKUP_LIMIT:
        return None
    try:
        root = etree.fromstring(text, _PARSER)
    except etree.XMLSyntaxError:
        return None
    return None if too_deep(root) else root


def _in_utf_8(content: bytes) -> bytes | None:
    declared = DECLARED.match(content)
    charset = declared[1].decode("latin-1") if declared else "utf-8-sig"
    if content[:2] in (b"\xff\xfe", b"\xfe\xff"):
        charset = "utf-16"
    if codec_of(charset) not in CHARSETS:
        return None
    try:
        return content.decode(charset).removeprefix("\ufeff").encode()
    except UnicodeError:
        return None
