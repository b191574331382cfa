"""What operators can do to a conversation that we receive in order."""

from msh.flows.operations import change_conversation
from msh.flows.operations.operator_action import OperatorAction, Parameter
from msh.protocol.flight import serial

_PERMISSIONS = ("msh.view_inboundlink", "msh.expect_inboundlink")

START_ORDER_IN = OperatorAction(
    name="start_order",
    title="Start order",
    summary="Set the last number of a conversation from a partner; the following one comes next.",
    effect="The next message of the conversation from {partner} has the number after the one that"
    " you enter. What is held below it, and what follows it, is delivered.",
    done="started",
    permissions=_PERMISSIONS,
    flow=change_conversation.start_order,
    parameters=(Parameter("last", f"{serial.FIRST} to {serial.LAST}", serial.FIRST, serial.LAST),),
    irreversible=True,
)
SKIP_MISSING = OperatorAction(
    name="skip_missing",
    title="Skip missing",
    summary="Deliver past the missing messages of a conversation: they are given up as lost.",
    effect="The messages that are held are delivered up to the next missing one. A missing message"
    " that arrives later is refused. {partner} does not have to do anything.",
    done="skipped",
    permissions=_PERMISSIONS,
    flow=change_conversation.skip_missing,
    irreversible=True,
)
DROP_HELD = OperatorAction(
    name="drop_held",
    title="Drop held",
    summary="Give up the held messages of a conversation, so that the partner may start it again.",
    effect="The messages that are held are not delivered, though they were acknowledged. {partner}"
    " must send their content again, as new messages.",
    done="dropped",
    permissions=_PERMISSIONS,
    flow=change_conversation.drop_held,
    irreversible=True,
)
WAIT_ON = OperatorAction(
    name="wait_on",
    title="Wait on",
    summary="Wait for the missing message of a conversation as long as before.",
    effect="Nothing is delivered. If the message has not arrived by then, you are called again.",
    done="waiting on",
    permissions=_PERMISSIONS,
    flow=change_conversation.wait_on,
)
