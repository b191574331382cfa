"""The outcome of one POST, and what an HTTP status means for the Sender (D35)."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from .reason import Reason, of_status


class AttemptOutcome(StrEnum):
    TRANSMITTED = "transmitted"
    """2xx: the peer's MSH took the bytes. Never an Ack."""
    FAILED = "failed"
    """May be tried again: connection error, deadline, 408, 425, 429, 5xx."""
    DOUBTED = "doubted"
    """401, 403, 404, a redirect, anything else: tried again, with an early warning."""
    REFUSED = "refused"
    """400, 413, 415, 422: these bytes can never be taken."""


DETAIL_LIMIT = 500
"""Characters of what is kept of an answer in words."""


def shortened(text: str, limit: int = DETAIL_LIMIT) -> str:
    """`text` with a mark where it was cut. What a server says last names the cause as often as what
    it says first, so the end is kept, too."""
    if len(text) <= limit:
        return text
    mark = "..."
    end = (limit - len(mark)) // 2
    return f"{text[: limit - len(mark) - end]}{mark}{text[-end:]}"


def not_read(size: int, content_type: str) -> str:
    """The detail for an answer that was not read. `size` in bytes."""
    return f"answer of {size} bytes, {content_type or 'without Content-Type'}: not read"


_AGAIN = frozenset({408, 425, 429})
_NEVER = frozenset({400, 413, 415, 422})


def outcome_of(status: int) -> AttemptOutcome:
    """Return the outcome of an attempt that got this HTTP status (D35)."""
    if 200 <= status < 300:
        return AttemptOutcome.TRANSMITTED
    if status in _AGAIN or status >= 500:
        return AttemptOutcome.FAILED
    if status in _NEVER:
        return AttemptOutcome.REFUSED
    return AttemptOutcome.DOUBTED


_UNREACHABLE = frozenset({502, 503, 504})
_LATER = frozenset({429, 503})


def asks_to_wait(status: int | None, retry_after: float | None) -> bool:
    """True if the partner speaks and asks for a later copy (EB-090). `retry_after` in seconds."""
    return status in _LATER and retry_after is not None


def is_unreachable(status: int | None, retry_after: float | None = None) -> bool:
    """True if nobody but the transport has answered (EB-091). None: nobody at all."""
    silent = status is None or status in _UNREACHABLE
    return silent and not asks_to_wait(status, retry_after)


def unacknowledged_after(attempts: int) -> str:
    """Why a message is given up whose partner was silent."""
    plural = "" if attempts == 1 else "s"
    return f"no Acknowledgement after {attempts} attempt{plural}"


@dataclass(frozen=True, slots=True)
class Trace:
    """What is stored of an attempt. `ended` is False while its outcome is unknown."""

    ended: bool
    body_sent: bool


def nothing_was_sent(traces: Iterable[Trace], *, by_mail: bool) -> bool:
    """True if it is certain that not a byte of the message has left us (D18). Never for mail:
    nobody knows what a mail server keeps."""
    return not by_mail and all(trace.ended and not trace.body_sent for trace in traces)


@dataclass(frozen=True, slots=True)
class AttemptResult:
    """One finished attempt, as a transport reports it.

    `status` is the HTTP status, or None if there was no answer. `detail` is the peer's or the
    library's own words, at most 500 characters. `retry_after` is in seconds, None if absent.
    `body_sent` is False only where it is certain that no byte of the body left us (D18).
    `external_id` is what a consumer's system calls the message, if its answer says so. `answer` is
    Content-Type and bytes of the answer, if they were asked for (`Job.answer_limit`) and fit.
    `code` is what refusals of one cause have in common, beside the status. `status_line` is what
    `detail` says of the status, without the words of the answer. `reason` is why it ended so: what
    the status says, unless the transport knows more.
    """

    outcome: AttemptOutcome
    status: int | None = None
    detail: str = ""
    retry_after: float | None = None
    body_sent: bool = True
    external_id: str = ""
    answer: tuple[str, bytes] | None = None
    code: str = ""
    status_line: str = ""
    reason: Reason = Reason.NONE

    def __post_init__(self) -> None:
        if self.reason is Reason.NONE:
            waits = asks_to_wait(self.status, self.retry_after)
            said = of_status(self.status, asked_to_wait=waits) if self.status else Reason.OTHER
            object.__setattr__(self, "reason", said)
