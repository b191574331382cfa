"""A message of OASIS ebMS 2.0 as values: what the wire composes from and parses to."""

import re
from dataclasses import dataclass, field
from datetime import datetime

from msh.protocol.message import IDENTITY_BYTES, ErrorReport, Payload
from msh.protocol.received import are_of_copies
from msh.protocol.vocabulary import ErrorCode as InnerCode
from msh.protocol.vocabulary import Severity as InnerSeverity

from .signature import SignedReference
from .vocabulary import (
    ERROR_CONTEXT,
    Actor,
    ErrorCode,
    FaultCode,
    Kind,
    MessageStatus,
    OrderStatus,
    Severity,
    Stage,
)

ERROR_LIMIT = 10
"""Errors in one ErrorList of ours (EB-056)."""
LAST_SEQUENCE_NUMBER = 99_999_999

_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:\S+")


@dataclass(frozen=True, slots=True)
class PartyId:
    value: str
    type: str = ""


@dataclass(frozen=True, slots=True)
class Party:
    """The content of From or To. All its ids name one party (EB-029)."""

    party_ids: tuple[PartyId, ...]
    role: str = ""


@dataclass(frozen=True, slots=True)
class Service:
    value: str
    type: str = ""


@dataclass(frozen=True, slots=True)
class MessageHeader:
    """`time_to_live` is the moment after which the message is not delivered (EB-040)."""

    from_party: Party
    to_party: Party
    cpa_id: str
    conversation_id: str
    service: Service
    action: str
    message_id: str
    timestamp: datetime
    ref_to_message_id: str = ""
    time_to_live: datetime | None = None
    eliminates_duplicates: bool = False
    description: str = ""

    @property
    def kind(self) -> Kind:
        return Kind.of(self.service.value, self.action)


@dataclass(frozen=True, slots=True)
class AckRequested:
    signed: bool = False
    actor: Actor = Actor.TO_PARTY_MSH


@dataclass(frozen=True, slots=True)
class MessageOrder:
    sequence_number: int
    status: OrderStatus = OrderStatus.CONTINUE


@dataclass(frozen=True, slots=True)
class Acknowledgment:
    """The block. `timestamp`, when the message was taken, is None where the peer gave none.
    `digests`: the ds:References of what it acknowledges (EB-098)."""

    ref_to_message_id: str
    timestamp: datetime | None
    actor: Actor = Actor.TO_PARTY_MSH
    party_ids: tuple[PartyId, ...] = ()
    digests: tuple[SignedReference, ...] = ()


@dataclass(frozen=True, slots=True)
class Error:
    """One Error of an ErrorList. A code that is not of ebMS stays as it is (EB-057)."""

    code: str
    severity: Severity = Severity.ERROR
    location: str = ""
    description: str = ""
    code_context: str = ERROR_CONTEXT


@dataclass(frozen=True, slots=True)
class Reference:
    """An entry of the Manifest. `content_id` is empty where `href` is no cid: (EB-049). `role` and
    `schemas` (location and version of each) are read only, to tell a copy by them (EB-101)."""

    href: str
    content_id: str = ""
    description: str = ""
    role: str = ""
    schemas: tuple[tuple[str, str], ...] = ()

    @property
    def is_cid(self) -> bool:
        """Whether it is a URI of the scheme cid, also one that names no part: "cid:"."""
        return self.href[:4].lower() == "cid:"


@dataclass(frozen=True, slots=True)
class StatusResponse:
    """`timestamp` is when the message was received, None if it is not known here (EB-144)."""

    ref_to_message_id: str
    status: MessageStatus
    timestamp: datetime | None = None


@dataclass(frozen=True, slots=True)
class AnswerTo:
    """The answer of a partner to one message of ours. `message_id` is empty if the answer does not
    name it."""

    message_id: str
    acknowledged: bool
    errors: tuple[Error, ...] = ()


@dataclass(frozen=True, slots=True)
class Message:
    """A message of any kind. An Acknowledgment may stand on a business message (EB-088), and an
    ErrorList beside an Acknowledgment (EB-060)."""

    header: MessageHeader
    ack_requested: tuple[AckRequested, ...] = ()
    sync_reply: bool = False
    order: MessageOrder | None = None
    acknowledgments: tuple[Acknowledgment, ...] = ()
    errors: tuple[Error, ...] = ()
    manifest: tuple[Reference, ...] = ()
    status_request: str = ""
    """The MessageId that a StatusRequest asks for."""
    status_response: StatusResponse | None = None
    signed: bool = False
    """Whether there is a ds:Signature in the header. Nothing is verified here."""

    def acknowledging(self, message_id: str) -> tuple[Acknowledgment, ...]:
        """The blocks about a message of ours, as `answers` has them."""
        if self.header.kind.is_signal:
            return self.acknowledgments
        header_ref = self.header.ref_to_message_id
        return tuple(
            one
            for one in self.acknowledgments
            if (one.ref_to_message_id or header_ref) == message_id
        )

    @property
    def answers(self) -> tuple["AnswerTo", ...]:
        """Return the answers to messages of ours, one for each message. In a signal the header
        decides which message it is about, and a block stands for it where a peer leaves it out. On
        a message of a business the header names what the business refers to: each block decides for
        itself (EB-086, EB-088)."""
        header_ref = self.header.ref_to_message_id
        named = [one.ref_to_message_id for one in self.acknowledgments]
        if self.header.kind.is_signal:
            about = header_ref or next(filter(None, named), "")
            answer = AnswerTo(about, bool(named), self.errors)
            return (answer,) if named or self.errors else ()
        acknowledged = [one or header_ref for one in named]
        about_errors = [header_ref] if self.errors else []
        return tuple(
            AnswerTo(one, one in acknowledged, self.errors if one == header_ref else ())
            for one in dict.fromkeys((*acknowledged, *about_errors))
        )


