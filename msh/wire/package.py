"""Header document and payloads in one multipart/related package: what every dialect shares."""

import hashlib
from collections.abc import Callable, Iterable, Sequence

from msh.protocol.errors import Unreadable
from msh.protocol.message import IDENTITY_BYTES, Payload
from msh.protocol.reason import Refusal

from . import mime

HEADER_LIMIT = 1024 * 1024
"""Bytes of a header document as sent (D60)."""


def header_document(part: mime.Part, limit: int) -> bytes:
    """The decoded header document. Raises Unreadable if it is too large."""
    if part.size > limit:
        raise Unreadable(f"the header document has {part.size} bytes: at most {limit}")
    try:
        return part.content()
    except ValueError as error:
        raise Unreadable(f"the header document: {error}", Refusal.PACKAGE) from None


def check_size(header_document: bytes) -> None:
    """Raises ValueError for a header document that is too large to be sent."""
    if len(header_document) > HEADER_LIMIT:
        raise ValueError(f"the header document is larger than {HEADER_LIMIT} bytes")


def _binary(payload: Payload) -> str:
    return mime.BINARY


def compose_parts(
    payloads: Sequence[Payload], boundary: str, *, more: Callable[[Payload], str] = _binary
) -> list[bytes]:
    """The wire form of each payload part, the bytes of the payload as they are.

    `more` gives the header lines besides Content-ID and Content-Type. Raises ValueError naming the
    payload that contains the boundary or cannot be named in a header, and for two of the same name
    or more than one package may have.
    """
    if len(payloads) >= mime.PART_LIMIT:
        raise ValueError(f"{len(payloads)} payloads: at most {mime.PART_LIMIT - 1}")
    content_ids = [payload.content_id for payload in payloads]
    if len(set(content_ids)) < len(content_ids):
        raise ValueError("two payloads have the same content id")
    last = len(payloads) - 1
    return [
        mime.compose_part(
            payload.content_id,
            payload.content_type,
            payload.content,
            boundary,
            last=index == last,
            more=more(payload),
        )
        for index, payload in enumerate(payloads)
    ]


def check_names(payloads: Sequence[Payload]) -> None:
    """Raises ValueError if `compose_parts` would refuse what names these payloads."""
    for payload in payloads:
        mime.check_part(payload.content_id, payload.content_type)


def content_digest(identity: Iterable[bytes], contents: Iterable[bytes]) -> bytes:
    """IDENTITY_BYTES of SHA-256 over what identifies a message in its header, then as many over
    its payloads. Both are equal in every copy of it (D45, EB-101)."""
    return identity_digest(identity) + identity_digest(contents)


def identity_digest(items: Iterable[bytes]) -> bytes:
    """One half of it."""
    return digest_of(items)[:IDENTITY_BYTES]


def digest_of(items: Iterable[bytes]) -> bytes:
    """SHA-256 over items, each after its length."""
    digest = hashlib.sha256()
    for item in items:
        digest.update(b"%d:" % len(item))
        digest.update(item)
    return digest.digest()


def normal_type(content_type: str) -> bytes:
    """Return the content type in a form that does not depend on the order and quoting of its
    parameters."""
    media = mime.media_type(content_type)
    return "\0".join((media.name, *map("=".join, sorted(media.parameters.items())))).encode()
