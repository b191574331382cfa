"""SOAP 1.1 below the dialect: the frame of an envelope, and Faults both ways."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from xml.sax.saxutils import escape

from lxml.etree import QName, _Element

from msh.protocol.ebms.errors import NotAMessage
from msh.protocol.ebms.message import SoapFault
from msh.protocol.ebms.vocabulary import Actor, FaultCode
from msh.wire import document
from msh.wire.text import prose, shown, trimmed
from msh.wire.values import prose_of

from .names import CONTENT_TYPE, EB, SOAP, ds, eb, soap

HEADER_BLOCKS = {
    eb(name): f"eb:{name}"
    for name in (
        "MessageHeader",
        "SyncReply",
        "MessageOrder",
        "AckRequested",
        "Acknowledgment",
        "ErrorList",
    )
} | {ds("Signature"): "ds:Signature"}
BODY_BLOCKS = {eb(name): f"eb:{name}" for name in ("Manifest", "StatusRequest", "StatusResponse")}
_BLOCKS = HEADER_BLOCKS | BODY_BLOCKS

_FAULT_TEXT_LIMIT = 1000  # characters
_CODES_LIMIT = 10
_OURS = frozenset({"", *map(str, Actor)})
_NOT_NEEDED = frozenset({"", "0", "false"})


@dataclass(frozen=True, slots=True)
class Frame:
    """An envelope, its blocks by name, and the names of those that stand in a wrong place."""

    header_blocks: dict[str, list[_Element]]
    body_blocks: dict[str, list[_Element]]
    misplaced: tuple[str, ...]


def read_frame(envelope: bytes) -> Frame:
    """Raises NotAMessage, saying which Fault to answer with, for what is no SOAP 1.1, has a
    header that has to be understood and is not, or has no MessageHeader (EB-016, EB-020)."""
    header, body = _header_and_body(document.parse(envelope))
    in_header, foreign = _sorted(() if header is None else header, HEADER_BLOCKS)
    if "eb:MessageHeader" not in in_header:
        what = "a SOAP Fault" if body.find(soap("Fault")) is not None else "SOAP"
        raise NotAMessage(f"this is {what} without an ebXML MessageHeader in namespace {EB}")
    for block in foreign:
        _check_understood(block)
    in_body, _ = _sorted(body, BODY_BLOCKS)
    return Frame(in_header, in_body, tuple(_misplaced(header, body)))


def _sorted(
    blocks: Iterable[_Element], names: Mapping[str, str]
) -> tuple[dict[str, list[_Element]], list[_Element]]:
    """The blocks of the dialect by name, and those of others."""
    by_name: dict[str, list[_Element]] = {}
    foreign: list[_Element] = []
    for block in blocks:
        name = names.get(str(block.tag))
        (foreign if name is None else by_name.setdefault(name, [])).append(block)
    return by_name, foreign


def _header_and_body(root: _Element) -> tuple[_Element | None, _Element]:
    if root.tag != soap("Envelope"):
        if QName(root).localname == "Envelope":
            namespace = QName(root).namespace or ""
            raise NotAMessage(
                f"the envelope is in namespace {shown(namespace)}: send SOAP 1.1, {SOAP}",
                code=FaultCode.VERSION_MISMATCH,
            )
        raise NotAMessage(f"the document element is {shown(str(root.tag))}: send a SOAP Envelope")
    headers, bodies = root.findall(soap("Header")), root.findall(soap("Body"))
    if len(headers) > 1 or len(bodies) != 1:
        raise NotAMessage("a SOAP Envelope has one Header and one Body")
    return headers[0] if headers else None, bodies[0]


def _check_understood(block: _Element) -> None:
    """Whoever does not understand a header that is for it has to say so."""
    if trimmed(block.get(soap("mustUnderstand"), "")) in _NOT_NEEDED:
        return
    if trimmed(block.get(soap("actor"), "")) in _OURS:
        name = shown(str(block.tag))
        raise NotAMessage(f"header {name} is not understood here", code=FaultCode.MUST_UNDERSTAND)


def _misplaced(header: _Element | None, body: _Element) -> Iterator[str]:
    """Blocks that a reader could take for those at the right place, or a signature cover instead
    of them."""
    for element in body.getroottree().iter(*_BLOCKS):
        tag = str(element.tag)
        if element.getparent() is not (header if tag in HEADER_BLOCKS else body):
            yield _BLOCKS[tag]


def compose_fault(code: FaultCode, text: str) -> tuple[str, bytes]:
    """Content-Type and body of a Fault, `text` one sentence (EB-066)."""
    sentence = escape(prose(text)[:_FAULT_TEXT_LIMIT])
    return CONTENT_TYPE, (
        f'<?xml version="1.0" encoding="UTF-8"?>\n<SOAP:Envelope xmlns:SOAP="{SOAP}">'
        f"<SOAP:Body><SOAP:Fault><faultcode>SOAP:{code}</faultcode>"
        f"<faultstring>{sentence}</faultstring></SOAP:Fault></SOAP:Body></SOAP:Envelope>\n"
    ).encode()


def read_fault(envelope: bytes) -> SoapFault | None:
    """The Fault in an answer, None if it is none. Raises Unreadable as `read_frame`."""
    _, body = _header_and_body(document.parse(envelope))
    fault = body.find(soap("Fault"))
    if fault is None:
        return None
    code = _prose(fault, "faultcode").rpartition(":")[2].partition(".")[0]
    known = code in set(FaultCode)
    return SoapFault(
        FaultCode(code) if known else FaultCode.SERVER,
        _prose(fault, "faultstring")[:_FAULT_TEXT_LIMIT],
        tuple(_error_codes(fault))[:_CODES_LIMIT],
    )


def _prose(fault: _Element, name: str) -> str:
    """SOAP 1.1 has the children of Fault in no namespace; some peers put them in its own."""
    element = next(fault.iterchildren(name, soap(name)), None)
    return "" if element is None else prose_of(element)


def _error_codes(fault: _Element) -> Iterator[str]:
    for detail in fault.iterchildren("detail", soap("detail")):
        for element in detail.iter("{*}errorCode", eb("Error")):
            text = element.get(eb("errorCode")) or prose_of(element)
            if text:
                yield text[:_FAULT_TEXT_LIMIT]
