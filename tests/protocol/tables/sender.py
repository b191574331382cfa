"""The Sender's table: rows of events, columns of lanes."""

from dataclasses import replace
from datetime import timedelta
from typing import Any, get_args

from msh.protocol import effects as do
from msh.protocol import events as on
from msh.protocol.agreement import Terms
from msh.protocol.kinds import EARLY_WARNING, IncidentKind, PartyEventKind, Verdict
from msh.protocol.lane import OPERATOR, InFlight, Lane, LaneState
from msh.protocol.message import ErrorReport
from msh.protocol.reason import Reason
from msh.protocol.sender import TRANSITIONS, step
from msh.protocol.vocabulary import ErrorCode, Severity

from .form import NOW, SAME, Becomes, Cells, Row, Table, after, becomes

TERMS = Terms(
    timeout=60,
    retries=3,
    retry_interval=20,
    transient_count_limit=5,
    transient_time_limit=600,
    transient_wait_limit=100,
)
FLYING = InFlight(
    "m7",
    sequence_number=7,
    terms=TERMS,
    attempt=2,
    retries_spent=1,
    transients=1,
    transient_since=NOW - timedelta(seconds=30),
)
WAITING, TRANSIENT = {"state": LaneState.WAITING}, {"state": LaneState.TRANSIENT}
SILENT = {"state": LaneState.SUSPENDED, "suspended_for": IncidentKind.RETRIES_SPENT}
COLUMNS: dict[str, dict[str, Any]] = {
    "waiting": WAITING,
    "unsent": {**WAITING, "unsent": True},
    "promised": {**WAITING, "unsent": True, "promised": True},
    "transient": TRANSIENT,
    "transient_empty": TRANSIENT,
    "suspended": SILENT,
    "suspended_empty": {**SILENT, "late_ack": True},
    "idle": {},
}
WAITS = "waiting unsent promised"
GOES = "waiting unsent promised transient"
FLIES = "waiting unsent promised transient suspended"
EMPTY = "transient_empty suspended_empty idle"
SUSPENDED = "suspended suspended_empty"


def lane_in(column: str, flying: InFlight = FLYING, due: float = -5) -> Lane:
    """A lane as the column's name says. `due` in seconds from now."""
    lane = replace(Lane(next_number=8, epoch=2), **COLUMNS[column])
    in_flight = flying if column in FLIES.split() else None
    waits = lane.state in (LaneState.WAITING, LaneState.TRANSIENT)
    return replace(lane, in_flight=in_flight, due=after(due) if waits else None)


def flying(**changes: Any) -> InFlight:
    return replace(FLYING, **changes)


# --- what becomes of a lane -------------------------------------------------------------------

UNSAID = {"due": None, "unsent": False, "promised": False}
TRANSMITS = {
    **WAITING,
    "due": NOW,
    "unsent": True,
    "promised": False,
    "suspended_for": "",
}
LANDS_IDLE = {**UNSAID, "state": LaneState.IDLE, "in_flight": None}


def suspends(
    kind: IncidentKind, detail: str, reason: Reason = Reason.NONE, **changes: Any
) -> Becomes:
    opened = do.OpenIncident(kind, "m7", detail, reason)
    told = do.NotifyFromParty(PartyEventKind.SUSPENDED, "m7", detail, kind)
    suspended = {"state": LaneState.SUSPENDED, "suspended_for": kind}
    return becomes(opened, told, **UNSAID, **suspended, **changes)


def puts(message_id: str, number: int, epoch: int = 2, attempt: int = 0, **changes: Any) -> Becomes:
    put = do.PutInFlight(message_id, number, epoch, TERMS)
    copy = InFlight(message_id, number, TERMS, attempt=attempt)
    return becomes(put, do.Transmit(), in_flight=copy, **TRANSMITS, **changes)


def ended(seconds: float, *effects: do.SenderEffect) -> Cells:
    """An attempt ends: the next copy goes after so many seconds."""
    due = {"due": after(seconds)}
    return {
        "waiting": becomes(*effects, **due),
        "unsent": becomes(*effects),
        "promised": becomes(*effects, **due, unsent=False, promised=False),
        "*": SAME,
    }


def noted(text: str, message_id: str = "m7") -> Becomes:
    return becomes(do.Note(message_id, text))


def cancelled(verdict: Verdict, **changes: Any) -> Cells:
    """`changes`: what the verdict makes of the numbers."""
    free = verdict is Verdict.NOT_RECEIVED
    told = do.NotifyFromParty(PartyEventKind.CANCELLED, "m7", verdict.value, verdict)
    effects = (do.Cancel("m7", verdict, free_number=free), told)
    lands = becomes(*effects, do.PollLane(), **LANDS_IDLE, **changes)
    return {WAITS: lands, "transient suspended": becomes(*effects, in_flight=None, **changes)}


