"""The table of a flight: rows of events, columns of its states."""

from dataclasses import replace
from typing import Any, get_args

from msh.protocol import effects as do
from msh.protocol import events as on
from msh.protocol.flight import (
    TRANSITIONS,
    DeadlinePassed,
    Expired,
    Flight,
    FlightEvent,
    FlightState,
    FlightTerms,
    OnSilence,
    ProbeClaimed,
    step,
)
from msh.protocol.kinds import EARLY_WARNING, IncidentKind, PartyEventKind, Verdict
from msh.protocol.lane import OPERATOR
from msh.protocol.message import ErrorReport
from msh.protocol.vocabulary import ErrorCode, Severity

from .form import NOW, SAME, Becomes, Cells, Row, Table, after, becomes

TERMS = FlightTerms(
    timeout=20,
    retries=3,
    retry_interval=20,
    transient_wait_limit=100,
    time_to_live=600,
    persist_duration=900,
)
FLIGHT = Flight("m7", TERMS, attempt=2, copies=2, expires_at=after(500), persists_until=after(800))
"""Its second copy was the last one."""

COLUMNS = ("ready", "waiting", "held", "acknowledged", "failed", "cancelled")
GOES = "ready waiting"
LIVES = "ready waiting held"
GONE: Cells = {"acknowledged failed cancelled": SAME}


def flight_in(column: str, flight: Flight = FLIGHT, due: float = -5) -> Flight:
    """A flight as the column's name says. `due` in seconds from now."""
    state = FlightState(column)
    if column in GOES.split():
        return replace(flight, state=state, under_way=True, due=after(due))
    silent = IncidentKind.RETRIES_SPENT if column == "held" else ""
    return replace(flight, state=state, held_for=silent)


def changed(**changes: Any) -> Flight:
    return replace(FLIGHT, **changes)


NUMBERED = changed(number=4)

# --- what becomes of a flight -----------------------------------------------------------------

LANDS = {"under_way": False, "due": None, "held_for": ""}
READIES = {"state": FlightState.READY, "due": NOW, "held_for": ""}
DEPARTS = {"state": FlightState.WAITING, "under_way": True, "due": after(30 + 20)}
HELD = {"state": FlightState.HELD, "under_way": False, "due": None}
SPENT = IncidentKind.RETRIES_SPENT


def fails(
    kind: IncidentKind,
    detail: str,
    code: str = "DeliveryFailure",
    severity: Severity = Severity.HARD_ERROR,
) -> Cells:
    """The message fails, and what an operator was asked about it is settled."""
    effects = (
        do.Fail("m7", code, severity, detail),
        do.OpenIncident(kind, "m7", f"{code}: {detail}"),
        do.NotifyFromParty(PartyEventKind.FAILED, "m7", f"{code}: {detail}", kind),
    )
    failed = {"state": FlightState.FAILED, **LANDS}
    return {
        GOES: becomes(*effects, do.PollLane(), **failed),
        "held": becomes(do.ResolveIncidents(), *effects, **failed),
    }


def _only(column: str, cells: Cells) -> Cells:
    """What `cells` say of this one column."""
    (cell,) = (cell for names, cell in cells.items() if column in names.split())
    return {column: cell}


def holds(detail: str) -> Becomes:
    opened = do.OpenIncident(SPENT, "m7", detail)
    told = do.NotifyFromParty(PartyEventKind.SUSPENDED, "m7", detail, SPENT)
    return becomes(opened, told, do.PollLane(), **HELD, held_for=SPENT)


def ended(seconds: float, *effects: do.FlightEffect, **changes: Any) -> Cells:
    """An attempt ends: the next copy goes after so many seconds."""
    other = becomes(*effects, **changes)
    return {
        "waiting": becomes(*effects, **changes, due=after(seconds)),
        "ready held": other,
        **GONE,
    }


def claimed(*effects: do.FlightEffect, **changes: Any) -> Cells:
    return {"ready": becomes(*effects, **changes, **DEPARTS), **GONE}


