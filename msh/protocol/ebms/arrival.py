"""The decision about an ebMS message that was parsed and attributed to an agreement: the checks in
their order (EB-065).

MIME, the signature, header and parties, then whether the message is known, then encryption,
the agreement's terms and the TimeToLive, then Manifest and order, then our own limits. The first
check that fails decides. Only a copy of a known message is answered even if its MIME package was
damaged on the way, or its signature does not fit any more: it is what was taken (EB-112).
"""

from dataclasses import dataclass, replace
from datetime import datetime

from msh.protocol import effects as do
from msh.protocol.admission import Postponed
from msh.protocol.flight import arrival, conversation
from msh.protocol.flight.arrival import Effects, MessageArrived, Terms
from msh.protocol.flight.conversation import Conversation
from msh.protocol.flight.serial import Order
from msh.protocol.kinds import IncidentKind
from msh.protocol.message import Field
from msh.protocol.receiver import Known
from msh.protocol.vocabulary import ErrorCode as InnerCode

from .agreement import Agreed, breaches, tolerated, wrong_parties
from .encryption import MANIFEST, unencrypted
from .message import Defect, Error, MessageHeader, ReceivedMessage, damage, errors_to_report
from .proof import SIGNATURE, unproven, unsignable
from .vocabulary import ErrorCode, OrderStatus, Stage

_MESSAGE_DATA = "/SOAP:Envelope/SOAP:Header/eb:MessageHeader/eb:MessageData"
_ORDER = "/SOAP:Envelope/SOAP:Header/eb:MessageOrder"

_WIRE_CODES = {
    InnerCode.MESSAGE_ID_REUSED: ErrorCode.INCONSISTENT,
    InnerCode.SEQUENCE_GAP: ErrorCode.INCONSISTENT,
    InnerCode.SEQUENCE_STALE: ErrorCode.INCONSISTENT,
    InnerCode.SEQUENCE_CONFLICT: ErrorCode.INCONSISTENT,
}
_BEFORE_ID = {
    Known.NO: (Stage.MIME, Stage.SIGNATURE, Stage.HEADER),
    Known.OTHER: (Stage.SIGNATURE, Stage.HEADER),
    Known.SAME: (Stage.HEADER,),
}
"""What is checked before a known MessageId decides."""
_LOCATIONS = {
    InnerCode.MESSAGE_ID_REUSED: f"{_MESSAGE_DATA}/eb:MessageId",
    InnerCode.TIME_TO_LIVE_EXPIRED: f"{_MESSAGE_DATA}/eb:TimeToLive",
}


