"""PARTNER → MSH: the bytes of one request in the draft's dialect, from reading them to the answer's
status."""

from collections.abc import Callable
from typing import NamedTuple

from django.db import DatabaseError, transaction

from msh import trace_hook, wire
from msh.faults import CrashPoint, reach
from msh.flows.receiving import overload
from msh.flows.sending import promised
from msh.flows.wake_up import WakeUp, wake_up, wake_up_for
from msh.models import OutboundState
from msh.protocol.effects import QueueError
from msh.protocol.errors import Refused, Unreadable
from msh.protocol.events import (
    AckOfOtherReceived,
    AckOfUnknownReceived,
    AckReceived,
    ErrorForOtherReceived,
    ErrorReceived,
    SenderEvent,
    SequenceErrorReceived,
    TransientErrorReceived,
)
from msh.protocol.kinds import Verdict
from msh.protocol.message import Header
from msh.protocol.reason import Refusal
from msh.protocol.received import ReceivedMessage
from msh.protocol.sequence import parse as parse_number
from msh.protocol.vocabulary import RESYNCHRONISE, ErrorCode, MessageType, Severity
from msh.store import capacity
from msh.store.receiving.accept import Accepted
from msh.store.receiving.fast_path import accept_at_once
from msh.store.receiving.messages import queue_error, receive_message
from msh.store.receiving.refusals import count_unrecorded, may_record, note, refusal_event
from msh.store.sending.acked import AckedLink
from msh.store.sending.links import OutboundLinks
from partners.models import Partner

from .incoming import TAKEN, Answer, Incoming, taken_at_once

__all__ = ["Answer", "receive", "receive_fast_path"]


class Sent(NamedTuple):
    """A message of ours that a signal refers to."""

    state: str
    outcome: str = ""


EventOf = Callable[[Partner, Header, str | None, Sent | None], SenderEvent]
"""(partner, header, MessageId in flight, the message it refers to if it is ours) → event."""


def receive_fast_path(partner: Partner, incoming: Incoming) -> Answer | None:
    """Take a reliable message or an Ack: the next message of its pair, and the Ack of the message
    in flight, in one statement or two. `partner` may be a cached one.

    Returns None, with nothing done, for all other input, and if the partner has changed: then the
    caller looks it up in the database and calls `receive`. Raises RefusedTooOften.
    """
    try:
        message = incoming.read(wire.parse_readable)
    except (Refused, Unreadable):
        return None
    header = message.header
    if message.damage or not partner.is_pair(header.route.sender_uri, header.route.receiver_uri):
        return None
    _trace(partner, header)
    match header.message_type:
        case MessageType.NORMAL if header.reliable:
            taken = accept_at_once(partner, message)
            if isinstance(taken, Accepted):
                return taken_at_once(partner.pk, taken)
            return _take_with_lock(taken, message) if taken else None
        case MessageType.ACKNOWLEDGEMENT:
            return _acknowledge_at_once(partner, header)
    return None


def receive(partner: Partner, incoming: Incoming) -> Answer:
    """Take a message or signal from `partner`; its answers are committed on return.

    Raises Unreadable for what cannot be read, or is not of this pair, and RefusedTooOften: nothing
    is stored then.
    """
    try:
        message = incoming.read(wire.parse_readable)
    except Refused as refused:
        return _refuse(partner, refused)
    if message.damage:
        return _take_damaged(partner, message, message.damage)
    header = message.header
    _require_pair(partner, header.route.sender_uri, header.route.receiver_uri)
    _trace(partner, header)
    match header.message_type:
        case MessageType.NORMAL:
            return _take_message(partner, message)
        case MessageType.ACKNOWLEDGEMENT:
            return _take_signal(partner, header, _ack_event)
        case MessageType.ERROR:
            return _take_signal(partner, header, _error_event)


def _take_damaged(
    partner: Partner, message: ReceivedMessage, damage: Refused | Unreadable
) -> Answer:
    """A copy of a known message gets the Ack again, damaged or not (000-013, D45): its sender still
    waits for it, and would be suspended by a refusal."""
    header = message.header
    of_the_pair = partner.is_pair(header.route.sender_uri, header.route.receiver_uri)
    try:
        if header.message_type.is_signal or not of_the_pair:
            raise damage
        answer = _take_message(partner, message)
    except Refused as refused:
        return _refuse(partner, refused)
    note(partner.pk, header.message_id, "Note", f"a copy is damaged: {damage}")
    return answer


def _trace(partner: Partner, header: Header) -> None:
    if trace_hook.recorder is not None:
        with trace_hook.harmless():
            kind = header.message_type
            about = header.ref_to_message_id if kind.is_signal else ""
            trace_hook.recorder.note_message(partner.pk, header.message_id, kind.value, about)


def _require_pair(partner: Partner, sender_uri: str, receiver_uri: str) -> None:
    """A signal of another pair is refused too: the partner's operators see the status, ours the
    history of the link, which has it once a minute, whatever it refers to (D55)."""
    if not partner.is_pair(sender_uri, receiver_uri):
        raise Unreadable(
            f"SenderURI {sender_uri} and ReceiverURI {receiver_uri} do not match the agreement"
            f" with partner {partner.name}",
            Refusal.AGREEMENT,
        )


