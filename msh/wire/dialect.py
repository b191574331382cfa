"""The registry of dialects: what of their bytes differs, one entry for each.

A request names its dialect by its Content-Type, a message of ours by its agreement. What a dialect
does with a request that it knows is in `msh/flows/receiving/dialects.py`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from msh.protocol.message import Payload

from .ebms2 import envelope as ebms2
from .ebms2.names import SOAP_ACTION
from .package import compose_parts
from .trp import envelope as trp


class Entity(NamedTuple):
    """What an HTTP message carries."""

    content_type: str
    body: bytes


@dataclass(frozen=True, slots=True)
class Dialect:
    """`name` is that of an agreement's dialect.

    `knows` says of Content-Type and body of a request whether it is in this dialect.
    `content_type` gives that of a message with this boundary, `compose_parts` the wire form of its
    payloads. `headers` go with each POST. `refusal` is the entity of an answer with this status
    and reason, None if it has none.
    """

    name: str
    knows: Callable[[str, bytes], bool]
    content_type: Callable[[str], str]
    compose_parts: Callable[[Sequence[Payload], str], list[bytes]]
    refusal: Callable[[int, str], Entity | None]
    headers: tuple[tuple[str, str], ...] = ()


def _knows_any(content_type: str, body: bytes) -> bool:
    """It refuses what no dialect knows."""
    return True


def _no_entity(status: int, reason: str) -> Entity | None:
    """000-058."""
    return None


TRP = Dialect("trp", _knows_any, trp.content_type, compose_parts, _no_entity)

# Sent only: no request is taken for one of it yet.
EBMS2 = Dialect(
    "ebms2",
    lambda content_type, body: False,
    ebms2.content_type,
    ebms2.compose_parts,
    _no_entity,
    (("SOAPAction", SOAP_ACTION),),
)

_DIALECTS = (EBMS2, TRP)
_BY_NAME = {one.name: one for one in _DIALECTS}


def dialect_of(content_type: str, body: bytes) -> Dialect:
    """The dialect of a request."""
    return next(one for one in _DIALECTS if one.knows(content_type, body))


def dialect_named(name: str) -> Dialect:
    """The dialect of an agreement. Raises KeyError."""
    return _BY_NAME[name]
