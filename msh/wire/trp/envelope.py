"""Whole messages: header document and payloads in one multipart/related package."""

import secrets
from collections.abc import Sequence
from itertools import chain
from urllib.parse import unquote

from msh.protocol.errors import ProtocolError, Refused, Unreadable
from msh.protocol.message import DocumentReference, Field, Header, PartialHeader, Payload, Route
from msh.protocol.received import ReceivedMessage
from msh.protocol.vocabulary import ErrorCode, MessageType
from msh.wire import mime
from msh.wire.document import check_charset
from msh.wire.package import (
    HEADER_LIMIT,
    check_size,
    content_digest,
    header_document,
    identity_digest,
    normal_type,
)
from msh.wire.text import shown

from .reader import HeaderReading, read
from .router import append_route
from .values import VERSION
from .writer import write

_MEDIA_TYPE = "application/vnd.eb+xml"
_HEADER_TYPE = f'{_MEDIA_TYPE}; version="{VERSION}"; charset="UTF-8"'
_ALONE = frozenset({_MEDIA_TYPE, "application/xml", "text/xml"})


def content_type(boundary: str) -> str:
    return f'multipart/related; type="{_MEDIA_TYPE}"; version="{VERSION}"; boundary="{boundary}"'


def compose_head(header: Header, boundary: str, *, closing: bool) -> bytes:
    """The first part, with the header document. With `closing` it is the whole body.

    Raises ValueError, naming the field, for a header that could not be read back as it is.
    """
    return _head(write(header), boundary, closing=closing)


def compose_routed_head(
    header_document: bytes, route: Route, boundary: str, *, closing: bool
) -> bytes:
    """Like `compose_head`, for a forwarded message: the header document as it was received, with
    one more RoutingHeader (D21)."""
    return _head(append_route(header_document, route), boundary, closing=closing)


def _head(header_document: bytes, boundary: str, *, closing: bool) -> bytes:
    check_size(header_document)
    return mime.compose_part(
        f"ebxmlheader-{secrets.token_hex(16)}@msh",
        _HEADER_TYPE,
        header_document,
        boundary,
        last=closing,
    )


def compose_signal(header: Header) -> tuple[str, bytes]:
    """Content type and body of an Acknowledgement or an Error: one part, no payload (D51).

    Raises ValueError as `compose_head`, and for a Normal message or one with a Manifest.
    """
    if header.message_type is MessageType.NORMAL or header.manifest:
        raise ValueError("an Acknowledgement or an Error with an empty Manifest is needed")
    boundary = mime.new_boundary()
    return content_type(boundary), compose_head(header, boundary, closing=True)


def parse(content_type: str, body: bytes, *, header_limit: int = HEADER_LIMIT) -> ReceivedMessage:
    """The message in a request. `header_limit` in bytes; the caller has bounded the whole.

    Raises Unreadable (400, 415) for what cannot be read or attributed to a pair, Refused for
    what can be answered with an Error Message.
    """
    message = parse_readable(content_type, body, header_limit=header_limit)
    if message.damage:
        raise message.damage
    return message


def parse_readable(
    content_type: str, body: bytes, *, header_limit: int = HEADER_LIMIT
) -> ReceivedMessage:
    """Like `parse`, but if the package is broken after its header, return the message without
    payloads, and with its `damage`."""
    package = mime.parse_readable(content_type, body, alone=_ALONE)
    root, *others = package.parts
    try:
        check_charset(root.charset or "utf-8")
        document = header_document(root, header_limit)
        reading = read(document)
    except ProtocolError as problem:
        raise package.problem or problem from None  # the package is judged first
    try:
        if package.problem:
            raise package.problem
        payloads = _payloads(reading.header, others)
    except (Refused, Unreadable) as damage:
        half = identity_digest(reading.canonical)
        return ReceivedMessage(reading.header, (), half, document, damage)
    digest = _content_digest(reading, payloads)
    return ReceivedMessage(reading.header, payloads, digest, document)


def _content_digest(reading: HeaderReading, payloads: Sequence[Payload]) -> bytes:
    contents = ((normal_type(each.content_type), each.content) for each in payloads)
    return content_digest(reading.canonical, chain.from_iterable(contents))


def _payloads(header: Header, parts: Sequence[mime.Part]) -> tuple[Payload, ...]:
    """The payloads in the order of the Manifest, each named there once and present once."""
    by_id: dict[str, mime.Part] = {}
    for part in parts:
        if not part.content_id:
            raise _mime_problem(header, "a payload part has no Content-ID")
        if part.content_id in by_id:
            raise _mime_problem(header, f"two parts have the Content-ID {shown(part.content_id)}")
        by_id[part.content_id] = part
    if len({reference.content_id for reference in header.manifest}) < len(header.manifest):
        raise _mime_problem(header, "the Manifest names a part twice")
    unquoted = {unquote(content_id): content_id for content_id in by_id}
    payloads = []
    for reference in header.manifest:
        # A peer may quote the Content-ID as it quotes the reference, though RFC 2392 does not.
        exact = reference.content_id in by_id
        content_id = reference.content_id if exact else unquoted.get(reference.content_id, "")
        named = by_id.pop(content_id, None)
        if named is None:
            name = shown(reference.content_id)
            raise _mime_problem(header, f"the Manifest names {name}, but there is no such part")
        payloads.append(_payload(header, reference, named))
    if by_id:
        raise _mime_problem(header, f"the Manifest does not name {shown(next(iter(by_id)))}")
    return tuple(payloads)


def _payload(header: Header, reference: DocumentReference, part: mime.Part) -> Payload:
    return Payload(
        _content(header, part),
        mime.fitting_type(part.content_type),
        reference.content_id,
        reference.label,
        reference.description,
    )


def _content(header: Header, part: mime.Part) -> bytes:
    try:
        return part.content()
    except ValueError as error:
        raise _mime_problem(header, f"part {shown(part.content_id)}: {error}") from None


def _mime_problem(header: Header, description: str) -> Refused:
    route = header.route
    partial = PartialHeader(
        message_type=header.message_type,
        message_id=header.message_id,
        tpa_id=header.tpa_id,
        conversation_id=header.conversation_id,
        sender_uri=route.sender_uri,
        receiver_uri=route.receiver_uri,
        sequence_text="" if route.sequence_number is None else str(route.sequence_number),
    )
    return Refused(ErrorCode.MIME_PROBLEM, Field.MANIFEST, description, partial)
