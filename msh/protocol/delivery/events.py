"""Values, events and effects of a delivery."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from msh.protocol.effects import Note, OpenIncident
from msh.protocol.kinds import DeliveryState, OnFailure


class ResolverVerdict(StrEnum):
    """The answer of a resolver about a message whose outcome is unknown."""

    NEW = "new"
    DUPLICATE = "duplicate"
    IN_DOUBT = "in_doubt"


@dataclass(frozen=True, slots=True)
class Policy:
    """A consumer's settings as the table needs them. `lease` and `retry_interval` in seconds.

    `doubtful`: its effects are outside our database and it keeps a history, so that a crash leaves
    the outcome unknown. Otherwise a lost attempt is simply run again.
    """

    doubtful: bool
    lease: int
    attempts: int
    retry_interval: int
    on_failure: OnFailure
    has_resolver: bool


@dataclass(frozen=True, slots=True)
class Delivery:
    """One row of the history. `failures` are counted since an operator last had it run again; `due`
    is the end of the lease, or when it is run, or when its message is to leave the order; `aside`:
    later messages of its pair are delivered without it."""

    state: DeliveryState = DeliveryState.NEW
    attempt: int = 0
    failures: int = 0
    due: datetime | None = None
    aside: bool = False


# --- events -------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class DeliveryPolled:
    """A worker polls for something to do."""


@dataclass(frozen=True, slots=True)
class AttemptSucceeded:
    attempt: int


@dataclass(frozen=True, slots=True)
class AttemptRejected:
    """A business error: never to be run again (001-09)."""

    attempt: int
    reason: str


@dataclass(frozen=True, slots=True)
class AttemptFailed:
    """A system error: to be run again (001-10)."""

    attempt: int
    reason: str


@dataclass(frozen=True, slots=True)
class OutcomeLost:
    """The attempt ended, and how it ended could not be written into the history."""

    attempt: int
    reason: str


@dataclass(frozen=True, slots=True)
class OutcomeKept:
    """The outcome is committed in the history: the message may leave the order of its pair."""


@dataclass(frozen=True, slots=True)
class ResolverAnswered:
    attempt: int
    verdict: ResolverVerdict
    detail: str = ""


@dataclass(frozen=True, slots=True)
class RunAgainRequested:
    """An operator wants it run again."""


@dataclass(frozen=True, slots=True)
class CompletionMarked:
    """An operator says that the consumer has it."""


@dataclass(frozen=True, slots=True)
class RejectionMarked:
    """An operator says that it is not to be run."""


@dataclass(frozen=True, slots=True)
class ParkRequested:
    """An operator lets the pair go on without it, for as long as it waits for a decision."""


@dataclass(frozen=True, slots=True)
class ResolverRequested:
    """An operator wants the resolver asked (again)."""


DeliveryEvent = (
    DeliveryPolled
    | AttemptSucceeded
    | AttemptRejected
    | AttemptFailed
    | OutcomeLost
    | OutcomeKept
    | ResolverAnswered
    | RunAgainRequested
    | CompletionMarked
    | RejectionMarked
    | ParkRequested
    | ResolverRequested
)


# --- effects ------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Run:
    """Give it to the consumer, as this attempt."""

    attempt: int


@dataclass(frozen=True, slots=True)
class AskResolver:
    """Ask what became of this attempt."""

    attempt: int


@dataclass(frozen=True, slots=True)
class Leave:
    """The message leaves the order of its pair for good."""

    rejected: bool = False


@dataclass(frozen=True, slots=True)
class SetAside:
    """Later messages of the pair are delivered without this one, which waits for an operator or a
    further attempt."""


DeliveryEffect = Run | AskResolver | Leave | SetAside | OpenIncident | Note