NEW = changed(attempt=0, copies=0, expires_at=None, persists_until=None)
FOR_EVER = FlightTerms(timeout=20, retries=3, retry_interval=20)
WARNS = changed(terms=replace(TERMS, early_warning=2))
DELAYED = do.NotifyFromParty(
    PartyEventKind.DELAYED, "m7", "retry 2 of 3: no Acknowledgement yet", EARLY_WARNING
)
EXPIRED, FORBIDDEN = changed(expires_at=NOW), changed(persists_until=NOW)
NONE_LEFT = changed(attempt=4, copies=4)
CLAIMED = on.AttemptClaimed(http_deadline=30)
PROBED = do.Note("m7", "probe: one copy, the partner stays suspended")
SILENCE = "no Acknowledgement after 4 attempts"
UNREACHABLE = do.ReportUnreachable("m7", "4 attempts in a row were not answered")
PAST = "past its PersistDuration: no Acknowledgement after 2 attempts"
EXPIRES = fails(
    IncidentKind.MESSAGE_EXPIRED, "not acknowledged by 2026-03-01 12:00:00 UTC", "TimeToLiveExpired"
)
DOUBT = do.Note("m7", "404", EARLY_WARNING)
RETRIES: Cells = {"waiting": becomes(do.Transmit(), **READIES), **GONE}

COPIES = (
    Row(CLAIMED, claimed(attempt=3, copies=3), "EB-080"),
    Row(
        CLAIMED,
        claimed(attempt=1, copies=1, expires_at=after(600), persists_until=after(900)),
        "EB-083 EB-084",
        name="the message is composed",
        start=NEW,
    ),
    Row(
        CLAIMED,
        claimed(attempt=1, copies=1, persists_until=after(900)),
        name="the application asked for a TimeToLive",
        start=replace(NEW, expires_at=after(7)),
    ),
    Row(
        CLAIMED,
        claimed(attempt=1, copies=1),
        name="nothing agreed on its life",
        start=replace(NEW, terms=FOR_EVER),
    ),
    Row(CLAIMED, claimed(DELAYED, attempt=3, copies=3), name="the retry that warns", start=WARNS),
    Row(CLAIMED, claimed(attempt=3, copies=1), name="no warning", start=changed(copies=0)),
    Row(CLAIMED, GONE, "EB-083", name="after TimeToLive", start=EXPIRED),
    Row(CLAIMED, GONE, "EB-084", name="after PersistDuration", start=FORBIDDEN),
    Row(ProbeClaimed(http_deadline=30), claimed(PROBED, attempt=3), "EB-091"),
    Row(
        ProbeClaimed(http_deadline=30),
        GONE,
        "EB-084",
        name="after PersistDuration",
        start=FORBIDDEN,
    ),
    Row(on.AttemptTransmitted("m7", 2), ended(20, carried=True, reached=True), "EB-071 EB-080"),
    Row(
        on.AttemptFailed("m7", 2, detail="connection refused", unreachable=True),
        ended(20, unreached=1),
        "EB-089",
    ),
    Row(
        on.AttemptFailed("m7", 2, detail="503", retry_after=50, unreachable=True),
        ended(50, unreached=1),
        "EB-089 EB-090",
        name="a longer wait",
    ),
    Row(
        on.AttemptFailed("m7", 2, detail="503", retry_after=5000, unreachable=True),
        ended(100, unreached=1),
        "EB-089",
        name="a wait above the cap",
    ),
    Row(
        on.AttemptFailed("m7", 2, detail="404", doubted=True),
        ended(20, DOUBT, reached=True),
        "EB-089",
        name="the partner may be set up wrongly",
    ),
    Row(
        on.AttemptRefused("m7", 2, detail="400: not XML"),
        {**fails(IncidentKind.REFUSED_BY_PEER, "400: not XML"), **GONE},
        "EB-067 EB-089",
    ),
    Row(DeadlinePassed(), RETRIES, "EB-080"),
    Row(DeadlinePassed(), {"waiting": SAME, **GONE}, name="not yet", due=1),
    Row(DeadlinePassed(), RETRIES, name="farther away than any wait", due=201),
    Row(
        DeadlinePassed(),
        {**_only("waiting", fails(SPENT, SILENCE)), **GONE},
        "EB-082",
        name="none left, no copy transmitted",
        start=replace(NONE_LEFT, reached=True),
    ),
    Row(
        DeadlinePassed(failures=3),
        {**_only("waiting", fails(SPENT, SILENCE, severity=Severity.WARNING)), **GONE},
        "EB-082",
        name="none left, a copy transmitted",
        start=replace(NONE_LEFT, carried=True, reached=True, unreached=3),
    ),
    Row(
        DeadlinePassed(failures=8),
        {**_only("waiting", fails(SPENT, SILENCE)), **GONE},
        name="none left, a worker died with each copy",
        start=NONE_LEFT,
    ),
    Row(
        DeadlinePassed(failures=3),
        {**_only("waiting", fails(SPENT, SILENCE)), **GONE},
        "EB-082 EB-090",
        name="none left, other messages came through",
        start=replace(NONE_LEFT, unreached=4),
    ),
    Row(
        DeadlinePassed(failures=4),
        {
            "waiting": becomes(UNREACHABLE, do.Transmit(), copies=0, unreached=0, **READIES),
            **GONE,
        },
        "EB-091",
        name="none left, nothing came through",
        start=replace(NONE_LEFT, unreached=4),
    ),
    Row(
        DeadlinePassed(),
        {"waiting": holds(SILENCE), **GONE},
        "EB-082",
        name="none left, an operator decides",
        start=replace(NONE_LEFT, on_silence=OnSilence.HOLD, reached=True),
    ),
    Row(
        DeadlinePassed(),
        {**_only("waiting", EXPIRES), **GONE},
        "EB-083",
        name="after TimeToLive",
        start=EXPIRED,
    ),
    Row(
        DeadlinePassed(),
        {**_only("waiting", fails(SPENT, PAST)), **GONE},
        "EB-084",
        name="after PersistDuration",
        start=FORBIDDEN,
    ),
    Row(Expired(), {**EXPIRES, **GONE}, "EB-083", name="TimeToLive", start=EXPIRED),
    Row(Expired(), {"*": SAME}, name="not yet"),
    Row(Expired(), {"*": SAME}, name="never", start=changed(expires_at=None, persists_until=None)),
    Row(
        Expired(),
        {**_only("ready", fails(SPENT, PAST)), "waiting held": SAME, **GONE},
        "EB-084",
        name="PersistDuration",
        start=FORBIDDEN,
    ),
    Row(
        Expired(),
        {"ready": holds(PAST), "*": SAME},
        name="PersistDuration, an operator decides",
        start=replace(FORBIDDEN, on_silence=OnSilence.HOLD),
    ),
)

