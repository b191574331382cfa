"""Message to envelope: strict, nothing that our reader would refuse or read as another."""

from collections.abc import Iterable
from datetime import datetime
from functools import lru_cache
from xml.sax.saxutils import escape, quoteattr

from msh.protocol.ebms.message import (
    ERROR_LIMIT,
    LAST_SEQUENCE_NUMBER,
    Acknowledgment,
    Error,
    Message,
    MessageHeader,
    Party,
    PartyId,
    Reference,
    Service,
    StatusResponse,
    highest_severity,
)
from msh.protocol.ebms.signature import NEXT, NEXT_MSH, SignedReference, Transform
from msh.protocol.ebms.vocabulary import SERVICE, Actor, Kind, Severity
from msh.protocol.message import MESSAGE_ID_LIMIT
from msh.wire.text import prose
from msh.wire.values import VALUE_LIMIT, in_utc, strict

from .names import DS, EB, SOAP, SOAP_SCHEMA, VERSION, XLINK, XSI

_ENVELOPE = (
    '<?xml version="1.0" encoding="UTF-8"?>\n'
    f'<SOAP:Envelope xmlns:SOAP="{SOAP}" xmlns:eb="{EB}" xmlns:xlink="{XLINK}"'
    f' xmlns:xsi="{XSI}" xsi:schemaLocation="{SOAP} {SOAP_SCHEMA} {EB} {EB}">\n'
    "<SOAP:Header>\n{}</SOAP:Header>\n<SOAP:Body>\n{}</SOAP:Body>\n</SOAP:Envelope>\n"
)
_HEAD = f'eb:version="{VERSION}" SOAP:mustUnderstand="1"'
_PROSE_LIMIT = 1000  # characters of a Description of ours
_OF_ACTOR = "ancestor-or-self::node()[@SOAP:actor=&quot;{}&quot;]"
_XPATH = (
    f'<ds:XPath xmlns:SOAP="{SOAP}">'
    f"not({_OF_ACTOR.format(NEXT_MSH)} | {_OF_ACTOR.format(NEXT)})</ds:XPath>"
)
"""The one expression that an allowed signature has."""


def write(message: Message) -> bytes:
    """The envelope, UTF-8. Raises ValueError, naming the place, for a message that breaks a rule
    of the dialect or would not be read back as it is."""
    _check(message)
    header = "".join(
        (
            _message_header(message.header),
            *_optional_blocks(message),
            *map(_acknowledgment, message.acknowledgments),
            _error_list(message.errors),
        )
    )
    body = "".join(
        (
            _manifest(message.manifest),
            _status_request(message.status_request),
            _status_response(message.status_response),
        )
    )
    return _ENVELOPE.format(header, body).encode()


def _check(message: Message) -> None:
    """Raise an error for what the dialect forbids, and for elements that only other kinds of
    messages may have (EB-035, EB-045, EB-096, EB-145)."""
    header, kind = message.header, message.header.kind
    if header.service.value == SERVICE and not kind.is_signal:
        raise ValueError(f"the reserved Service has no Action {header.action!r}")
    has = {
        "an Acknowledgment": (bool(message.acknowledgments), kind is Kind.ACKNOWLEDGMENT),
        "an ErrorList": (bool(message.errors), kind is Kind.MESSAGE_ERROR),
        "a StatusRequest": (bool(message.status_request), kind is Kind.STATUS_REQUEST),
        "a StatusResponse": (message.status_response is not None, kind is Kind.STATUS_RESPONSE),
    }
    for name, (there, needed) in has.items():
        if there != needed:
            raise ValueError(f"a {kind} message {'cannot have' if there else 'needs'} {name}")
    if not kind.is_signal:
        return
    if message.ack_requested or message.manifest or message.order or header.eliminates_duplicates:
        raise ValueError(f"a {kind} has no AckRequested, Manifest, order or DuplicateElimination")
    asks = kind in (Kind.PING, Kind.STATUS_REQUEST)
    if asks == bool(header.ref_to_message_id):
        raise ValueError(f"a {kind} has {'no' if asks else 'a'} RefToMessageId")


def _message_header(header: MessageHeader) -> str:
    lines = (
        _party("From", header.from_party),
        _party("To", header.to_party),
        _text("CPAId", header.cpa_id),
        _text("ConversationId", header.conversation_id),
        _service(header.service),
        _text("Action", header.action),
        "<eb:MessageData>",
        _text("MessageId", header.message_id, MESSAGE_ID_LIMIT),
        _instant("Timestamp", header.timestamp),
        header.ref_to_message_id
        and _text("RefToMessageId", header.ref_to_message_id, MESSAGE_ID_LIMIT),
        header.time_to_live and _instant("TimeToLive", header.time_to_live),
        "</eb:MessageData>",
        header.eliminates_duplicates and "<eb:DuplicateElimination/>",
        _description(header.description),
    )
    inner = "\n".join(line for line in lines if line)
    return f"<eb:MessageHeader {_HEAD}>\n{inner}\n</eb:MessageHeader>\n"


# These are the agreement's, the same in all its messages and signals.
@lru_cache(maxsize=1024)
def _party(name: str, party: Party) -> str:
    if not party.party_ids:
        raise ValueError(f"{name}: PartyId is missing")
    role = _text("Role", party.role) if party.role else ""
    return f"<eb:{name}>{_party_ids(party.party_ids)}{role}</eb:{name}>"


@lru_cache(maxsize=1024)
def _party_ids(party_ids: tuple[PartyId, ...]) -> str:
    return "".join(_typed("PartyId", each.value, each.type) for each in party_ids)


@lru_cache(maxsize=1024)
def _service(service: Service) -> str:
    if any(character.isspace() for character in service.value):
        raise ValueError(f"Service: {service.value[:60]!r} has white space")  # EB-034
    return _typed("Service", service.value, service.type)