TRANSMIT = becomes(do.Transmit(), **TRANSMITS)
IDLES = becomes(do.PollLane(), state=LaneState.IDLE, due=None)
ON_TIME: Cells = {"unsent promised": SAME, "transient": TRANSMIT, "transient_empty": IDLES}
"""A deadline has passed: what it makes of those that do not wait for an Acknowledgement."""
WARNS = replace(TERMS, early_warning=2)
WARNED = PartyEventKind.DELAYED, "m7", "retry 2 of 3: no Acknowledgement yet"
SPENT = IncidentKind.RETRIES_SPENT, "no Acknowledgement after 2 attempts"
TOO_LONG = IncidentKind.TRANSIENT_LIMIT, "1 TransientErrors since 2026-03-01 11:50:00 UTC"
TOO_MANY = IncidentKind.TRANSIENT_LIMIT, "6 TransientErrors since 2026-03-01 11:59:30 UTC"
BEGUN = {"in_flight": flying(attempt=3), "due": after(30 + 20)}
PROBE = flying(retries_spent=4)
PROBE_NOTED = do.Note("m7", "probe: one more copy, the partner stays suspended")

ATTEMPTS = (
    Row(on.MessageSubmitted(), {"*": SAME}, "000-017"),
    Row(
        on.LanePolled("m8", TERMS),
        {"idle": puts("m8", 8, next_number=9)},
        "000-008 000-017 000-042 000-043",
    ),
    Row(on.LanePolled(), {"idle": SAME}),
    Row(on.LanePolled("m8", TERMS, attempts=4), {"idle": puts("m8", 8, attempt=4, next_number=9)}),
    Row(
        on.LanePolled("m5", TERMS, on.Numbered(5, 1), attempts=4),
        {"idle": puts("m5", 5, epoch=1, attempt=4)},
        name="the head is rewound",
    ),
    Row(
        on.ProbeDue(),
        {"suspended": becomes(PROBE_NOTED, do.Transmit(), in_flight=PROBE, **TRANSMITS)},
    ),
    Row(
        on.DeadlinePassed(),
        {
            "waiting": becomes(do.OpenIncident(SPENT[0], "m7", SPENT[1]), **UNSAID, **SILENT),
            **ON_TIME,
        },
        name="a probe",
        start=PROBE,
    ),
    Row(
        on.DeadlinePassed(),
        {
            "waiting": becomes(
                do.NotifyFromParty(*WARNED, EARLY_WARNING),
                do.Transmit(),
                in_flight=flying(retries_spent=2, terms=WARNS),
                **TRANSMITS,
            ),
            **ON_TIME,
        },
        name="the retry that warns",
        start=flying(terms=WARNS),
    ),
    Row(
        on.AttemptClaimed(http_deadline=30),
        {
            "unsent": becomes(**BEGUN, unsent=False),
            "promised": becomes(**BEGUN, unsent=False, promised=False),
            "transient": becomes(**BEGUN, **WAITING),
        },
    ),
    Row(
        on.AttemptClaimed(http_deadline=30),
        {"unsent": becomes(**BEGUN, unsent=False)},
        "000-079",
        name="before the wait asked for, or the promise, is over",
        due=1,
    ),
    Row(
        on.CopyPromised(),
        {"unsent": becomes(in_flight=flying(attempt=3), due=after(1), promised=True)},
    ),
    Row(
        on.AttemptBegun("m7", 2, http_deadline=30),
        {"promised": becomes(due=after(30 + 20), unsent=False, promised=False), "*": SAME},
    ),
    Row(on.AttemptTransmitted("m7", 2), ended(20), "000-024"),
    Row(
        on.AttemptTransmitted("m7", 1),
        ended(60),
        "000-021",
        start=flying(attempt=1, retries_spent=0),
    ),
    Row(on.AttemptFailed("m7", 2, detail="connection refused"), ended(20), "000-065"),
    Row(
        on.AttemptFailed("m7", 2, detail="404", doubted=True),
        ended(20, do.Note("m7", "404", EARLY_WARNING)),
    ),
    Row(
        on.AttemptRefused("m7", 2, detail="400: not XML"),
        {GOES: suspends(IncidentKind.REFUSED_BY_PEER, "400: not XML"), "*": SAME},
        "001-04",
    ),
    Row(
        on.DeadlinePassed(),
        {
            "waiting": becomes(do.Transmit(), in_flight=flying(retries_spent=2), **TRANSMITS),
            **ON_TIME,
        },
        "000-025 000-026 000-028 000-081",
        name="retries left",
    ),
    Row(
        on.DeadlinePassed(),
        {**ON_TIME, "waiting": suspends(*SPENT), "transient": suspends(*TOO_LONG)},
        "000-004 000-023 000-031 000-032",
        name="no retries left",
        start=flying(retries_spent=3, transient_since=after(-600)),
    ),
    Row(on.DeadlinePassed(), {f"{GOES} transient_empty": SAME}, "000-021 000-024 000-079", due=1),
)