# --- what the partner answers -----------------------------------------------------------------

AT_ACTION = "unknown Action (at //eb:Action)"
HARD = ErrorReport(
    ErrorCode.VALUE_NOT_RECOGNIZED, Severity.HARD_ERROR, "//eb:Action", "unknown Action"
)
FOREIGN = ErrorReport(
    ErrorCode.UNKNOWN, Severity.HARD_ERROR, description="no such patient", code_text="NHS:200"
)
WARNING = ErrorReport(ErrorCode.INCONSISTENT, Severity.WARNING, description="odd")
COMPLETED = (do.Complete("m7"), do.NotifyFromParty(PartyEventKind.ACKNOWLEDGED, "m7"))
LATE = do.NotifyFromParty(PartyEventKind.ACKNOWLEDGED, "m7", "late, after it had failed")
DONE = {"state": FlightState.ACKNOWLEDGED, **LANDS}
RECEIVED = IncidentKind.ERROR_RECEIVED
WARNED = do.Note("m7", "Warning Inconsistent: odd")
TOLD = do.NotifyFromParty(PartyEventKind.WARNING, "m7", "Inconsistent: odd", "Inconsistent")


def refused(report: ErrorReport, detail: str, code: str) -> Cells:
    """An Error fails the message, or is told if the message was acknowledged, or is noted."""
    text = f"{code}: {detail}"
    noted = do.Note("m7", f"HardError {text}")
    opened = do.OpenIncident(RECEIVED, "m7", f"after its Acknowledgment: {text}")
    told = do.NotifyFromParty(PartyEventKind.ERROR, "m7", text, report.code)
    return {
        **fails(RECEIVED, detail, code),
        "acknowledged": becomes(noted, opened, told),
        "failed cancelled": becomes(noted),
    }