@dataclass(frozen=True, slots=True)
class Ruling:
    """`errors` are those of the MessageError to answer with, if any. `notes` are for operators:
    what was let pass."""

    effects: Effects
    errors: tuple[Error, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def code(self) -> str:
        """The code of the first error in the draft's vocabulary; "" if there is none."""
        for effect in self.effects:
            if isinstance(effect, do.QueueError):
                return effect.code
        return self.errors[0].code if self.errors else ""

    @property
    def postponed(self) -> do.QueueError | None:
        """The message is to be sent again later: no Error says so, but a status (EB-103)."""
        for effect in self.effects:
            if isinstance(effect, do.QueueError) and effect.code is InnerCode.TRANSIENT_ERROR:
                return effect
        return None


def event_of(
    received: ReceivedMessage,
    *,
    known: Known,
    answered_by_error: bool,
    postponed: Postponed | None,
    now: datetime,
    undelivered: bool = False,
    refers_to_unknown: bool = False,
) -> MessageArrived:
    message = received.message
    end = message.header.time_to_live
    return MessageArrived(
        message.header.message_id,
        known=known,
        asks_ack=bool(message.ack_requested),
        eliminates=message.header.eliminates_duplicates,
        asks_sync=message.sync_reply,
        answered_by_error=answered_by_error,
        expired=end is not None and end <= now,
        postponed=postponed,
        undelivered=undelivered,
        refers_to_unknown=refers_to_unknown,
    )


def order_of(received: ReceivedMessage, agreed: Agreed) -> Order | None:
    """Return the MessageOrder of the message. None if it is taken without order, or is refused
    because it has none."""
    order = received.message.order
    if order is None or not agreed.ordered:
        return None
    return Order(order.sequence_number, order.status is OrderStatus.RESET)


def decide(
    received: ReceivedMessage,
    agreed: Agreed,
    event: MessageArrived,
    before: Conversation,
    *,
    now: datetime,
) -> tuple[Conversation, Ruling]:
    """Decide about a message: what is stored and how it is answered. `event.postponed` is checked
    last. `before` and the first result are its conversation, which a message without order leaves
    as it is."""
    checked = _checked(received, agreed, event)
    if isinstance(checked, Ruling):
        return before, checked
    terms = Terms(agreed.ordered, "EB-133" in agreed.lenient, agreed.horizon)
    order = order_of(received, agreed)
    if order is None:
        return before, _ruling(arrival.unordered(event, terms), checked)
    after, effects = conversation.step(before, replace(event, order=order), order, terms, now=now)
    return after, _ruling(effects, checked)


def _checked(
    received: ReceivedMessage, agreed: Agreed, event: MessageArrived
) -> Ruling | tuple[str, ...]:
    """The ruling, if one can be made without order and limits; else the notes."""
    header = received.message.header
    defects = (
        *tolerated(received.defects, agreed),
        *unproven(received, agreed),
        *unencrypted(received, agreed),
    )
    early = tuple(one for one in defects if one.stage in _BEFORE_ID[event.known])
    errors = errors_to_report(early, agreed.lenient) or wrong_parties(
        agreed, header.from_party, header.to_party
    )
    if errors:
        return _refused(header, errors, early)
    if event.known is not Known.NO:
        return _ruling(arrival.of_known(event), _of_damaged_copy(defects, agreed))
    secured = tuple(one for one in defects if one.stage is Stage.SECURITY)
    terms = (
        *unsignable(received, agreed),
        *breaches(received.message, agreed),
        *_unknown_reference(event),
    )
    late = tuple(one for one in defects if one.stage > Stage.SECURITY)
    errors = errors_to_report(secured, agreed.lenient)
    if errors := errors or _errors_of_new(received, agreed, event, terms, late):
        return _refused(header, errors)
    return (*received.notes, *_passed((*early, *secured, *terms, *late)))


def _of_damaged_copy(defects: tuple[Defect, ...], agreed: Agreed) -> tuple[str, ...]:
    return tuple(
        f"a copy is damaged: {one.error.description}" for one in damage(defects, agreed.lenient)
    )[:1]


def _unknown_reference(event: MessageArrived) -> tuple[Defect, ...]:
    if not event.refers_to_unknown:
        return ()
    text = "RefToMessageId refers to a message that is unknown here"
    place = f"{_MESSAGE_DATA}/eb:RefToMessageId"
    error = Error(ErrorCode.VALUE_NOT_RECOGNIZED, location=place, description=text)
    return (Defect("EB-039", Stage.HEADER, error),)


def _errors_of_new(
    received: ReceivedMessage,
    agreed: Agreed,
    event: MessageArrived,
    terms: tuple[Defect, ...],
    late: tuple[Defect, ...],
) -> tuple[Error, ...]:
    if errors := errors_to_report(terms, agreed.lenient):
        return errors
    if errors := _ruling(arrival.refused(event, Terms())).errors:
        return errors
    if errors := errors_to_report(late, agreed.lenient):
        return errors
    if received.message.order is None or agreed.ordered or "EB-133" in agreed.lenient:
        return ()
    text = "the agreement does not allow MessageOrder"
    return (Error(ErrorCode.NOT_SUPPORTED, location=_ORDER, description=text),)


def _refused(
    header: MessageHeader, errors: tuple[Error, ...], defects: tuple[Defect, ...] = ()
) -> Ruling:
    """The refusal of a damaged package is not kept: its content is unknown, the next copy may be
    intact, and is decided by itself. Nor is that of a signature, or of what cannot be decrypted:
    else anybody could have a message of the partner refused (EB-177, EB-187)."""
    first = errors[0]
    if first.code == ErrorCode.MIME_PROBLEM:
        return Ruling((), errors)
    if first.location in (SIGNATURE, MANIFEST) and first.code == ErrorCode.SECURITY_FAILURE:
        reasons = (one.reason for one in defects if one.error == first and one.reason)
        reason = next(reasons, first.description)
        about = (IncidentKind.SIGNATURE_REFUSED, header.message_id, reason)
        return Ruling((do.OpenIncident(*about),), errors)
    return Ruling((do.KeepRefusal(),), errors)


def _ruling(effects: Effects, notes: tuple[str, ...] = ()) -> Ruling:
    queued = (one for one in effects if isinstance(one, do.QueueError))
    return Ruling(effects, tuple(map(_error, queued)), notes)


def _error(effect: do.QueueError) -> Error:
    return Error(
        _WIRE_CODES.get(effect.code, effect.code),
        location=_location(effect),
        description=effect.description,
    )


def _location(effect: do.QueueError) -> str:
    if effect.field is Field.SEQUENCE_NUMBER:
        return f"{_ORDER}/eb:SequenceNumber"
    return _LOCATIONS.get(effect.code, "/SOAP:Envelope")


def _passed(defects: tuple[Defect, ...]) -> tuple[str, ...]:
    """Defects that nobody was refused for."""
    return tuple(f"{one.rule}: {one.error.description}" for one in defects)
