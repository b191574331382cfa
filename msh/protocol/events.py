"""Events of the Sender's lane and of the Receiver: one class each, named by past participles."""

from dataclasses import dataclass

from .agreement import Terms
from .kinds import Verdict
from .message import ErrorReport
from .reason import Reason


@dataclass(frozen=True, slots=True)
class MessageSubmitted:
    """A message was queued. It never touches the lane."""


@dataclass(frozen=True, slots=True)
class Numbered:
    """The number that a message was sent under before, and the epoch it belongs to."""

    sequence_number: int
    epoch: int


@dataclass(frozen=True, slots=True)
class LanePolled:
    """The idle lane's queue was polled; `message_id` is its head, None if it is empty.

    `again`: it is rewound and keeps its number. `attempts` were made before it was queued again.
    """

    message_id: str | None = None
    terms: Terms | None = None
    again: Numbered | None = None
    attempts: int = 0


@dataclass(frozen=True, slots=True)
class CopyPromised:
    """The copy that is to be sent is kept for the worker that a wake-up is about to name."""


@dataclass(frozen=True, slots=True)
class AttemptClaimed:
    """A worker takes the copy that is to be sent. `http_deadline` in seconds."""

    http_deadline: float


@dataclass(frozen=True, slots=True)
class AttemptEvent:
    """Names the attempt it is about, so that a late one is known to be late."""

    message_id: str
    attempt: int


@dataclass(frozen=True, slots=True)
class AttemptBegun(AttemptEvent):
    """The worker that the copy was promised to is sending it. `http_deadline` in seconds."""

    http_deadline: float = 0.0


@dataclass(frozen=True, slots=True)
class AttemptTransmitted(AttemptEvent):
    """The peer's MSH answered 2xx."""


@dataclass(frozen=True, slots=True)
class AttemptFailed(AttemptEvent):
    """The attempt failed and may be repeated. `retry_after` in seconds, as the peer asked for it.
    `doubted`: the status hints at a partner that is set up wrongly (D35). `unreachable`: it failed
    in transport, see `msh.protocol.attempt.is_unreachable`; asked by flights only. `asked_to_wait`:
    the partner speaks, and wants a later copy. `nothing_sent`: certainly not a byte has left us
    (D18)."""

    detail: str = ""
    retry_after: float | None = None
    doubted: bool = False
    unreachable: bool = False
    asked_to_wait: bool = False
    nothing_sent: bool = False
    reason: Reason = Reason.NONE


@dataclass(frozen=True, slots=True)
class AttemptRefused(AttemptEvent):
    """The peer can never take these bytes (D35). `code`: what refusals of one cause have in common,
    empty if it is no partner that refuses."""

    detail: str = ""
    code: str = ""
    reason: Reason = Reason.NONE


@dataclass(frozen=True, slots=True)
class AckReceived:
    """An Acknowledgement of the message in flight. `resumes`: the partner was given that a late
    one ends the suspension by itself (D12)."""

    message_id: str
    resumes: bool = False


@dataclass(frozen=True, slots=True)
class AckOfOtherReceived:
    """An Acknowledgement of a known message that is not in flight."""

    message_id: str
    cancelled: bool = False


@dataclass(frozen=True, slots=True)
class AckOfUnknownReceived:
    """An Acknowledgement of a message that we never sent on this pair."""

    message_id: str


@dataclass(frozen=True, slots=True)
class DeadlinePassed:
    """The due time is over."""


@dataclass(frozen=True, slots=True)
class TransientErrorReceived:
    """The Receiver asks us to wait for `min_retry_secs` seconds, or does not say how long."""

    message_id: str
    min_retry_secs: int | None = None
    detail: str = ""


@dataclass(frozen=True, slots=True)
class SequenceErrorReceived:
    """SequenceGap, SequenceStale or SequenceConflict for the message in flight."""

    message_id: str
    report: ErrorReport


@dataclass(frozen=True, slots=True)
class ErrorReceived:
    """Any other Error for the message in flight. Severity Warning is a note only (D26)."""

    message_id: str
    report: ErrorReport


@dataclass(frozen=True, slots=True)
class ErrorForOtherReceived:
    """An Error for a message that is not in flight: it never touches the one that is (D3)."""

    message_id: str
    report: ErrorReport


@dataclass(frozen=True, slots=True)
class ProbeDue:
    """A suspended partner that was given a probe is tried with one copy (D41)."""


@dataclass(frozen=True, slots=True)
class OperatorResumed:
    pass


@dataclass(frozen=True, slots=True)
class RetriesReset:
    pass


@dataclass(frozen=True, slots=True)
class SendNowRequested:
    pass


@dataclass(frozen=True, slots=True)
class OperatorSuspended:
    pass


@dataclass(frozen=True, slots=True)
class MessageCancelled:
    """The operator cancels the message in flight. `nothing_sent`: it is proven that no byte of
    the body ever left us, or that the partner does not have it; NOT_RECEIVED needs it (D18)."""

    verdict: Verdict
    nothing_sent: bool = False


@dataclass(frozen=True, slots=True)
class SequenceReset:
    """The operator starts the numbers again at 1 (D17). `in_doubt`: messages that are still to be
    sent again under their old numbers."""

    in_doubt: int = 0


@dataclass(frozen=True, slots=True)
class SequenceRewound:
    """The partner was restored: every message after `last` is sent again, under its own number
    and with its own bytes. Number 0: from the beginning of its epoch."""

    last: Numbered


@dataclass(frozen=True, slots=True)
class SequenceAdopted:
    """We were restored: the partner has seen numbers that we have forgotten, and expects
    `next_number`. `not_received`: it is proven that it does not have the message in flight."""

    next_number: int
    not_received: bool = False


SenderEvent = (
    MessageSubmitted
    | LanePolled
    | CopyPromised
    | AttemptClaimed
    | AttemptBegun
    | AttemptTransmitted
    | AttemptFailed
    | AttemptRefused
    | AckReceived
    | AckOfOtherReceived
    | AckOfUnknownReceived
    | DeadlinePassed
    | TransientErrorReceived
    | SequenceErrorReceived
    | ErrorReceived
    | ErrorForOtherReceived
    | ProbeDue
    | OperatorResumed
    | RetriesReset
    | SendNowRequested
    | OperatorSuspended
    | MessageCancelled
    | SequenceReset
    | SequenceRewound
    | SequenceAdopted
)