ANSWERS = (
    Row(
        on.AckReceived("m7"),
        {
            GOES: becomes(*COMPLETED, do.PollLane(), **DONE),
            "held": becomes(do.ResolveIncidents(), *COMPLETED, **DONE),
            "acknowledged": becomes(do.CountDuplicateAck("m7")),
            "failed": becomes(do.ResolveIncidents(), do.Complete("m7"), LATE, **DONE),
            "cancelled": becomes(
                do.RecordLateVerdict("m7"),
                do.NotifyFromParty(
                    PartyEventKind.CANCELLED, "m7", "received after all", Verdict.RECEIVED
                ),
            ),
        },
        "EB-086 EB-087",
    ),
    Row(on.ErrorReceived("m7", HARD), refused(HARD, AT_ACTION, "ValueNotRecognized"), "EB-058"),
    Row(
        on.ErrorReceived("m7", FOREIGN),
        refused(FOREIGN, "no such patient", "NHS:200"),
        "EB-057 EB-058",
    ),
    Row(
        on.ErrorReceived("m7", WARNING),
        {f"{LIVES} acknowledged": becomes(WARNED, TOLD), "failed cancelled": becomes(WARNED)},
        "EB-059",
    ),
)

# --- what an operator may do (EB-092) ---------------------------------------------------------

AGAIN = do.ResolveIncidents(), do.Transmit()
RESUMED = becomes(*AGAIN, copies=0, unreached=0, **READIES)
SOME = changed(copies=3, unreached=2)


def cancelled(verdict: Verdict, also: str = "") -> Cells:
    told = do.NotifyFromParty(PartyEventKind.CANCELLED, "m7", verdict.value, verdict)
    effects = (do.Cancel("m7", verdict), told)
    ends = {"state": FlightState.CANCELLED, **LANDS}
    return {
        GOES: becomes(*effects, do.PollLane(), **ends),
        f"held {also}": becomes(do.ResolveIncidents(), *effects, **ends),
    }


OPERATORS = (
    Row(on.OperatorSuspended(), {GOES: becomes(do.PollLane(), **HELD, held_for=OPERATOR)}),
    Row(on.OperatorResumed(), {"held": RESUMED}, start=SOME),
    Row(
        on.OperatorResumed(),
        {"held failed": RESUMED},
        "EB-124",
        name="its conversation stands still",
        start=NUMBERED,
    ),
    Row(
        on.RetriesReset(),
        {
            "ready": becomes(copies=0, unreached=0),
            "waiting": becomes(copies=1, unreached=0),
            "held": RESUMED,
        },
        start=SOME,
    ),
    Row(
        on.SendNowRequested(),
        {
            "ready": becomes(do.Transmit()),
            "waiting": becomes(do.Transmit(), copies=1, **READIES),
            "held": becomes(*AGAIN, copies=1, **READIES),
        },
    ),
    Row(
        on.SendNowRequested(),
        {
            "ready": becomes(do.Transmit()),
            "waiting": becomes(do.Transmit(), **READIES),
            "held": becomes(*AGAIN, **READIES),
        },
        name="only a probe was sent",
        start=changed(copies=0),
    ),
    *(
        Row(event, {}, proved, name=f"after {end}", start=replace(flight, number=4))
        for event in (on.OperatorResumed(), on.RetriesReset(), on.SendNowRequested())
        for end, flight, proved in (
            ("TimeToLive", EXPIRED, "EB-083"),
            ("PersistDuration", FORBIDDEN, "EB-084"),
        )
    ),
    Row(on.MessageCancelled(Verdict.RECEIVED), cancelled(Verdict.RECEIVED)),
    Row(on.MessageCancelled(Verdict.UNKNOWN), cancelled(Verdict.UNKNOWN)),
    Row(
        on.MessageCancelled(Verdict.NOT_RECEIVED, nothing_sent=True),
        cancelled(Verdict.NOT_RECEIVED),
    ),
    Row(on.MessageCancelled(Verdict.NOT_RECEIVED), {}, name="not proven"),
    Row(
        on.MessageCancelled(Verdict.UNKNOWN),
        cancelled(Verdict.UNKNOWN, also="failed"),
        "EB-124",
        name="its conversation stands still",
        start=NUMBERED,
    ),
)

TABLE = Table(
    "flight",
    COLUMNS,
    (*COPIES, *ANSWERS, *OPERATORS),
    before=lambda row, column: flight_in(column, row.start or FLIGHT, row.due),
    step=lambda flight, event: step(flight, event, now=NOW),
    transitions=TRANSITIONS,
    states=FlightState,
    events=frozenset(get_args(FlightEvent)),
    reasons=("past its TimeToLive", "past its PersistDuration"),
)
