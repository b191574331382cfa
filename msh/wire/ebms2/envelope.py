"""Whole messages: an envelope alone, or in one package with its payloads."""

import re
from collections.abc import Callable, Sequence
from datetime import datetime

from msh.protocol.ebms.errors import NotAMessage, Unusable
from msh.protocol.ebms.message import (
    Message,
    ReceivedMessage,
    Reference,
    SoapFault,
)
from msh.protocol.ebms.outgoing import Outgoing, message_of
from msh.protocol.ebms.vocabulary import ErrorCode, Stage
from msh.protocol.errors import Unreadable
from msh.protocol.flight.serial import Order
from msh.protocol.message import Payload
from msh.protocol.reason import Refusal
from msh.wire import mime, package
from msh.wire.document import in_utf_8
from msh.wire.file_name import disposition
from msh.wire.package import HEADER_LIMIT, check_size, content_digest, header_document
from msh.wire.text import shown
from msh.wire.values import cid

from .elements import Findings
from .names import BODY, CONTENT_TYPE
from .parts import Parts
from .reader import read
from .soap import read_fault
from .writer import write

Sign = Callable[[bytes], bytes]
_ALONE = frozenset({"text/xml", "application/xml"})
_SOAP_12 = "application/soap+xml"
"""The media type of SOAP 1.2. Such messages are refused by their type, as those of unknown dialects
(EB-155)."""
_OF_DRAFT = "application/vnd.eb+xml"
_DRAFT_ROOT = b"ebXMLHeader"
_DRAFT = re.compile(rb"<(?:[\w.-]+:)?%s[\s/>]" % _DRAFT_ROOT)
_XML_ROOT = re.compile(rb"<(?:[\w.-]+:)?Envelope[\s/>]")
_LOOKED_AT = 16 * 1024  # bytes
_NO_MESSAGE = 'send multipart/related; type="text/xml", or text/xml'


def may_know(content_type: str) -> bool:
    """Whether a request can be in this dialect, as far as its Content-Type says."""
    media = mime.media_type(content_type)
    if media.name == "multipart/related":
        return _type_of_root(media) != _OF_DRAFT
    return media.name in _ALONE or media.name == _SOAP_12


def knows(content_type: str, body: bytes) -> bool:
    """Whether a request is in this dialect, as far as its Content-Type and its root say: the
    draft's header document may come as text/xml too (EB-155). A package whose type neither dialect
    has is refused here, by its type."""
    if not may_know(content_type) or _is_of_draft(content_type, body):
        return False
    media = mime.media_type(content_type)
    is_open = media.name == "multipart/related" and not _type_of_root(media)
    return not is_open or _has_xml_root(content_type, body)


def _type_of_root(media: mime.MediaType) -> str:
    """Return the type of the root that a package announces; empty if it announces none (EB-004)."""
    return mime.media_type(media.parameters.get("type", "")).name


def _is_of_draft(content_type: str, body: bytes) -> bool:
    """Looks for the name first: that costs a tenth of what the expression does. A payload may hold
    a message of the draft, so only the root counts."""
    found = body.find(_DRAFT_ROOT, 0, _LOOKED_AT) >= 0
    return found and _DRAFT.search(_root(content_type, body)[1]) is not None


def _has_xml_root(content_type: str, body: bytes) -> bool:
    """A part without Content-Type may be an envelope too."""
    root_type, beginning = _root(content_type, body)
    return mime.media_type(root_type).name in _ALONE or _XML_ROOT.search(beginning) is not None


def _root(content_type: str, body: bytes) -> tuple[str, bytes]:
    """The root's Content-Type and its first bytes; what is no package is taken for the root."""
    try:
        root = mime.parse_readable(content_type, body, alone=_ALONE).parts[0]
        content = root.content() if root.size <= HEADER_LIMIT else b""
    except (Unreadable, ValueError):
        return "", body[:_LOOKED_AT]
    return root.content_type, content[:_LOOKED_AT]


def root_id(boundary: str) -> str:
    """The Content-ID of the envelope: made of the boundary, and without it in it, so that nothing
    else has to be kept to send the same message again (EB-009, EB-015)."""
    return f"envelope@{boundary.removeprefix('msh-')}.msh"


def content_type(boundary: str, *, has_payloads: bool = True) -> str:
    """Return the Content-Type of a message. Without payloads it is the envelope's own (EB-001)."""
    if not has_payloads:
        return CONTENT_TYPE
    start = root_id(boundary)
    return f'multipart/related; type="text/xml"; boundary="{boundary}"; start="<{start}>"'


def compose_parts(payloads: Sequence[Payload], boundary: str) -> list[bytes]:
    """Like `package.compose_parts`, but without a Content-Transfer-Encoding (EB-009), and with the
    label as file name (EB-051)."""
    return package.compose_parts(payloads, boundary, more=_file_name)


