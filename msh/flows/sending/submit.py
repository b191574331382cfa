"""Application → MSH: store the message first (000 §2.1.3 (1)), send it later."""

import hashlib
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, TypedDict, Unpack

import orjson
from django.conf import settings
from django.db import connection, transaction

from msh import wire
from msh.faults import CrashPoint, reach
from msh.flows.wake_up import WakeUp, wake_up
from msh.models import OutboundMessage
from msh.protocol.message import MESSAGE_ID_LIMIT, Payload
from msh.protocol.vocabulary import DeliverySemantics
from msh.store.sending.submissions import NewMessage, insert_message, use_outbound_link
from msh.wire.dialect import dialect_named
from partners.models import Agreement, Partner

_SEMANTICS: Mapping[str, str] = {one: one.value for one in DeliverySemantics}


class Roles(TypedDict, total=False):
    """Only messages of some dialects have them: those of the agreement, unless they are given."""

    from_role: str | None
    to_role: str | None
    service_type: str | None


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
    **roles: Unpack[Roles],
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
        **roles,
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
        from_role=new.from_role,
        to_role=new.to_role,
        service_type=new.service_type,
    )
    reach(CrashPoint.SUBMIT_BEFORE_COMMIT)
    stored = message
    inserted = insert_message(message, new.payloads, new.parts)
    if inserted is None:
        stored = _first_or_known(message, new.payloads, new.parts)
    is_next = inserted is None or not inserted.is_behind or connection.in_atomic_block
    transaction.on_commit(partial(_after_commit, new, is_next=is_next))
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
    **roles: Unpack[Roles],
) -> NewMessage:
    """What is kept of these. Raises SubmitRefused."""
    if message_id is None:
        message_id = agreement.settings.message_id(agreement)
    _check(message_id, "message_id", MESSAGE_ID_LIMIT)
    _check(service_interface, "service_interface", 255)
    _check(action, "action", 255)
    conversation_id = conversation_id or message_id
    _check(conversation_id, "conversation_id", 255)
    if ref_to_message_id:
        _check(ref_to_message_id, "ref_to_message_id", 255)
    given = _given(agreement, roles)
    service_type = given.get("service_type", agreement.service_type)
    semantics = _semantics(agreement, semantics, (service_interface, service_type))
    named = _named(payloads, message_id)
    boundary = wire.new_boundary()
    parts = _parts(agreement, named, boundary)  # refuses content types that are no text
    header = (
        service_interface,
        action,
        conversation_id,
        ref_to_message_id,
        semantics,
        *map("=".join, given.items()),
    )
    return NewMessage(
        agreement=agreement,
        message_id=message_id,
        semantics=semantics,
        conversation_id=conversation_id,
        service_interface=service_interface,
        action=action,
        ref_to_message_id=ref_to_message_id,
        content_digest=_content_digest(agreement, header, named),
        boundary=boundary,
        payloads=named,
        parts=parts,
        from_role=given.get("from_role", agreement.our_role),
        to_role=given.get("to_role", agreement.their_role),
        service_type=service_type,
    )


def _semantics(agreement: Agreement, wanted: str | None, service: tuple[str, str]) -> str:
    """Those of the agreement unless others are wanted. `service`: ServiceInterface and its type."""
    name = wanted or agreement.semantics
    semantics = _SEMANTICS.get(name)
    if semantics is None:
        names = ", ".join(_SEMANTICS)
        raise SubmitRefused(f"semantics {name!r}: must be one of {names}", "semantics")
    if wrong := agreement.settings.why_not(agreement, service, semantics):
        field, why = wrong
        raise SubmitRefused(why, field)
    return semantics


def _given(agreement: Agreement, roles: Roles) -> dict[str, str]:
    """Those that are to be other than the agreement's. Raises SubmitRefused."""
    given = {name: str(value) for name, value in roles.items() if value is not None}
    for name, value in given.items():
        if not agreement.settings.has("service_type"):
            raise SubmitRefused(
                f"{name}: messages under agreement {agreement} of dialect {agreement.dialect}"
                " have none: omit it",
                name,
            )
        _check(value, name, 255)
    return given


def _after_commit(new: NewMessage, *, is_next: bool) -> None:
    """What is queued behind others is sent after them, and needs no wake-up. Not so if its own
    transaction goes on: they may all be sent before it commits."""
    reach(CrashPoint.SUBMIT_AFTER_COMMIT)
    partner_id = new.agreement.partner_id
    if new.flies:
        wake_up(flights=[partner_id])
    elif new.semantics == DeliverySemantics.BEST_EFFORT:  # it is on no link
        wake_up(WakeUp.TRANSMIT)
    elif is_next:
        wake_up(links=[partner_id])


def _first_or_known(
    message: OutboundMessage, payloads: Sequence[Payload], parts: Sequence[bytes]
) -> OutboundMessage:
    with transaction.atomic():
        link = use_outbound_link(message.agreement.partner)
        if insert_message(message, payloads, parts):
            return message
        known = OutboundMessage.objects.filter(link=link, message_id=message.message_id).first()
        if known is None and not Agreement.objects.filter(pk=message.agreement_id).exists():
            raise SubmitRefused(
                (f"agreement {message.agreement} was deleted in the meantime"), "agreement"
            )
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


def _check(value: str, name: str, limit: int) -> None:
    if not value:
        raise SubmitRefused(f"{name} is empty", name)
    if len(value) > limit:
        raise SubmitRefused(
            f"{name} has {len(value)} characters: at most {limit} are allowed", name
        )
    if value != value.strip() or not value.isprintable():
        raise SubmitRefused(
            f"{name} {value!r} has leading or trailing white space or control characters", name
        )


def _named(payloads: Sequence[Any], message_id: str) -> list[Payload]:
    """Each with a content id. What applications hand over, nobody has checked."""
    token = hashlib.sha256(message_id.encode()).hexdigest()[:32]
    named: list[Payload] = []
    for position, payload in enumerate(payloads, start=1):
        where = f"payloads[{position}]"
        if not isinstance(payload, Payload):
            kind = type(payload).__name__
            raise SubmitRefused(f"{where}: must be a Payload(content), not {kind}", where)
        if payload.label:
            _check(payload.label, f"{where}.label", 255)
        if payload.description:
            _check(payload.description, f"{where}.description", 1000)
        content_id = payload.content_id or f"payload-{position}-{token}@msh"
        named.append(
            Payload(
                payload.content,
                payload.content_type,
                content_id,
                payload.label,
                payload.description,
            )
        )
    return named


def _parts(agreement: Agreement, payloads: Sequence[Payload], boundary: str) -> list[bytes]:
    size = sum([len(payload.content) for payload in payloads])
    if size > settings.MSH_MESSAGE_LIMIT:
        raise SubmitRefused(
            f"the payloads have {size} bytes: at most {settings.MSH_MESSAGE_LIMIT} are allowed"
            " (MSH_MESSAGE_LIMIT)",
            "payloads",
        )
    try:
        return dialect_named(agreement.dialect).compose_parts(payloads, boundary)
    except ValueError as problem:
        raise SubmitRefused(str(problem), "payloads") from None


def _content_digest(
    agreement: Agreement, header: Sequence[str], payloads: Sequence[Payload]
) -> bytes:
    """Says whether two messages of one MessageId are the same."""
    facts = [(one.content_type, one.label, one.description, len(one.content)) for one in payloads]
    digest = hashlib.sha256(orjson.dumps((agreement.pk, header, facts)))
    for payload in payloads:
        digest.update(payload.content)
    return digest.digest()
