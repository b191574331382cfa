"""A message of a business that we send, as its agreement has it written."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from msh.protocol.flight.serial import Order
from msh.protocol.vocabulary import DeliverySemantics

from .agreement import NO_SYNC
from .message import (
    AckRequested,
    Message,
    MessageHeader,
    MessageOrder,
    Party,
    PartyId,
    Reference,
    Service,
)
from .vocabulary import Actor, OrderStatus

_OF_SETTING = {"always": True, "never": False}
"""Whether `ack` or `eliminates` asks for the element; with any other value the message's semantics
decides (EB-078)."""

_ACTORS = {"toPartyMSH": Actor.TO_PARTY_MSH, "nextMSH": Actor.NEXT_MSH}


class Outgoing(Protocol):
    """A message with the settings of its agreement. `content_ids` and `descriptions` are those of
    its payloads, None if it has none."""

    @property
    def message_id(self) -> str: ...
    @property
    def semantics(self) -> str: ...
    @property
    def conversation_id(self) -> str: ...
    @property
    def service_interface(self) -> str: ...
    @property
    def service_type(self) -> str: ...
    @property
    def action(self) -> str: ...
    @property
    def ref_to_message_id(self) -> str: ...
    @property
    def boundary(self) -> str: ...
    @property
    def tpa_id(self) -> str: ...
    @property
    def our_party(self) -> str: ...
    @property
    def our_party_context(self) -> str: ...
    @property
    def our_role(self) -> str: ...
    @property
    def their_party(self) -> str: ...
    @property
    def their_party_context(self) -> str: ...
    @property
    def their_role(self) -> str: ...
    @property
    def ack(self) -> str: ...
    @property
    def ack_actor(self) -> str: ...
    @property
    def ack_signed(self) -> bool: ...
    @property
    def eliminates(self) -> str: ...
    @property
    def sync_reply(self) -> str: ...
    @property
    def soap_action(self) -> str: ...
    @property
    def content_ids(self) -> Sequence[str] | None: ...
    @property
    def descriptions(self) -> Sequence[str] | None: ...


def message_of(
    outgoing: Outgoing,
    references: Sequence[Reference],
    *,
    expires_at: datetime | None,
    now: datetime,
    order: Order | None = None,
) -> Message:
    """`references` to its payloads; `expires_at` is the end of its TimeToLive, `order` its place in
    its conversation."""
    reliable = outgoing.semantics == DeliverySemantics.ONCE_AND_ONLY_ONCE
    asks = _OF_SETTING.get(outgoing.ack, reliable)
    header = MessageHeader(
        from_party=_party(outgoing.our_party, outgoing.our_party_context, outgoing.our_role),
        to_party=_party(outgoing.their_party, outgoing.their_party_context, outgoing.their_role),
        cpa_id=outgoing.tpa_id,
        conversation_id=outgoing.conversation_id,
        service=Service(outgoing.service_interface, outgoing.service_type),
        action=outgoing.action,
        message_id=outgoing.message_id,
        timestamp=now,  # EB-037
        ref_to_message_id=outgoing.ref_to_message_id,
        time_to_live=expires_at,
        eliminates_duplicates=_OF_SETTING.get(outgoing.eliminates, reliable),
    )
    asked = AckRequested(outgoing.ack_signed, _ACTORS[outgoing.ack_actor])
    return Message(
        header,
        ack_requested=(asked,) if asks else (),
        sync_reply=outgoing.sync_reply != NO_SYNC,
        order=_message_order(order) if order else None,
        manifest=tuple(references),
    )


def _message_order(order: Order) -> MessageOrder:
    """EB-121."""
    return MessageOrder(order.number, OrderStatus.RESET if order.resets else OrderStatus.CONTINUE)


def _party(value: str, kind: str, role: str) -> Party:
    return Party((PartyId(value, kind),), role)
