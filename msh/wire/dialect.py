"""The registry of dialects: what of their bytes differs, one entry for each.

A request names its dialect by its Content-Type, a message of ours by its agreement. What a dialect
does with a request that it knows is in `msh/flows/receiving/dialects.py`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from msh.protocol.ebms.outgoing import Outgoing
from msh.protocol.ebms.vocabulary import FaultCode
from msh.protocol.flight.serial import Order
from msh.protocol.message import Payload

from .ebms2 import envelope as ebms2
from .ebms2.envelope import Sign
from .ebms2.names import SOAP_ACTION
from .ebms2.soap import compose_fault
from .package import compose_parts
from .trp import envelope as trp

Headers = tuple[tuple[str, str], ...]


class Entity(NamedTuple):
    """The entity of an HTTP message."""

    content_type: str
    body: bytes
    headers: Headers = ()


ComposeHead = Callable[[Outgoing, datetime | None, datetime, Order | None, Sign | None], bytes]


def _no_headers(outgoing: Outgoing) -> Headers:
    return ()


@dataclass(frozen=True, slots=True)
class Dialect:
    """`name` is that of an agreement's dialect.

    `knows` says of Content-Type and body of a request whether it is in this dialect, `may_know`
    whether it can be, as far as its Content-Type says.
    `content_type` gives that of a message with this boundary, with payloads or without,
    `compose_parts` the wire form of its payloads. `compose_head` gives what stands before these in
    a message that has a flight, or all of it, from the end of its TimeToLive, the time, its place
    in its conversation and what signs its envelope; it raises ValueError, naming the place, for
    what cannot be written. None: messages have no flights. `headers` go with each POST of a
    signal, `headers_of` gives those of a message; it raises ValueError for what no header can
    be. `refusal` is the entity of an answer with this status and reason, None if it has none.
    `by_network`: a message names its agreement, so that a partner without credential may be
    known by where it comes from (EB-190).
    """

    name: str
    knows: Callable[[str, bytes], bool]
    may_know: Callable[[str], bool]
    content_type: Callable[[str, bool], str]
    compose_parts: Callable[[Sequence[Payload], str], list[bytes]]
    refusal: Callable[[int, str], Entity | None]
    compose_head: ComposeHead | None = None
    headers: Headers = ()
    headers_of: Callable[[Outgoing], Headers] = _no_headers
    by_network: bool = False


def _knows_any(content_type: str, body: bytes = b"") -> bool:
    """Also true for content that no dialect knows: this dialect refuses it."""
    return True


def _trp_content_type(boundary: str, has_payloads: bool) -> str:
    return trp.content_type(boundary)


def _ebms2_content_type(boundary: str, has_payloads: bool) -> str:
    return ebms2.content_type(boundary, has_payloads=has_payloads)


def _no_entity(status: int, reason: str) -> Entity | None:
    """An HTTP error of the draft has no body (000-058)."""
    return None


def fault(code: FaultCode, reason: str) -> Entity:
    """A SOAP Fault, as ebMS 2.0 answers what is no message of a known agreement (EB-066)."""
    return Entity(*compose_fault(code, reason), _EBMS2_HEADERS)


def answer_of(content_type: str, body: bytes) -> Entity:
    """A message of ebMS 2.0 as the answer to a request (EB-073)."""
    return Entity(content_type, body, _EBMS2_HEADERS)


def _fault(status: int, reason: str) -> Entity | None:
    """EB-153."""
    code = _FAULTS.get(status)
    return None if code is None else fault(code, reason)


def _soap_action(outgoing: Outgoing) -> Headers:
    """EB-151."""
    text = outgoing.soap_action.replace("{service}", outgoing.service_interface)
    text = text.replace("{action}", outgoing.action)
    if not text.isascii() or not text.isprintable() or '"' in text:
        raise ValueError(f"the SOAPAction {text!r} is not printable ASCII without quotes")
    return (("SOAPAction", f'"{text}"'),)


_EBMS2_HEADERS = (("SOAPAction", SOAP_ACTION),)
_FAULTS = {
    400: FaultCode.CLIENT,
    401: FaultCode.SERVER,  # of configuration, which people mend: the same bytes may be taken then
    403: FaultCode.SERVER,
    500: FaultCode.SERVER,
}

EBMS2 = Dialect(
    "ebms2",
    ebms2.knows,
    ebms2.may_know,
    _ebms2_content_type,
    ebms2.compose_parts,
    _fault,
    ebms2.compose_outgoing,
    _EBMS2_HEADERS,
    _soap_action,
    by_network=True,
)
TRP = Dialect(
    "trp",
    _knows_any,
    _knows_any,
    _trp_content_type,
    compose_parts,
    _no_entity,
)

_DIALECTS = (EBMS2, TRP)
_BY_NAME = {one.name: one for one in _DIALECTS}


def dialect_of(content_type: str, body: bytes) -> Dialect:
    """The dialect of a request."""
    return next(one for one in _DIALECTS if one.knows(content_type, body))


def dialect_by_network(content_type: str) -> Dialect | None:
    """The dialect in which a request of this Content-Type may come from a partner that is known by
    its network. Which one it is in is decided by `dialect_of`, when its body is there."""
    return next((one for one in _DIALECTS if one.by_network and one.may_know(content_type)), None)


def dialect_named(name: str) -> Dialect:
    """The dialect of an agreement. Raises KeyError."""
    return _BY_NAME[name]
