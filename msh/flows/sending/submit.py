"""Application → MSH: store the message first (000 §2.1.3 (1)), send it later."""

import hashlib
import uuid
from collections.abc import Sequence
from typing import Any

from django.conf import settings
from django.db import transaction

from msh import wire
from msh.faults import CrashPoint, reach
from msh.flows.wake_up import WakeUp, wake_up
from msh.models import OutboundMessage
from msh.protocol.message import MESSAGE_ID_LIMIT, Payload
from msh.protocol.vocabulary import DeliverySemantics
from msh.store.sending.submissions import NewMessage, insert_message, use_outbound_link
from partners.models import Agreement, Partner


class SubmitRefused(ValueError):
    """The message cannot be sent as it is. `str()` names the field and the cure."""

    def __init__(self, reason: str, field: str = "") -> None:
        super().__init__(reason)
        self.field = field


class PartnerClosed(SubmitRefused):
    """An operator has refused submissions to the partner."""

    def __init__(self, partner: Partner) -> None:
        super().__init__(
            f"submissions to partner {partner} are refused until an operator accepts them again",
            "partner",
        )


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
    prepared = prepare(
        agreement,
        service_interface,
        action,
        payloads,
        message_id=message_id,
        conversation_id=conversation_id,
        ref_to_message_id=ref_to_message_id,
        semantics=semantics,
    )
    message, _ = keep(prepared)
    return message


def keep(new: NewMessage) -> tuple[OutboundMessage, bool]:
    """Queue what was prepared; its row, and whether it is new. Raises MessageIdReused."""
    message = OutboundMessage(
        agreement=new.agreement,
        message_id=new.message_id,
        semantics=new.semantics,
        conversation_id=new.conversation_id,
        service_interface=new.service_interface,
        action=new.action,
        ref_to_message_id=new.ref_to_message_id,
        content_digest=new.content_digest,
        boundary=new.boundary,
    )
    reach(CrashPoint.SUBMIT_BEFORE_COMMIT)
    stored = message
    if not insert_message(message, new.payloads, new.parts):
        stored = _first_or_known(message, new.payloads, new.parts)
    transaction.on_commit(_after_commit)
    return stored, stored is message


def prepare(
    agreement: Agreement,
    service_interface: str,
    action: str,
    payloads: Sequence[Payload],
    *,
    message_id: str | None = None,
    conversation_id: str | None = None,
    ref_to_message_id: str = "",
    semantics: str | None = None,
) -> NewMessage:
    """What is kept of these. Raises SubmitRefused."""
    given = f"{uuid.uuid4()}" if message_id is None else message_id
    message_id = _checked(given, "message_id", MESSAGE_ID_LIMIT)
    service_interface = _checked(service_interface, "service_interface", 255)
    action = _checked(action, "action", 255)
    conversation_id = _checked(conversation_id or message_id, "conversation_id", 255)
    ref_to_message_id = _checked(ref_to_message_id, "ref_to_message_id", 255, empty=True)
    semantics = _semantics(semantics or agreement.semantics)
    header = (service_interface, action, conversation_id, ref_to_message_id, semantics)
    payloads = [_named(payload, message_id, n) for n, payload in enumerate(payloads, start=1)]
    boundary = wire.new_boundary()
    return NewMessage(
        agreement=agreement,
        message_id=message_id,
        service_interface=service_interface,
        action=action,
        conversation_id=conversation_id,
        ref_to_message_id=ref_to_message_id,
        semantics=semantics,
        content_digest=_content_digest(agreement, header, payloads),
        boundary=boundary,
        payloads=payloads,
        parts=_parts(payloads, boundary),
    )


def _after_commit() -> None:
    reach(CrashPoint.SUBMIT_AFTER_COMMIT)
    wake_up(WakeUp.TRANSMIT)


def _first_or_known(
    message: OutboundMessage, payloads: Sequence[Payload], parts: Sequence[bytes]
) -> OutboundMessage:
    with transaction.atomic():
        link = use_outbound_link(message.agreement.partner)
        if insert_message(message, payloads, parts):
            return message
        known = OutboundMessage.objects.filter(link=link, message_id=message.message_id).first()
        if known is None:
            raise PartnerClosed(message.agreement.partner)
        return _same(known, bytes(message.content_digest))


def _same(known: OutboundMessage, digest: bytes) -> OutboundMessage:
    if bytes(known.content_digest) != digest:
        raise MessageIdReused(
            f"MessageId {known.message_id} was submitted before with other content: use a new"
            " MessageId for the changed message",
            "message_id",
        )
    return known


def _checked(value: str, name: str, limit: int, *, empty: bool = False) -> str:
    if not value and not empty:
        raise SubmitRefused(f"{name} is empty", name)
    if len(value) > limit:
        raise SubmitRefused(
            f"{name} has {len(value)} characters: at most {limit} are allowed", name
        )
    if value != value.strip() or not value.isprintable():
        raise SubmitRefused(
            f"{name} {value!r} has leading or trailing white space or control characters", name
        )
    return value


def _semantics(name: str) -> str:
    try:
        return DeliverySemantics(name).value
    except ValueError:
        names = ", ".join(semantics.value for semantics in DeliverySemantics)
        raise SubmitRefused(f"semantics {name!r}: must be one of {names}", "semantics") from None


def _named(payload: Any, message_id: str, position: int) -> Payload:
    where = f"payloads[{position}]"
    if not isinstance(payload, Payload):  # what applications hand over, nobody has checked
        kind = type(payload).__name__
        raise SubmitRefused(f"{where}: must be a Payload(content), not {kind}", where)
    _checked(payload.label, f"{where}.label", 255, empty=True)
    _checked(payload.description, f"{where}.description", 1000, empty=True)
    if payload.content_id:
        return payload
    token = hashlib.sha256(message_id.encode()).hexdigest()[:32]
    content_id = f"payload-{position}-{token}@msh"
    return Payload(
        payload.content, payload.content_type, content_id, payload.label, payload.description
    )


def _parts(payloads: Sequence[Payload], boundary: str) -> list[bytes]:
    size = sum(len(payload.content) for payload in payloads)
    if size > settings.MSH_MESSAGE_LIMIT:
        raise SubmitRefused(
            f"the payloads have {size} bytes: at most {settings.MSH_MESSAGE_LIMIT} are allowed"
            " (MSH_MESSAGE_LIMIT)",
            "payloads",
        )
    try:
        return wire.compose_parts(payloads, boundary)
    except ValueError as problem:
        raise SubmitRefused(str(problem), "payloads") from None


def _content_digest(
    agreement: Agreement, header: Sequence[str], payloads: Sequence[Payload]
) -> bytes:
    digest = hashlib.sha256(_delimited(str(agreement.pk), *header))
    for payload in payloads:
        digest.update(_delimited(payload.content_type, payload.label, payload.description))
        digest.update(b"%d:" % len(payload.content))
        digest.update(payload.content)
    return digest.digest()


def _delimited(*texts: str) -> bytes:
    joined = "".join([f"{len(text)}:{text}" for text in texts])
    if joined.isascii():
        return joined.encode()
    values = [text.encode() for text in texts]
    return b"".join([b"%d:%b" % (len(value), value) for value in values])