def _typed(name: str, value: str, kind: str) -> str:
    """A value with its type. Whether it needs one is for the agreement to say (EB-030)."""
    attribute = f" eb:type={quoteattr(strict(kind, VALUE_LIMIT))}" if kind else ""
    return _text(name, value, attribute=attribute)


def _text(name: str, value: str, limit: int = VALUE_LIMIT, *, attribute: str = "") -> str:
    if not value:
        raise ValueError(f"{name} is missing")
    try:
        return f"<eb:{name}{attribute}>{escape(strict(value, limit))}</eb:{name}>"
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None


def _instant(name: str, value: datetime) -> str:
    """UTC, to the second (EB-037)."""
    text = in_utc(value).replace(tzinfo=None).isoformat(timespec="seconds")
    return f"<eb:{name}>{text}Z</eb:{name}>"


def _description(text: str) -> str:
    text = prose(text)[:_PROSE_LIMIT]
    return f'<eb:Description xml:lang="en">{escape(text)}</eb:Description>' if text else ""


def _optional_blocks(message: Message) -> Iterable[str]:
    if message.sync_reply:
        yield f'<eb:SyncReply {_HEAD} SOAP:actor="{Actor.NEXT}"/>\n'
    if message.order:
        number = message.order.sequence_number
        if not 0 <= number <= LAST_SEQUENCE_NUMBER:
            raise ValueError(f"SequenceNumber: {number} is not 0 to {LAST_SEQUENCE_NUMBER}")
        yield (
            f'<eb:MessageOrder {_HEAD}><eb:SequenceNumber eb:status="{message.order.status}">'
            f"{number}</eb:SequenceNumber></eb:MessageOrder>\n"
        )
    for asked in message.ack_requested:
        signed = "true" if asked.signed else "false"
        yield f'<eb:AckRequested {_HEAD} SOAP:actor="{asked.actor}" eb:signed="{signed}"/>\n'


def _acknowledgment(block: Acknowledgment) -> str:
    if block.timestamp is None:
        raise ValueError("Acknowledgment: Timestamp is missing")
    lines = (
        f'<eb:Acknowledgment {_HEAD} SOAP:actor="{block.actor}">',
        _instant("Timestamp", block.timestamp),
        _text("RefToMessageId", block.ref_to_message_id, MESSAGE_ID_LIMIT),
        block.party_ids and f"<eb:From>{_party_ids(block.party_ids)}</eb:From>",
        *map(signed_reference, block.digests),
        "</eb:Acknowledgment>\n",
    )
    return "\n".join(line for line in lines if line)


def signed_reference(reference: SignedReference) -> str:
    """A ds:Reference as it can stand in any document, its XPath as EB-166 has it."""
    transforms = "".join(map(_transform, reference.transforms))
    return (
        f'<ds:Reference xmlns:ds="{DS}" URI={quoteattr(reference.uri)}>'
        f"{transforms and f'<ds:Transforms>{transforms}</ds:Transforms>'}"
        f"<ds:DigestMethod Algorithm={quoteattr(reference.method)}/>"
        f"<ds:DigestValue>{escape(reference.value)}</ds:DigestValue></ds:Reference>"
    )


def _transform(transform: Transform) -> str:
    inner = _XPATH if transform.expression else ""
    return f"<ds:Transform Algorithm={quoteattr(transform.algorithm)}>{inner}</ds:Transform>"


def _error_list(errors: tuple[Error, ...]) -> str:
    if not errors:
        return ""
    if len(errors) > ERROR_LIMIT:
        raise ValueError(f"ErrorList: {len(errors)} errors, at most {ERROR_LIMIT}")
    grave = highest_severity(errors)
    inner = "\n".join(map(_error, errors))
    return f'<eb:ErrorList {_HEAD} eb:highestSeverity="{grave}">\n{inner}\n</eb:ErrorList>\n'


def _error(error: Error) -> str:
    attributes = {
        "codeContext": error.code_context,
        "errorCode": error.code,
        "severity": str(Severity(error.severity)),
        "location": prose(error.location)[:_PROSE_LIMIT],
    }
    if not error.code:
        raise ValueError("Error: errorCode is missing")
    written = "".join(
        f" eb:{name}={quoteattr(strict(value, VALUE_LIMIT))}"
        for name, value in attributes.items()
        if value
    )
    return f"<eb:Error{written}>{_description(error.description)}</eb:Error>"


def _manifest(references: tuple[Reference, ...]) -> str:
    if not references:
        return ""
    inner = "\n".join(map(_reference, references))
    return f'<eb:Manifest eb:version="{VERSION}">\n{inner}\n</eb:Manifest>\n'


def _reference(reference: Reference) -> str:
    if not reference.href:
        raise ValueError("Reference: xlink:href is missing")
    href = quoteattr(strict(reference.href, VALUE_LIMIT * 3))
    inner = _description(reference.description)
    return f'<eb:Reference xlink:type="simple" xlink:href={href}>{inner}</eb:Reference>'


def _status_request(message_id: str) -> str:
    if not message_id:
        return ""
    inner = _text("RefToMessageId", message_id, MESSAGE_ID_LIMIT)
    return f'<eb:StatusRequest eb:version="{VERSION}">{inner}</eb:StatusRequest>\n'


def _status_response(response: StatusResponse | None) -> str:
    if response is None:
        return ""
    inner = _text("RefToMessageId", response.ref_to_message_id, MESSAGE_ID_LIMIT)
    if response.timestamp:
        inner += _instant("Timestamp", response.timestamp)
    head = f'eb:version="{VERSION}" eb:messageStatus="{response.status}"'
    return f"<eb:StatusResponse {head}>{inner}</eb:StatusResponse>\n"