def _refuse(partner: Partner, refused: Refused) -> Answer:
    """A message that was read, but says something impossible (D49)."""
    partial = refused.partial
    _require_pair(partner, partial.sender_uri, partial.receiver_uri)
    if partial.message_type and partial.message_type.is_signal:
        event = refusal_event(partial.message_type)
        note(partner.pk, partial.message_id, event, refused.description, code=refused.code)
        return Answer(TAKEN, refused.description)  # a signal is never answered
    error = QueueError(refused.code, refused.field, refused.description)
    queue_error(partner.pk, error, partial, parse_number(partial.sequence_text))
    wake_up(WakeUp.TRANSMIT)
    return Answer(TAKEN, refused.description)


def _take_message(partner: Partner, message: ReceivedMessage) -> Answer:
    try:
        return _take_with_lock(partner, message)
    except DatabaseError as error:
        if capacity.is_unwritable(error):
            overload.send_transient_error(partner, message.header)
        raise


def _take_with_lock(partner: Partner, message: ReceivedMessage) -> Answer:
    received = receive_message(partner, message)
    if received.routed:
        wake_up(WakeUp.TRANSMIT, WakeUp.FORWARD)
    elif received.accepted:
        wake_up(WakeUp.TRANSMIT, WakeUp.DELIVER)
    else:
        wake_up(WakeUp.TRANSMIT)
    return Answer(TAKEN, received.refusal)


def _acknowledge_at_once(partner: Partner, header: Header) -> Answer | None:
    """Take an Acknowledgement by the cache; else by reading, twice, for the worker often records
    the end of the POST at the same moment; else with the lock. None if the partner has changed."""
    link = AckedLink.cached(partner, header.ref_to_message_id)
    if link and _try_to_acknowledge(partner, header, link):
        return Answer(TAKEN)
    for _ in range(2):
        link = AckedLink.read(partner, header.ref_to_message_id)
        if _try_to_acknowledge(partner, header, link):
            return Answer(TAKEN)
        if partner.pk not in link.links:
            return None
        if not link.found_changed:
            break
    return _take_signal(partner, header, _ack_event)


def _try_to_acknowledge(partner: Partner, header: Header, link: AckedLink) -> bool:
    links = link.links
    flying = links.lane(partner.pk).in_flight if partner.pk in links else None
    if flying is None or flying.message_id != header.ref_to_message_id:
        return False
    sent = None if link.sent_state is None else Sent(link.sent_state)
    links.step(partner.pk, _ack_event(partner, header, flying.message_id, sent))
    then = promised.promise(links, partner.pk, link.following)
    reach(CrashPoint.ACK_BEFORE_COMMIT)
    if not link.write():
        return False
    reach(CrashPoint.ACK_AFTER_COMMIT)
    wake_up_for(links, [then] if then else [])
    return True


def _take_signal(partner: Partner, header: Header, event_of: EventOf) -> Answer:
    with transaction.atomic():
        links, row = OutboundLinks.lock_with_sent(partner.pk, header.ref_to_message_id)
        if partner.pk in links:
            lane = links.lane(partner.pk)
            flying = lane.in_flight.message_id if lane.in_flight else None
            sent = Sent(row.state, row.outcome) if row else None
            after = links.step(partner.pk, event_of(partner, header, flying, sent))
            is_noted = header.message_type is MessageType.ERROR or sent is None
            if after == lane and is_noted and not may_record(partner.pk):
                count_unrecorded(partner.pk)
                links.leave_out_notes()
            links.write()
        else:
            name = f"{header.message_type}Received"
            note(partner.pk, header.ref_to_message_id, name, "refers to an unknown message")
        reach(CrashPoint.ACK_BEFORE_COMMIT)
    reach(CrashPoint.ACK_AFTER_COMMIT)
    wake_up_for(links)
    return Answer(TAKEN)


def _ack_event(
    partner: Partner, header: Header, flying: str | None, sent: Sent | None
) -> SenderEvent:
    ref = header.ref_to_message_id
    if sent is None or not _from_and_to_are_the_pair(partner, header):
        return AckOfUnknownReceived(ref)
    if flying == ref:
        return AckReceived(ref, resumes=partner.resume_on_late_ack)
    cancelled = sent.state == OutboundState.CANCELLED and sent.outcome != Verdict.RECEIVED
    return AckOfOtherReceived(ref, cancelled)


def _from_and_to_are_the_pair(partner: Partner, header: Header) -> bool:
    """The appropriate Ack names the two MSHs as From and To (000-014, 000-050)."""
    return partner.is_pair(header.from_party.party_id, header.to_party.party_id)


def _error_event(
    partner: Partner, header: Header, flying: str | None, sent: Sent | None
) -> SenderEvent:
    ref, report = header.ref_to_message_id, header.error
    if report is None:  # the wire reads no Error Message without one
        raise Unreadable("the Error Message has no Error")
    theirs = _from_and_to_are_the_pair(partner, header)
    if sent is None or flying not in (ref, None) or not theirs:
        return ErrorForOtherReceived(ref, report)
    if report.severity is Severity.WARNING:
        return ErrorReceived(ref, report)
    if report.code is ErrorCode.TRANSIENT_ERROR:
        return TransientErrorReceived(ref, report.min_retry_secs, report.description)
    if report.code in RESYNCHRONISE:
        return SequenceErrorReceived(ref, report)
    return ErrorReceived(ref, report)
