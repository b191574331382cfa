"""Effects: what a step asks for, named as imperatives. Effects that must not be lost become rows of
its transaction."""

from dataclasses import dataclass

from .agreement import Terms
from .events import Numbered
from .kinds import IncidentKind, PartyEventKind, Verdict
from .message import Field
from .reason import Reason
from .vocabulary import ErrorCode, Severity

SILENCE = frozenset({IncidentKind.RETRIES_SPENT, IncidentKind.TRANSIENT_LIMIT})
"""Suspensions that an answer of the partner may end by itself, where that was chosen (D12, D41)."""


@dataclass(frozen=True, slots=True)
class PutInFlight:
    message_id: str
    sequence_number: int
    epoch: int
    terms: Terms


@dataclass(frozen=True, slots=True)
class Transmit:
    """A copy of the message in flight is to be sent now."""


@dataclass(frozen=True, slots=True)
class Complete:
    """The message is ACKNOWLEDGED."""

    message_id: str


@dataclass(frozen=True, slots=True)
class Cancel:
    """The message is CANCELLED. `free_number`: its number will be used by the next one."""

    message_id: str
    verdict: Verdict
    free_number: bool = False


@dataclass(frozen=True, slots=True)
class Requeue:
    """The message goes back to the queue and gets a new number when its turn comes."""

    message_id: str


@dataclass(frozen=True, slots=True)
class Rewind:
    """Every message numbered after `last` is to be sent again as it was."""

    last: Numbered


@dataclass(frozen=True, slots=True)
class RecordLateVerdict:
    """A cancelled message was acknowledged after all: its outcome is *received* (D18)."""

    message_id: str


@dataclass(frozen=True, slots=True)
class OpenIncident:
    """`reason`: what the partner's last answer says about the cause, if that is why."""

    kind: IncidentKind
    message_id: str = ""
    detail: str = ""
    reason: Reason = Reason.NONE


@dataclass(frozen=True, slots=True)
class ResolveIncidents:
    """The cause of the suspension is gone."""


@dataclass(frozen=True, slots=True)
class NotifyFromParty:
    """`code`: the kind of the incident that is opened with it, the verdict of a cancellation, or
    the code of the partner's Error."""

    kind: PartyEventKind
    message_id: str
    detail: str = ""
    code: str = ""


@dataclass(frozen=True, slots=True)
class Note:
    """Write it into the history, change nothing. `message_id` may be empty or unknown. `code`: what
    it is about, where someone decides by that."""

    message_id: str
    detail: str
    code: str = ""


@dataclass(frozen=True, slots=True)
class CountDuplicateAck:
    message_id: str


@dataclass(frozen=True, slots=True)
class PollLane:
    """The lane, or a place of a window, is free: put the head of the queue in flight in the same
    transaction."""


@dataclass(frozen=True, slots=True)
class ExplainSuspension:
    """The partner sent an Error about the message in flight after its lane was suspended without an
    answer: `detail` and `reason` replace those of the suspension."""

    message_id: str
    detail: str
    reason: Reason


SenderEffect = (
    PutInFlight
    | Transmit
    | Complete
    | Cancel
    | Requeue
    | Rewind
    | RecordLateVerdict
    | OpenIncident
    | ResolveIncidents
    | ExplainSuspension
    | NotifyFromParty
    | Note
    | CountDuplicateAck
    | PollLane
)


@dataclass(frozen=True, slots=True)
class Fail:
    """The message is FAILED: nothing more of it is sent. `code` is an ErrorCode, or what the
    partner wrote in its place."""

    message_id: str
    code: str
    severity: Severity
    detail: str


@dataclass(frozen=True, slots=True)
class ReportUnreachable:
    """No copy of the message came through, and nothing else did: the gate's MessageUnreached."""

    message_id: str
    detail: str


FlightEffect = (
    Transmit
    | Complete
    | Fail
    | Cancel
    | RecordLateVerdict
    | OpenIncident
    | ResolveIncidents
    | NotifyFromParty
    | Note
    | CountDuplicateAck
    | PollLane
    | ReportUnreachable
)
"""The effects of a flight. ResolveIncidents is about incidents that its own message has opened."""

GateEffect = OpenIncident | ResolveIncidents | PollLane


@dataclass(frozen=True, slots=True)
class Accept:
    """Store the message; it becomes the last accepted of the pair. No numbers: BestEffort."""

    sequence_number: int | None
    epoch: int | None


@dataclass(frozen=True, slots=True)
class QueueAck:
    """One more Acknowledgement is to be sent, for this copy."""


@dataclass(frozen=True, slots=True)
class QueueError:
    """An Error Message is to be sent. `min_retry_secs` for TransientError only."""

    code: ErrorCode
    field: Field
    description: str
    min_retry_secs: int | None = None


@dataclass(frozen=True, slots=True)
class SendOn:
    """The message accepted is for a party behind another MSH. `withheld`: its Acknowledgement is
    sent when the next MSH has acknowledged."""

    withheld: bool


@dataclass(frozen=True, slots=True)
class CountDuplicate:
    """This copy is discarded."""


@dataclass(frozen=True, slots=True)
class RepeatAnswer:
    """The first answer to the message is sent again, as it was kept (EB-112)."""


@dataclass(frozen=True, slots=True)
class KeepRefusal:
    """The message is not stored, but its id, its content digest and the Error to be sent are: a
    further copy is answered with the same Error (EB-110)."""


@dataclass(frozen=True, slots=True)
class Hold:
    """Store the message under its number of the conversation; it is delivered when it is
    released."""

    number: int


@dataclass(frozen=True, slots=True)
class Release:
    """Held messages are delivered, in this order of their numbers."""

    numbers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Drop:
    """Held messages are not delivered: an operator gave them up."""

    numbers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ResolveIncident:
    """The cause of the incident is gone, for this conversation."""

    kind: IncidentKind


ConversationEffect = (
    Accept
    | Hold
    | Release
    | Drop
    | QueueAck
    | QueueError
    | RepeatAnswer
    | KeepRefusal
    | CountDuplicate
    | OpenIncident
    | ResolveIncident
)
"""The effects of an ebMS 2.0 message that is received, and of an operator's action on its
conversation."""

ReceiverEffect = Accept | SendOn | QueueAck | QueueError | CountDuplicate | OpenIncident | Note
