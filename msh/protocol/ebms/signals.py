"""The signals that answer a message or ask about one, as values (EB-053, EB-095)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from .message import (
    Acknowledgment,
    AckRequested,
    Error,
    Message,
    MessageHeader,
    Party,
    Service,
    StatusResponse,
)
from .signature import SignedReference
from .vocabulary import SERVICE, Kind


@dataclass(frozen=True, slots=True)
class Signal:
    """What all signals have in their header: the two parties, the message that it is about, its own
    MessageId and time."""

    from_party: Party
    to_party: Party
    cpa_id: str
    conversation_id: str
    message_id: str
    timestamp: datetime
    ref_to_message_id: str = ""

    def header(self, kind: Kind) -> MessageHeader:
        return MessageHeader(
            self.from_party,
            self.to_party,
            self.cpa_id,
            self.conversation_id,
            Service(SERVICE),
            str(kind),
            self.message_id,
            self.timestamp,
            self.ref_to_message_id,
        )


def acknowledgment(
    signal: Signal,
    asked: Sequence[AckRequested],
    received_at: datetime,
    digests: tuple[SignedReference, ...] = (),
) -> Message:
    """One message with a block for each actor that was asked for (EB-097)."""
    blocks = tuple(
        Acknowledgment(
            signal.ref_to_message_id,
            received_at,
            each.actor,
            signal.from_party.party_ids,
            digests,
        )
        for each in asked
    )
    return Message(signal.header(Kind.ACKNOWLEDGMENT), acknowledgments=blocks)


def message_error(signal: Signal, errors: tuple[Error, ...]) -> Message:
    return Message(signal.header(Kind.MESSAGE_ERROR), errors=errors)


def ping(signal: Signal, *, sync_reply: bool = False) -> Message:
    return Message(_asking(signal, Kind.PING), sync_reply=sync_reply)


def pong(signal: Signal) -> Message:
    return Message(signal.header(Kind.PONG))


def status_request(signal: Signal, message_id: str, *, sync_reply: bool = False) -> Message:
    return Message(
        _asking(signal, Kind.STATUS_REQUEST), sync_reply=sync_reply, status_request=message_id
    )


def status_response(signal: Signal, response: StatusResponse) -> Message:
    return Message(signal.header(Kind.STATUS_RESPONSE), status_response=response)


def _asking(signal: Signal, kind: Kind) -> MessageHeader:
    """These are about no message that came (EB-038)."""
    return replace(signal.header(kind), ref_to_message_id="")
