"""A message that is received in the order of its conversation: its position, and the statements
that store it."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from msh.models import InboundState
from msh.protocol import effects as do
from msh.protocol.ebms.arrival import Ruling, decide_in_order, order_of
from msh.protocol.ebms.message import ReceivedMessage
from msh.protocol.flight.arrival import MessageArrived
from msh.protocol.flight.conversation import Conversation, Position, position
from msh.protocol.flight.serial import Order
from msh.store.engine import Call

from .conversations import HeldConversation, load_conversation
from .ebms2_answers import Pair
from .receiver_effects import store_calls


@dataclass(frozen=True, slots=True)
class Place:
    """The position of a message in its conversation, by its MessageOrder."""

    conversation: HeldConversation
    order: Order

    @property
    def is_ahead(self) -> bool:
        return position(self.conversation.value, self.order) is Position.AHEAD


def find_place(pair: Pair, received: ReceivedMessage) -> Place | None:
    """Return the position of a message; None for a message without order. The caller must hold the
    lock of the link."""
    order = order_of(received, pair.found.agreed)
    if order is None:
        return None
    key, conversation_id = pair.found.agreement_id, received.message.header.conversation_id
    known = load_conversation(key, conversation_id)
    return Place(known or _unknown(pair, conversation_id), order)


def _unknown(pair: Pair, conversation_id: str) -> HeldConversation:
    found = pair.found
    return HeldConversation(
        key=0,
        link_id=pair.link_id,
        partner_id=found.partner.pk,
        agreement_id=found.agreement_id,
        conversation_id=conversation_id,
        value=Conversation(),
        undelivered=False,
        horizon=found.horizon,
        now=pair.row.now,
    )


def decide(
    place: Place, pair: Pair, received: ReceivedMessage, event: MessageArrived
) -> tuple[Conversation, Ruling]:
    conversation = place.conversation
    event = replace(event, undelivered=conversation.undelivered)
    return decide_in_order(
        received,
        pair.found.agreed,
        event,
        conversation.value,
        place.order,
        now=conversation.now,
    )


def taking_calls(
    place: Place,
    pair: Pair,
    columns: Mapping[str, object],
    received: ReceivedMessage,
    after: Conversation,
    effects: tuple[do.ConversationEffect, ...],
) -> list[Call[object]]:
    """Return the statements that store the message, to be delivered or held, and then those that
    change its conversation."""
    held = any(isinstance(effect, do.Hold) for effect in effects)
    state = InboundState.HELD if held else InboundState.ACCEPTED
    conversation, number = place.conversation.insert_if_new(), place.order.number
    in_order = {
        "state": state.value,
        "ordered_in_id": conversation.key,
        "order_number": number,
    }
    return [
        *store_calls(
            conversation.partner_id, pair.row.now, {**columns, **in_order}, received.payloads
        ),
        *conversation.calls(after, effects),
    ]
