"""What is checked and composed of a message before it is stored.

What messages of an application have in common, their heading, is checked once for all of them.
"""

import hashlib
from collections.abc import Mapping, Sequence
from typing import TypedDict

import orjson
from django.conf import settings

from msh import wire
from msh.protocol.ebms.channel import (
    NotListed,
    channel_of,
    lists_anything,
    not_listed,
    type_meant,
    types_listed,
)
from msh.protocol.ebms.message import Service
from msh.protocol.message import MESSAGE_ID_LIMIT, Payload
from msh.protocol.reason import Refusal
from msh.protocol.vocabulary import DeliverySemantics
from msh.store.sending.submissions import Heading, NewMessage
from msh.wire.dialect import dialect_named
from partners.models import Agreement
from partners.models.channel import Direction

_SEMANTICS: Mapping[str, str] = {one: one.value for one in DeliverySemantics}


class Roles(TypedDict, total=False):
    """Only messages of some dialects have them: those of the agreement, unless they are given."""

    from_role: str | None
    to_role: str | None
    service_type: str | None


class SubmitRefused(ValueError):
    """The message cannot be sent as it is. `str()` names the field and the cure."""

    code = Refusal.INVALID

    def __init__(self, reason: str, field: str = "") -> None:
        super().__init__(reason)
        self.field = field


def prepare_heading(
    agreement: Agreement,
    service_interface: str,
    action: str,
    semantics: str | None,
    roles: Roles,
) -> Heading:
    """Semantics and roles are those of the channel or agreement, unless others are wanted. Raises
    SubmitRefused."""
    _check(service_interface, "service_interface", 255)
    _check(action, "action", 255)
    given = _given(agreement, roles)
    agreed = _agreed(agreement, service_interface, given.get("service_type"), action)
    service_type = given.get("service_type", agreed.service_type)
    semantics = _semantics(agreed, semantics, (service_interface, service_type))
    reliable = semantics == DeliverySemantics.ONCE_AND_ONLY_ONCE
    return Heading(
        agreement=agreement,
        agreement_id=agreement.pk,
        semantics=semantics,
        service_interface=service_interface,
        action=action,
        from_role=given.get("from_role", agreed.our_role),
        to_role=given.get("to_role", agreed.their_role),
        service_type=service_type,
        given=tuple(map("=".join, given.items())),
        flies=reliable and agreement.settings.flies,
        ordered=agreed.ordered,
    )


def prepare_message(
    heading: Heading,
    payloads: Sequence[Payload],
    message_id: str | None = None,
    conversation_id: str | None = None,
    ref_to_message_id: str = "",
) -> NewMessage:
    """It begins a conversation unless one is named. Raises SubmitRefused."""
    if message_id is None:
        message_id = heading.agreement.settings.message_id(heading.agreement)
    _check(message_id, "message_id", MESSAGE_ID_LIMIT)
    if conversation_id:
        _check(conversation_id, "conversation_id", 255)
    else:
        conversation_id = heading.agreement.settings.conversation_id(message_id)
    if ref_to_message_id:
        _check(ref_to_message_id, "ref_to_message_id", 255)
    named = _named(payloads, message_id)
    boundary = wire.new_boundary()
    parts = _parts(heading.agreement, named, boundary)  # refuses content types that are no text
    header = (
        heading.service_interface,
        heading.action,
        conversation_id,
        ref_to_message_id,
        heading.semantics,
        *heading.given,
    )
    digests = [hashlib.sha256(payload.content).digest() for payload in named]
    return NewMessage(
        heading,
        message_id,
        conversation_id,
        ref_to_message_id,
        _content_digest(heading.agreement.tpa_id, header, named, digests),
        boundary,
        named,
        parts,
        digests,
    )


def _agreed(agreement: Agreement, service: str, service_type: str | None, action: str) -> Agreement:
    """The agreement as it is for this Service and Action. Raises SubmitRefused for those that it
    does not list (EB-201)."""
    if not agreement.has_channels:
        return agreement
    every = agreement.channels.all()
    channels = [one for one in every if one.direction == Direction.OUT]
    if unlisted := not_listed(channels, service, action, lists=lists_anything(every)):
        raise _refused(agreement, service, action, unlisted)
    types = types_listed(channels, service, action)
    if types:
        service_type = _listed_type(agreement, types, service_type)
    channel = channel_of(channels, Service(service, service_type or ""), action)
    return channel.agreed if channel else agreement


def _listed_type(agreement: Agreement, types: tuple[str, ...], wanted: str | None) -> str:
    usual, named = agreement.service_type, ", ".join(types)
    if wanted is None:
        meant = type_meant(types, usual)
        if meant is None:
            why = f"agreement {agreement} lists {named} of this Service"
            raise SubmitRefused(f"service_type is missing: {why}", "service_type")
        return meant
    if "" not in types and wanted not in types:
        why = f"agreement {agreement} lists only {named} of this Service"
        raise SubmitRefused(f"service_type {wanted!r}: {why}", "service_type")
    return wanted


def _refused(agreement: Agreement, service: str, action: str, unlisted: NotListed) -> SubmitRefused:
    field, value = _FIELDS[unlisted.part], {"Service": service, "Action": action}
    named, allowed = f"{field} {value[unlisted.part]!r}", ", ".join(unlisted.allowed)
    if not allowed:
        why = f"agreement {agreement} lists nothing that we send"
        return SubmitRefused(f"{named}, action {action!r}: {why}", field)
    return SubmitRefused(f"{named}: agreement {agreement} lists only {allowed}", field)


_FIELDS = {"Service": "service_interface", "Action": "action"}


def _semantics(agreement: Agreement, wanted: str | None, service: tuple[str, str]) -> str:
    """`service`: ServiceInterface and its type."""
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
    """The roles that differ from the agreement's. Raises SubmitRefused."""
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


def _named(payloads: Sequence[object], message_id: str) -> list[Payload]:
    """Each with a content id. What applications hand over, nobody has checked."""
    token = hashlib.sha256(message_id.encode()).hexdigest()[:32]
    named: list[Payload] = []
    for position, payload in enumerate(payloads, start=1):
        if not isinstance(payload, Payload):
            where, kind = f"payloads[{position}]", type(payload).__name__
            raise SubmitRefused(f"{where}: must be a Payload(content), not {kind}", where)
        if payload.label:
            _check(payload.label, f"payloads[{position}].label", 255)
        if payload.description:
            _check(payload.description, f"payloads[{position}].description", 1000)
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
    tpa_id: str, header: Sequence[str], payloads: Sequence[Payload], digests: Sequence[bytes]
) -> bytes:
    """Says whether two messages of one MessageId are the same, in another database too."""
    facts = [
        (one.content_type, one.label, one.description, len(one.content), digest.hex())
        for one, digest in zip(payloads, digests, strict=True)
    ]
    return hashlib.sha256(orjson.dumps((tpa_id, header, facts))).digest()