# --- Acknowledgements and Error Messages ------------------------------------------------------

COMPLETED = (do.Complete("m7"), do.NotifyFromParty(PartyEventKind.ACKNOWLEDGED, "m7"))
RECOVERS = (*COMPLETED, do.ResolveIncidents(), do.PollLane())
ACKED: Cells = {
    WAITS: becomes(*COMPLETED, do.PollLane(), **LANDS_IDLE),
    "transient": becomes(*COMPLETED, in_flight=None),
    "suspended": becomes(*COMPLETED, in_flight=None, late_ack=True),
    EMPTY: becomes(do.CountDuplicateAck("m7")),
}
RECEIVED_AFTER_ALL = becomes(
    do.RecordLateVerdict("m5"),
    do.NotifyFromParty(PartyEventKind.CANCELLED, "m5", "received after all", Verdict.RECEIVED),
)

TOLD_TO_WAIT = on.TransientErrorReceived("m7", 30, "disk full")
WAIT = do.Note("m7", "TransientError, wait asked for: 30 s")
HOLDS = {**UNSAID, **TRANSIENT, "due": after(30)}
HELD = becomes(WAIT, in_flight=flying(transients=2), **HOLDS)
ANSWERS_AGAIN = flying(retries_spent=0, transients=1, transient_since=NOW)
PROBE_HELD = becomes(WAIT, do.ResolveIncidents(), in_flight=ANSWERS_AGAIN, **HOLDS)
FULL: Cells = {SUSPENDED: noted("TransientError: disk full"), "*": SAME}

GAP = ErrorReport(ErrorCode.SEQUENCE_GAP, Severity.HARD_ERROR, description="5 missing")
GAP_TEXT = "SequenceGap: 5 missing"
HARD = ErrorReport(ErrorCode.NOT_SUPPORTED, Severity.HARD_ERROR, description="no such action")
STRANGE = ErrorReport(
    ErrorCode.UNKNOWN, Severity.HARD_ERROR, description="tilted", code_text="PinballError"
)
WARNING = ErrorReport(ErrorCode.UNKNOWN, Severity.WARNING, description="certificate ends soon")


def hard(text: str) -> Cells:
    suspended = suspends(IncidentKind.ERROR_RECEIVED, text)
    return {GOES: suspended, "*": noted(f"Error {text}")}


ANSWERS = (
    Row(on.AckReceived("m7"), ACKED, "000-030 000-069 000-085 000-097"),
    Row(
        on.AckReceived("m7", resumes=True),
        {**ACKED, "suspended": becomes(*RECOVERS, **LANDS_IDLE, suspended_for="")},
    ),
    Row(
        on.AckReceived("m7"),
        {**ACKED, WAITS: becomes(*RECOVERS, **LANDS_IDLE)},
        name="a probe",
        start=PROBE,
    ),
    Row(
        TOLD_TO_WAIT,
        {GOES: PROBE_HELD, **FULL},
        name="a probe: the partner answers again",
        start=PROBE,
    ),
    Row(on.AckOfOtherReceived("m5"), {"*": becomes(do.CountDuplicateAck("m5"))}, "000-014 000-097"),
    Row(on.AckOfOtherReceived("m5", cancelled=True), {"*": RECEIVED_AFTER_ALL}, "000-014"),
    Row(
        on.AckOfUnknownReceived("x1"),
        {"*": noted("Acknowledgement of a message that was never sent from here", "x1")},
        "000-014",
    ),
    Row(TOLD_TO_WAIT, {GOES: HELD, **FULL}, "000-029 000-079 000-083"),
    Row(
        TOLD_TO_WAIT,
        {GOES: suspends(*TOO_MANY, in_flight=flying(transients=6)), **FULL},
        name="one too many",
        start=flying(transients=5),
    ),
    Row(
        on.SequenceErrorReceived("m7", GAP),
        {
            GOES: suspends(IncidentKind.RESYNCHRONISE, GAP_TEXT, Reason.NUMBERS),
            "transient_empty idle": becomes(
                do.OpenIncident(IncidentKind.RESYNCHRONISE, "m7", GAP_TEXT, Reason.NUMBERS)
            ),
            "suspended": becomes(
                do.Note("m7", f"Error {GAP_TEXT}"),
                do.ExplainSuspension("m7", GAP_TEXT, Reason.NUMBERS),
            ),
            "suspended_empty": noted(f"Error {GAP_TEXT}"),
        },
        "000-029 000-084",
    ),
    Row(on.ErrorReceived("m7", HARD), hard("NotSupported: no such action"), "000-029 000-084"),
    Row(on.ErrorReceived("m7", STRANGE), hard("PinballError: tilted"), "000-029"),
    Row(on.ErrorReceived("m7", WARNING), {"*": noted("Error Unknown: certificate ends soon")}),
    Row(
        on.ErrorForOtherReceived("m5", HARD),
        {"*": noted("Error NotSupported: no such action", "m5")},
    ),
)