@dataclass(frozen=True, slots=True)
class Defect:
    """Something wrong in a message that was read: an error to report, and the row of the
    requirements it breaks. An agreement may let it pass if it is `waivable`. `reason`: what
    operators are told, if it is more than the error says."""

    rule: str
    stage: Stage
    error: Error
    waivable: bool = False
    reason: str = ""


@dataclass(frozen=True, slots=True)
class ReceivedMessage:
    """A message as parsed, with whatever is wrong in it.

    `content_digest` (32 bytes) is the same for every copy, however it is written and packed, and
    whatever its Timestamp, TimeToLive or Signature (EB-101): IDENTITY_BYTES of what identifies it
    in its envelope, then as many of its payloads. `envelope` has the bytes as they came (EB-026).
    `notes` are sentences for operators about what was taken leniently. `signed_by_partner` has the
    References of its signature, if that was verified: then `message` is what they cover, but for
    what is for the next node alone (EB-166). `encrypted`: the Content-IDs of payloads that came as
    EncryptedData (EB-185).
    """

    message: Message
    payloads: tuple[Payload, ...]
    content_digest: bytes
    envelope: bytes = field(repr=False)
    defects: tuple[Defect, ...] = ()
    notes: tuple[str, ...] = ()
    signed_by_partner: tuple[SignedReference, ...] = ()
    encrypted: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class SoapFault:
    """`error_codes` are those that stand in its detail: NHS Spine says there what failed, and an
    agreement may call some of them retryable (EB-067)."""

    code: FaultCode
    text: str = ""
    error_codes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PartialHeader:
    """The readable part of a header that cannot be used. Fields that cannot be read are empty."""

    kind: Kind = Kind.BUSINESS
    from_party: Party = Party(())
    to_party: Party = Party(())
    cpa_id: str = ""
    conversation_id: str = ""
    message_id: str = ""


def errors_to_report(
    defects: tuple[Defect, ...], lenient: frozenset[str] = frozenset()
) -> tuple[Error, ...]:
    """The errors to answer with: those of the first check that fails, ten at most (EB-056,
    EB-065). `lenient` has the rows that the agreement only notes."""
    if not defects:
        return ()
    wrong = [each for each in defects if not (each.waivable and each.rule in lenient)]
    first = min((each.stage for each in wrong), default=None)
    return tuple(each.error for each in wrong if each.stage is first)[:ERROR_LIMIT]


def damage(defects: tuple[Defect, ...], lenient: frozenset[str]) -> tuple[Defect, ...]:
    """Why the payloads cannot be compared with those of another copy: a MIME package that does not
    hold what its Manifest names, or cannot be decoded."""
    return tuple(
        each
        for each in defects
        if each.error.code == ErrorCode.MIME_PROBLEM
        and not (each.waivable and each.rule in lenient)
    )


def is_copy(received: ReceivedMessage, digest: bytes, lenient: frozenset[str]) -> bool:
    """Whether a message is a copy of the one with this stored digest (EB-112)."""
    return are_of_copies(digest_to_keep(received, lenient), digest)


def digest_to_keep(received: ReceivedMessage, lenient: frozenset[str]) -> bytes:
    """Return the digest by which copies of the message are recognised: only the first half of its
    content digest if it is damaged."""
    damaged = damage(received.defects, lenient)
    return received.content_digest[:IDENTITY_BYTES] if damaged else received.content_digest


def highest_severity(errors: tuple[Error, ...]) -> Severity:
    """EB-054."""
    grave = any(error.severity is Severity.ERROR for error in errors)
    return Severity.ERROR if grave else Severity.WARNING


def is_uri(value: str) -> bool:
    """Whether an id without a type can stand by itself: SCHEME:REST (EB-030, EB-034)."""
    return _URI.fullmatch(value) is not None


def reports_of(errors: tuple[Error, ...]) -> tuple[ErrorReport, ...]:
    """Errors that a partner reports, in the inner language. A code that is none of ours, or of
    another context, is kept as it stood and counts by its severity (EB-057)."""
    return tuple(map(_report, errors))


def _report(error: Error) -> ErrorReport:
    known = error.code_context == ERROR_CONTEXT and error.code in set(ErrorCode)
    return ErrorReport(
        code=InnerCode(error.code) if known else InnerCode.UNKNOWN,
        severity=_SEVERITIES[error.severity],
        location=error.location,
        description=error.description,
        code_text="" if known else error.code,
        code_context="" if error.code_context == ERROR_CONTEXT else error.code_context,
    )


_SEVERITIES = {
    Severity.WARNING: InnerSeverity.WARNING,
    Severity.ERROR: InnerSeverity.HARD_ERROR,
}
