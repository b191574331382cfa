"""A router's work on a header document: one RoutingHeader more, all else as it came (D21)."""

import re
from collections.abc import Iterator

from lxml.etree import QName

from msh.protocol.errors import Unreadable
from msh.protocol.message import Route
from msh.wire import document

from .fields import ROUTING_LIMIT, Kind
from .values import named
from .writer import write_route

_TAGS = frozenset(named("RoutingHeader"))

# All markup of a well-formed document without a DOCTYPE. What the names in it are does not matter.
_MARKUP = re.compile(
    rb"""<!--.*?-->|<!\[CDATA\[.*?\]\]>|<\?.*?\?>|<(?:[^"'>]++|"[^"]*+"|'[^']*+')*+>""", re.DOTALL
)


def append_route(header_document: bytes, route: Route) -> bytes:
    """The document with `route` after its last RoutingHeader, in the namespace of that.

    Raises ValueError if it has no RoutingHeader, or as many as one may have, or if it cannot be
    read with one more: the parser is the one that reads what comes to us.
    """
    places, namespace = _routing_headers(header_document)
    if not 1 <= len(places) < ROUTING_LIMIT:
        raise ValueError(
            f"{len(places)} RoutingHeaders: 1 to {ROUTING_LIMIT - 1} allow another to be added"
        )
    end = _ends_of_children(header_document)[places[-1]]
    kind = Kind.NORMAL if route.sequence_number is None else Kind.RELIABLE
    added = b"\n" + write_route(route, kind, namespace).encode()
    longer = header_document[:end] + added + header_document[end:]
    if _routing_headers(longer) != ([*places, places[-1] + 1], namespace):
        raise ValueError("the header document has no room for another RoutingHeader")
    return longer


def _routing_headers(header_document: bytes) -> tuple[list[int], str]:
    """Which children of the document element they are, and the namespace of the last."""
    try:
        root = document.parse(header_document)
    except Unreadable as problem:
        raise ValueError(str(problem)) from None
    found = {place: child for place, child in enumerate(root) if child.tag in _TAGS}
    namespace = QName(found[max(found)]).namespace or "" if found else ""
    return list(found), namespace


def _ends_of_children(header_document: bytes) -> list[int]:
    """Return the byte offset where each child of the document element ends. lxml only knows
    lines."""
    ends, depth = [], 0
    for start, end in _tags(header_document):
        opens = header_document[start + 1] != ord("/")
        depth += 1 if opens else -1
        if opens and header_document[end - 2] == ord("/"):
            depth -= 1
            opens = False
        if not opens and depth == 1:
            ends.append(end)
    return ends


def _tags(header_document: bytes) -> Iterator[tuple[int, int]]:
    for found in _MARKUP.finditer(header_document):
        if header_document[found.start() + 1] not in b"!?":
            yield found.span()
