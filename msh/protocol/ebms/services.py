"""What a StatusRequest is answered (EB-143, EB-144)."""

from .message import Message
from .vocabulary import MessageStatus

_PROCESSED = ("delivered", "rejected")


def status_of(state: str | None, *, refuses: bool) -> MessageStatus:
    """Of a message of the partner that asks, by its state; None: it has sent no such message, or
    it was refused. `refuses`: the agreement does not have such questions answered."""
    if refuses:
        return MessageStatus.UNAUTHORIZED
    if state is None:
        return MessageStatus.NOT_RECOGNIZED
    return MessageStatus.PROCESSED if state in _PROCESSED else MessageStatus.RECEIVED


def about_and_said(message: Message) -> tuple[str, str]:
    """What a Pong or StatusResponse is about, and what it says: of a status the message of ours,
    its status and when it was received, as far as it is said; of a Pong the Ping, and nothing."""
    response = message.status_response
    if response is None:
        return message.header.ref_to_message_id, ""
    received = f", received {response.timestamp:%FT%TZ}" if response.timestamp else ""
    return response.ref_to_message_id, f"{response.status}{received}"
