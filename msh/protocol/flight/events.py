"""Events of a flight: some of the lane's, and those that only flights have."""

from dataclasses import dataclass

from msh.protocol import events as on


@dataclass(frozen=True, slots=True)
class ProbeClaimed:
    """A worker takes a copy although the partner does not answer: to see whether it does again. It
    spends no retry (EB-091). `http_deadline` in seconds."""

    http_deadline: float


@dataclass(frozen=True, slots=True)
class DeadlinePassed:
    """The due time is over. `failures`: how many attempts in a row, over all messages of the
    partner, have failed in transport; `Gate.failures`."""

    failures: int = 0


@dataclass(frozen=True, slots=True)
class Expired:
    """The TimeToLive may be over, or the PersistDuration (`Flight.ends_at`)."""


FlightEvent = (
    on.AttemptClaimed
    | ProbeClaimed
    | on.AttemptTransmitted
    | on.AttemptFailed
    | on.AttemptRefused
    | DeadlinePassed
    | Expired
    | on.AckReceived
    | on.ErrorReceived
    | on.OperatorSuspended
    | on.OperatorResumed
    | on.RetriesReset
    | on.SendNowRequested
    | on.MessageCancelled
)
