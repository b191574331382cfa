"""Operators' actions on ordered conversations."""

from collections.abc import Callable, Mapping
from typing import Any

from msh.flows.operations import change_conversation
from msh.flows.operations.operator_action import (
    CONVERSATION,
    OperatorAction,
    Parameter,
    number,
)
from msh.models import InboundConversation, OutboundConversation
from msh.protocol.flight import serial
from msh.protocol.flight.numbering import ConversationRestarted, LastNumberSet, NumberingEvent
from msh.protocol.four_eyes import Verb
from msh.store.flights.conversations import count_outstanding

_LAST = number(
    "last",
    "The last number of the conversation; the following one comes next.",
    "Last number",
    serial.FIRST,
    serial.LAST,
)
_SEEN = Parameter(
    name="if_next_number",
    help="Precondition: this is its `next_number`.",
    kind=int,
    required=False,
    minimum=serial.FIRST,
    maximum=serial.LAST,
)


def _direction(direction: str) -> Callable[[Any, Any, Mapping[str, Any]], Mapping[str, object]]:
    """And the last number, of an action that sets it."""

    def facts(returned: object, agreement: object, given: Mapping[str, Any]) -> dict[str, object]:
        last = {"last": given["last"]} if "last" in given else {}
        return {"direction": direction, **last}

    return facts


def _unless_ordered(row: OutboundConversation | InboundConversation) -> str:
    return "" if row.agreement.has_order else f"agreement {row.agreement} is not ordered."


def _unless_numbered(row: OutboundConversation, event: NumberingEvent) -> str:
    why = change_conversation.why_not_numbered(row, event)
    return f"{why}." if why else ""


def _why_not_restarted(row: OutboundConversation) -> str:
    return _unless_numbered(row, ConversationRestarted(count_outstanding(row.pk)))


def _why_not_started(row: OutboundConversation) -> str:
    event = LastNumberSet(serial.FIRST, count_outstanding(row.pk))
    return _unless_ordered(row) or _unless_numbered(row, event)


# Conversations that are sent in order

_NUMBERS_OUT = ("msh.view_outboundlink", "msh.reset_sequence_outboundlink")

RESTART_CONVERSATION = OperatorAction(
    name="restart_conversation",
    title="Restart conversation",
    summary="Restart the numbers of a conversation to a partner at 0, with Reset. Only when all"
    " messages sent in it are acknowledged or cancelled.",
    effect="The next message of the conversation gets number 0 with Reset, and the messages"
    " behind it follow. {partner} must not hold any message of the conversation.",
    done="the next message has number 0 with Reset",
    permissions=_NUMBERS_OUT,
    subject=CONVERSATION,
    flow=change_conversation.restart_conversation,
    why_not=_why_not_restarted,
    parameters=(_SEEN,),
    irreversible=True,
    second_person=Verb.RESET,
)
START_ORDER_OUT = OperatorAction(
    name="start_order",
    title="Start order at a number",
    summary="Set the last number of a conversation; the next message gets the following one.",
    effect="For a conversation that you take over from another MSH. Its next message to"
    " {partner} gets the number after the one that you enter.",
    done="started",
    permissions=_NUMBERS_OUT,
    subject=CONVERSATION,
    flow=change_conversation.start_order_out,
    why_not=_why_not_started,
    parameters=(_LAST, _SEEN),
    facts=_direction("out"),
    second_person=Verb.RESET,
)

# Conversations that are received in order

_NUMBERS_IN = ("msh.view_inboundlink", "msh.expect_inboundlink")

START_ORDER_IN = OperatorAction(
    name="start_order",
    title="Start order at a number",
    summary="Set the last number of a conversation from a partner; the following one comes next.",
    effect="The next message of the conversation from {partner} has the number after the one"
    " that you enter. Held messages with lower numbers, and those that follow it, are"
    " delivered.",
    done="started",
    permissions=_NUMBERS_IN,
    subject=CONVERSATION,
    flow=change_conversation.start_order_in,
    why_not=_unless_ordered,
    parameters=(_LAST, _SEEN),
    facts=_direction("in"),
    irreversible=True,
    second_person=Verb.EXPECT,
)
SKIP_MISSING = OperatorAction(
    name="skip_missing",
    title="Skip missing",
    summary=(
        "Deliver the held messages of a conversation without the missing ones, which are given"
        " up as lost."
    ),
    effect="Held messages are delivered up to the next missing one. A missing message that"
    " arrives later is refused. {partner} does not have to do anything.",
    done="skipped",
    permissions=_NUMBERS_IN,
    subject=CONVERSATION,
    flow=change_conversation.skip_missing,
    facts=_direction("in"),
    parameters=(_SEEN,),
    irreversible=True,
    second_person=Verb.EXPECT,
)
DROP_HELD = OperatorAction(
    name="drop_held",
    title="Drop held",
    summary="Discard the held messages of a conversation, so that the partner can restart it.",
    effect="The held messages are not delivered, although they were acknowledged. {partner} must"
    " send their content again, as new messages.",
    done="dropped",
    permissions=_NUMBERS_IN,
    subject=CONVERSATION,
    flow=change_conversation.drop_held,
    facts=_direction("in"),
    parameters=(_SEEN,),
    irreversible=True,
    second_person=Verb.EXPECT,
)
EXTEND_WAIT = OperatorAction(
    name="extend_wait",
    title="Extend wait",
    summary="Wait for the missing message of a conversation for the same time again.",
    effect=(
        "Nothing is delivered. If the message has not arrived by then, operators are called again."
    ),
    done="wait extended",
    permissions=_NUMBERS_IN,
    subject=CONVERSATION,
    flow=change_conversation.extend_wait,
    facts=_direction("in"),
    parameters=(_SEEN,),
)
