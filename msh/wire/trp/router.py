"""A router's work on a header document: one RoutingHeader more, all else as it came (D21)."""

from xml.parsers import expat

from msh.protocol.message import Route

from .fields import ROUTING_LIMIT, Kind
from .values import named
from .writer import write_route

_SEPARATOR = "}"
_TAGS = frozenset(tag.removeprefix("{") for tag in named("RoutingHeader"))
_BELOW_ROOT = 2


def append_route(header_document: bytes, route: Route) -> bytes:
    """The document with `route` after its last RoutingHeader, in the namespace of that.

    It was read before, so it is sound. Raises ValueError if it has no RoutingHeader, or as many
    as one may have.
    """
    ends = _RoutingEnds(header_document)
    if not 1 <= ends.count < ROUTING_LIMIT:
        raise ValueError(f"{ends.count} RoutingHeaders: 1 to {ROUTING_LIMIT - 1} can get another")
    kind = Kind.NORMAL if route.sequence_number is None else Kind.RELIABLE
    added = b"\n" + write_route(route, kind, ends.namespace).encode()
    return header_document[: ends.at] + added + header_document[ends.at :]


class _RoutingEnds:
    """Where the last RoutingHeader ends, in bytes: lxml knows lines, expat knows bytes."""

    def __init__(self, document: bytes) -> None:
        self.count = 0
        self.at = 0
        self.namespace = ""
        self._depth = 0
        self._document = document
        self._parser = expat.ParserCreate("utf-8", namespace_separator=_SEPARATOR)
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.Parse(document, True)

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        self._depth += 1

    def _end(self, name: str) -> None:
        if self._depth == _BELOW_ROOT and name in _TAGS:
            self.count += 1
            self.namespace = name.rpartition(_SEPARATOR)[0]
            self.at = self._document.index(b">", self._parser.CurrentByteIndex) + 1
        self._depth -= 1
