"""An ebXML Message Service Handler. What applications in its database call is here.

from msh import Payload, send

with transaction.atomic():
    order.save()
    send(agreement, "Orders", "New", [Payload(document)])
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Unpack

from msh.protocol.errors import Reject

if TYPE_CHECKING:
    from msh.flows.sending.prepare import Roles
    from msh.models import InboundMessage
    from msh.protocol.message import Payload
    from msh.protocol.vocabulary import DeliverySemantics
    from partners.models import Agreement

__all__ = ["Payload", "Reject", "reply", "send"]


def __getattr__(name: str) -> Any:
    """Payload is loaded when it is used: each quick command loads this package first."""
    if name != "Payload":
        raise AttributeError(f"module 'msh' has no attribute {name!r}")
    from msh.protocol.message import Payload  # noqa: PLC0415  see above

    return Payload


def send(
    agreement: "Agreement",
    service_interface: str,
    action: str,
    payloads: "Sequence[Payload]",
    message_id: str | None = None,
    conversation_id: str | None = None,
    ref_to_message_id: str = "",
    semantics: "DeliverySemantics | None" = None,
    **roles: "Unpack[Roles]",
) -> str:
    """Queue a message in the caller's transaction, and return its MessageId.

    It rolls back with that transaction: then there is no message, no SequenceNumber is consumed,
    nothing is sent. The same `message_id` again with the same content is the same message; with
    other content it raises MessageIdReused. What cannot be sent raises SubmitRefused. Roles and the
    type of the Service are the agreement's unless they are given.
    """
    from msh.flows.sending.submit import submit  # noqa: PLC0415  Django's apps are not loaded yet

    message = submit(
        agreement,
        service_interface,
        action,
        payloads,
        message_id=message_id,
        conversation_id=conversation_id,
        ref_to_message_id=ref_to_message_id,
        semantics=semantics,
        **roles,
    )
    return message.message_id


def reply(
    request: "InboundMessage",
    action: str,
    payloads: "Sequence[Payload]",
    service_interface: str | None = None,
    message_id: str | None = None,
) -> str:
    """Send an answer, or a fault of the application, to who sent `request`; its MessageId.

    It names the request (RefToMessageId), belongs to its conversation and goes under its agreement.
    Called by an in-process consumer, it is sent exactly once: with the consumer's own effects.
    """
    return send(
        request.agreement,
        request.service_interface if service_interface is None else service_interface,
        action,
        payloads,
        message_id=message_id,
        conversation_id=request.conversation_id,
        ref_to_message_id=request.message_id,
    )
