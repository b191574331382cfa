"""Application → MSH: store the message first (000 §2.1.3 (1)), send it later."""

import hashlib
import uuid
from collections.abc import Sequence
from dataclasses import replace

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from msh import wire
from msh.faults import CrashPoint, reach
from msh.flows import advance
from msh.flows.nudge import Nudge, nudge
from msh.models import OutboundMessage
from msh.protocol.message import MESSAGE_ID_LIMIT, Payload
from msh.protocol.vocabulary import DeliverySemantics
from partners.models import Agreement


class SubmitRefused(ValueError):
    """The message cannot be sent as it is. `str()` names the field and the cure."""


class PartnerClosed(SubmitRefused):
    """An operator has closed the partner to applications."""


class MessageIdReused(SubmitRefused):
    """The MessageId was submitted before, with other content."""


def submit(
    agreement: Agreement,
    service_interface: str,
    action: str,
    payloads: Sequence[Payload],
    *,
    message_id: str | None = None,
    conversation_id: str | None = None,
    ref_to_message_id: str = "",
    semantics: DeliverySemantics | None = None,
) -> OutboundMessage:
    """Queue a message in the caller's transaction, or in one of its own.

    Returns the stored row. The same MessageId with the same content returns the row of the first
    time; with other content it raises MessageIdReused. Raises SubmitRefused for what cannot be
    sent. No number is consumed: that happens at the first transmission (D18).
    """
    chosen = DeliverySemantics(semantics or agreement.semantics)
    message_id = _checked(message_id or f"{uuid.uuid4()}", "message_id", MESSAGE_ID_LIMIT)
    conversation_id = _checked(conversation_id or message_id, "conversation_id", 255)
    header = {
        "service_interface": _checked(service_interface, "service_interface", 255),
        "action": _checked(action, "action", 255),
        "conversation_id": conversation_id,
        "ref_to_message_id": _checked(ref_to_message_id, "ref_to_message_id", 255, empty=True),
        "semantics": chosen.value,
    }
    payloads = [_named(payload, message_id, n) for n, payload in enumerate(payloads, start=1)]
    message = OutboundMessage(
        agreement=agreement,
        message_id=message_id,
        submitted_at=timezone.now(),
        content_digest=_content_digest(agreement, header, payloads),
        boundary=wire.new_boundary(),
        **header,
    )
    parts = _parts(payloads, message.boundary)
    reach(CrashPoint.SUBMIT_BEFORE_COMMIT)
    if not advance.submitted(message, payloads, parts):
        message = _first_or_known(message, payloads, parts)
    transaction.on_commit(_after_commit)
    return message


def _after_commit() -> None:
    reach(CrashPoint.SUBMIT_AFTER_COMMIT)
    nudge(Nudge.CARRY)


def _first_or_known(
    message: OutboundMessage, payloads: Sequence[Payload], parts: Sequence[bytes]
) -> OutboundMessage:
    """What is written once a pair, or was written before."""
    with transaction.atomic():
        link = advance.use_outbound_link(message.agreement.partner)
        if advance.submitted(message, payloads, parts):
            return message
        known = OutboundMessage.objects.filter(link=link, message_id=message.message_id).first()
        if known is None:
            raise PartnerClosed(
                f"partner {message.agreement.partner} is closed to applications: an operator has to"
                " switch 'accept from applications' on"
            )
        return _same(known, bytes(message.content_digest))


def _same(known: OutboundMessage, digest: bytes) -> OutboundMessage:
    if bytes(known.content_digest) != digest:
        raise MessageIdReused(
            f"MessageId {known.message_id} was submitted before with other content:"
            " give the changed message a MessageId of its own"
        )
    return known


def _checked(value: str, name: str, limit: int, *, empty: bool = False) -> str:
    if not value and not empty:
        raise SubmitRefused(f"{name} is empty: give it a value")
    if len(value) > limit:
        raise SubmitRefused(f"{name} has {len(value)} characters: at most {limit} are allowed")
    if value != value.strip() or not value.isprintable():
        raise SubmitRefused(f"{name} {value!r} has white space at its ends or control characters")
    return value


def _named(payload: Payload, message_id: str, position: int) -> Payload:
    what = f"payload {position}"
    _checked(payload.label, f"the label of {what}", 255, empty=True)
    _checked(payload.description, f"the description of {what}", 1000, empty=True)
    if payload.content_id:
        return payload
    token = hashlib.sha256(message_id.encode()).hexdigest()[:32]
    return replace(payload, content_id=f"payload-{position}-{token}@msh")


def _parts(payloads: Sequence[Payload], boundary: str) -> list[bytes]:
    size = sum(len(payload.content) for payload in payloads)
    if size > settings.MSH_MESSAGE_LIMIT:
        raise SubmitRefused(
            f"the payloads have {size} bytes: at most {settings.MSH_MESSAGE_LIMIT} are allowed"
            " (MSH_MESSAGE_LIMIT)"
        )
    try:
        return wire.compose_parts(payloads, boundary)
    except ValueError as problem:
        raise SubmitRefused(str(problem)) from None


def _content_digest(
    agreement: Agreement, header: dict[str, str], payloads: Sequence[Payload]
) -> bytes:
    digest = hashlib.sha256()
    for value in (str(agreement.pk), *header.values()):
        digest.update(b"%d:" % len(value.encode()) + value.encode())
    for payload in payloads:
        for text in (payload.content_type, payload.label, payload.description):
            digest.update(b"%d:" % len(text.encode()) + text.encode())
        digest.update(b"%d:" % len(payload.content))
        digest.update(payload.content)
    return digest.digest()
