"""The answer to a StatusRequest (EB-143, EB-144)."""

from .message import Message
from .vocabulary import MessageStatus

_PROCESSED = ("delivered", "rejected")


def status_of(state: str | None, *, refuses: bool) -> MessageStatus:
    """Return the MessageStatus of a message that the asking partner has sent. `state` is None if
    there is no such message, or if it was refused. `refuses`: the agreement forbids such questions.
    """
    if refuses:
        return MessageStatus.UNAUTHORIZED
    if state is None:
        return MessageStatus.NOT_RECOGNIZED
    return MessageStatus.PROCESSED if state in _PROCESSED else MessageStatus.RECEIVED


def about_and_said(message: Message) -> tuple[str, str]:
    """Return the MessageId that a Pong or StatusResponse is about, and its content as text: for a
    status the status and, if given, the time of receipt; for a Pong nothing."""
    response = message.status_response
    if response is None:
        return message.header.ref_to_message_id, ""
    received = f", received {response.timestamp:%FT%TZ}" if response.timestamp else ""
    return response.ref_to_message_id, f"{response.status}{received}"
