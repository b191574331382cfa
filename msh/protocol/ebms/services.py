"""What a StatusRequest is answered (EB-143, EB-144)."""

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
