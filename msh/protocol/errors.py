"""Refusals. Each carries the answer to give."""

from typing import TYPE_CHECKING

from .reason import Refusal

if TYPE_CHECKING:  # quick commands load this module, and need none of these
    from .message import Field, PartialHeader
    from .vocabulary import ErrorCode


class ProtocolError(Exception):
    """Base of everything this package raises."""


class Unreadable(ProtocolError):
    """A request that cannot be read or attributed: it gets an HTTP status only (D49).

    `status` is 400, 403, 413 or 415; `str()` is one line that names the thing and the cure.
    """

    STATUS = {Refusal.AGREEMENT: 403, Refusal.TOO_LARGE: 413, Refusal.MEDIA_TYPE: 415}

    def __init__(self, reason: str, refusal: Refusal = Refusal.DOCUMENT) -> None:
        super().__init__(reason)
        self.refusal = refusal
        self.status = self.STATUS.get(refusal, 400)


class Refused(ProtocolError):
    """A message that was read far enough to answer it with an Error Message (D49, D52)."""

    def __init__(
        self, code: "ErrorCode", field: "Field", description: str, partial: "PartialHeader"
    ) -> None:
        super().__init__(description)
        self.code = code
        self.field = field
        self.description = description
        self.partial = partial


class RefusedTooOften(ProtocolError):
    """One refusal too many of a partner that is refused without end: this one is not answered by an
    Error Message. Nothing is kept; it may be sent again in `wait` seconds."""

    def __init__(self, wait: int) -> None:
        super().__init__(
            "too many of your messages were refused: correct them, then send this one again"
        )
        self.wait = wait


class UnreadableTermsError(ProtocolError, ValueError):
    """Stored terms that cannot be read are needed. Nothing has changed."""


class IllegalTransition(ProtocolError):
    """An event that may not happen in this state. Nothing has changed."""

    def __init__(self, state: str, event: str) -> None:
        super().__init__(f"{event} may not happen while {state}")
        self.state = state
        self.event = event


class Reject(Exception):
    """An in-process consumer raises it for a business error: the message is never run again.

    It is reported and kept, and its pair goes on (001-09). Whatever else a consumer raises has the
    message run again.
    """