# --- operators --------------------------------------------------------------------------------

RENEWED = {"in_flight": flying(retries_spent=0)}
REWOUND = flying(sequence_number=5)
STARTS_AGAIN = {"next_number": 1, "epoch": 3}
ADOPTS = {"next_number": 42, "epoch": 3}

OPERATORS = (
    Row(
        on.OperatorResumed(),
        {
            "transient": TRANSMIT,
            "transient_empty": IDLES,
            "suspended": becomes(
                do.ResolveIncidents(),
                do.Transmit(),
                in_flight=flying(retries_spent=0, transients=0, transient_since=None),
                **TRANSMITS,
            ),
            "suspended_empty": becomes(
                do.ResolveIncidents(),
                do.PollLane(),
                state=LaneState.IDLE,
                late_ack=False,
                suspended_for="",
            ),
        },
        "000-033 000-034",
    ),
    Row(on.RetriesReset(), {GOES: becomes(**RENEWED)}),
    Row(
        on.RetriesReset(),
        {GOES: becomes(do.ResolveIncidents(), **RENEWED)},
        name="a probe",
        start=PROBE,
    ),
    Row(on.SendNowRequested(), {GOES: TRANSMIT}),
    Row(
        on.OperatorSuspended(),
        {
            f"{GOES} transient_empty idle": becomes(
                **UNSAID, state=LaneState.SUSPENDED, suspended_for=OPERATOR
            )
        },
    ),
    Row(on.MessageCancelled(Verdict.RECEIVED), cancelled(Verdict.RECEIVED)),
    Row(on.MessageCancelled(Verdict.UNKNOWN), cancelled(Verdict.UNKNOWN, **STARTS_AGAIN)),
    Row(
        on.MessageCancelled(Verdict.NOT_RECEIVED, nothing_sent=True),
        cancelled(Verdict.NOT_RECEIVED, next_number=7),
    ),
    Row(on.MessageCancelled(Verdict.NOT_RECEIVED), {}),
    Row(on.SequenceReset(), {"suspended_empty idle": becomes(**STARTS_AGAIN)}, "000-047 000-048"),
    Row(on.SequenceReset(in_doubt=2), {}, "000-048"),
    Row(
        on.MessageCancelled(Verdict.RECEIVED),
        cancelled(Verdict.RECEIVED),
        name="a rewound message",
        start=REWOUND,
    ),
    Row(on.MessageCancelled(Verdict.UNKNOWN), {}, name="a rewound message", start=REWOUND),
    Row(
        on.MessageCancelled(Verdict.NOT_RECEIVED, nothing_sent=True),
        {},
        name="a rewound message",
        start=REWOUND,
    ),
    Row(
        on.SequenceRewound(on.Numbered(4, 2)),
        {
            "suspended": becomes(do.Rewind(on.Numbered(4, 2)), in_flight=None),
            "suspended_empty": becomes(do.Rewind(on.Numbered(4, 2))),
        },
    ),
    Row(
        on.SequenceAdopted(42, not_received=True),
        {
            "suspended": becomes(do.Requeue("m7"), in_flight=None, **ADOPTS),
            "suspended_empty": becomes(**ADOPTS),
        },
    ),
    Row(on.SequenceAdopted(42), {"suspended_empty": becomes(**ADOPTS)}),
)

TABLE = Table(
    "sender",
    tuple(COLUMNS),
    (*ATTEMPTS, *ANSWERS, *OPERATORS),
    before=lambda row, column: lane_in(column, row.start or FLYING, row.due),
    step=lambda lane, event: step(lane, event, now=NOW),
    transitions=TRANSITIONS,
    states=LaneState,
    events=frozenset(get_args(on.SenderEvent)),
)