def _file_name(payload: Payload) -> str:
    return disposition(payload.label)


def compose_head(message: Message, boundary: str, sign: Sign | None = None) -> bytes:
    """The first part of a message with payloads. Raises ValueError, naming the place, for a
    message that could not be read back as it is."""
    return mime.compose_part(
        root_id(boundary), CONTENT_TYPE, _envelope(message, sign), boundary, last=False, more=""
    )


def compose_outgoing(
    outgoing: Outgoing,
    expires_at: datetime | None,
    now: datetime,
    order: Order | None = None,
    sign: Sign | None = None,
) -> bytes:
    """The envelope of a message of a business: its first part, or the whole of it if there are no
    payloads; `sign` gives it with a signature. Raises as `compose_head`."""
    described = zip(outgoing.content_ids or (), outgoing.descriptions or (), strict=True)
    references = [Reference(cid(one), one, description) for one, description in described]
    message = message_of(outgoing, references, expires_at=expires_at, now=now, order=order)
    if not references:
        return _envelope(message, sign)
    return compose_head(message, outgoing.boundary, sign)


def compose_alone(message: Message, sign: Sign | None = None) -> tuple[str, bytes]:
    """Content-Type and body of a message without payload (EB-001). Raises as `compose_head`."""
    if any(reference.content_id for reference in message.manifest):
        raise ValueError("the Manifest names a payload: a package is needed")
    return CONTENT_TYPE, _envelope(message, sign)


def manifest(payloads: Sequence[Payload]) -> tuple[Reference, ...]:
    """The Manifest of a message with these payloads, in their order (EB-046)."""
    return tuple(
        Reference(cid(payload.content_id), payload.content_id, payload.description)
        for payload in payloads
    )


def _envelope(message: Message, sign: Sign | None) -> bytes:
    envelope = sign(write(message)) if sign else write(message)
    check_size(envelope)
    return envelope


def parse(content_type: str, body: bytes, *, header_limit: int = HEADER_LIMIT) -> ReceivedMessage:
    """The message in a request. `header_limit` in bytes; the caller has bounded the whole.

    What is wrong with a message that can be read is in its `defects`. Raises NotAMessage for what
    is answered by a SOAP Fault, Unusable for a message without a usable MessageHeader.
    """
    findings = Findings()
    try:
        parts = _parts(content_type, body, findings)
        envelope = header_document(parts[0], header_limit)
        reading = read(envelope, findings, parts[0].charset)
    except NotAMessage:
        raise
    except Unusable as problem:
        Parts(parts, findings).check()  # it decides before the header (EB-065)
        raise Unusable(tuple(findings.defects), problem.partial) from None
    except Unreadable as problem:
        raise NotAMessage(str(problem), problem.refusal) from None
    taken = Parts(parts, findings).take(reading.message.manifest)
    return ReceivedMessage(
        reading.message,
        taken.payloads,
        content_digest((reading.identity,), taken.contents),
        envelope,
        tuple(findings.defects),
        tuple(findings.notes),
        encrypted=taken.encrypted,
    )


def parse_answer(
    content_type: str, body: bytes, *, header_limit: int = HEADER_LIMIT
) -> ReceivedMessage | SoapFault:
    """Parse a peer's HTTP answer: a message, or a Fault (EB-067, EB-069). Raises the same errors as
    `parse`."""
    try:
        return parse(content_type, body, header_limit=header_limit)
    except NotAMessage:
        fault = _fault(content_type, body, header_limit)
        if fault is None:
            raise
        return fault


def _fault(content_type: str, body: bytes, header_limit: int) -> SoapFault | None:
    try:
        parts = _parts(content_type, body, Findings())
        envelope, _ = in_utf_8(header_document(parts[0], header_limit), parts[0].charset)
        return read_fault(envelope)
    except Unreadable:
        return None


def _parts(content_type: str, body: bytes, findings: Findings) -> list[mime.Part]:
    media = mime.media_type(content_type)
    root_type = _type_of_root(media) or "text/xml"
    if media.name == "multipart/related" and root_type not in _ALONE:
        reason = f"the package is of type {shown(root_type)}: {_NO_MESSAGE}"
        raise NotAMessage(reason, Refusal.MEDIA_TYPE)
    if root_type != media.parameters.get("type", root_type).strip().lower():
        findings.notes.append(f"the package's type is {shown(media.parameters['type'])}")
    read = mime.parse_readable(content_type, body, alone=_ALONE)
    findings.notes += read.notes
    if read.problem is not None:
        sentence = f"is incomplete: {read.problem}"
        findings.add("EB-013", ErrorCode.MIME_PROBLEM, BODY, sentence, stage=Stage.MIME)
    return read.parts
