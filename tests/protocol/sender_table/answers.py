"""Rows of the table: Acknowledgements and Error Messages."""

from msh.protocol import effects as do
from msh.protocol import events as on
from msh.protocol.kinds import IncidentKind, PartyEventKind
from msh.protocol.lane import LaneState
from msh.protocol.message import ErrorReport
from msh.protocol.reason import Reason
from msh.protocol.vocabulary import ErrorCode, Severity

from .lanes import (
    LANDS_IDLE,
    NOW,
    Row,
    after,
    becomes,
    everywhere,
    flying,
    noted,
    suspends,
)

COMPLETED = (do.Complete("m7"), do.NotifyFromParty(PartyEventKind.ACKNOWLEDGED, "m7"))

HELD = becomes(
    do.Note("m7", "TransientError, wait asked for: 30 s"),
    state=LaneState.TRANSIENT,
    in_flight=flying(transients=2),
    due=after(30),
    unsent=False,
    promised=False,
)
PROBE_HELD = becomes(
    do.Note("m7", "TransientError, wait asked for: 30 s"),
    do.ResolveIncidents(),
    state=LaneState.TRANSIENT,
    in_flight=flying(retries_spent=0, transients=1, transient_since=NOW),
    due=after(30),
    unsent=False,
    promised=False,
)
TOO_OFTEN = suspends(
    IncidentKind.TRANSIENT_LIMIT,
    "6 TransientErrors since 2026-03-01 11:59:30 UTC",
    in_flight=flying(transients=6),
)

GAP = ErrorReport(ErrorCode.SEQUENCE_GAP, Severity.HARD_ERROR, description="5 missing")
GAP_NOTED = becomes(do.Note("m7", "Error SequenceGap: 5 missing"))
GAP_EXPLAINS = becomes(
    do.Note("m7", "Error SequenceGap: 5 missing"),
    do.ExplainSuspension("m7", "SequenceGap: 5 missing", Reason.NUMBERS),
)
OUT_OF_STEP = suspends(IncidentKind.RESYNCHRONISE, "SequenceGap: 5 missing", Reason.NUMBERS)
OUT_OF_STEP_EMPTY = becomes(
    do.OpenIncident(IncidentKind.RESYNCHRONISE, "m7", "SequenceGap: 5 missing", Reason.NUMBERS)
)

HARD = ErrorReport(ErrorCode.NOT_SUPPORTED, Severity.HARD_ERROR, description="no such action")
HARD_NOTED = becomes(do.Note("m7", "Error NotSupported: no such action"))
HARD_SUSPENDS = suspends(IncidentKind.ERROR_RECEIVED, "NotSupported: no such action")

STRANGE = ErrorReport(
    ErrorCode.UNKNOWN, Severity.HARD_ERROR, description="tilted", code_text="PinballError"
)
STRANGE_NOTED = becomes(do.Note("m7", "Error PinballError: tilted"))
STRANGE_SUSPENDS = suspends(IncidentKind.ERROR_RECEIVED, "PinballError: tilted")

WARNING = ErrorReport(ErrorCode.UNKNOWN, Severity.WARNING, description="certificate ends soon")
WARNING_NOTED = becomes(do.Note("m7", "Error Unknown: certificate ends soon"))

ANSWERS = (
    Row(
        "Ack of the message in flight",
        on.AckReceived("m7"),
        {
            "waiting": becomes(*COMPLETED, do.PollLane(), **LANDS_IDLE),
            "unsent": becomes(*COMPLETED, do.PollLane(), **LANDS_IDLE),
            "promised": becomes(*COMPLETED, do.PollLane(), **LANDS_IDLE),
            "transient": becomes(*COMPLETED, in_flight=None),
            "transient_empty": becomes(do.CountDuplicateAck("m7")),
            "suspended": becomes(*COMPLETED, in_flight=None, late_ack=True),
            "suspended_empty": becomes(do.CountDuplicateAck("m7")),
            "idle": becomes(do.CountDuplicateAck("m7")),
        },
        proves=("000-030", "000-069", "000-085", "000-097"),
    ),
    Row(
        "late Ack, and the partner was given that it resumes",
        on.AckReceived("m7", resumes=True),
        {
            "waiting": becomes(*COMPLETED, do.PollLane(), **LANDS_IDLE),
            "unsent": becomes(*COMPLETED, do.PollLane(), **LANDS_IDLE),
            "promised": becomes(*COMPLETED, do.PollLane(), **LANDS_IDLE),
            "transient": becomes(*COMPLETED, in_flight=None),
            "transient_empty": becomes(do.CountDuplicateAck("m7")),
            "suspended": becomes(
                *COMPLETED,
                do.ResolveIncidents(),
                do.PollLane(),
                suspended_for="",
                **LANDS_IDLE,
            ),
            "suspended_empty": becomes(do.CountDuplicateAck("m7")),
            "idle": becomes(do.CountDuplicateAck("m7")),
        },
    ),
    Row(
        "Ack of a probe",
        on.AckReceived("m7"),
        {
            "waiting": becomes(*COMPLETED, do.ResolveIncidents(), do.PollLane(), **LANDS_IDLE),
            "unsent": becomes(*COMPLETED, do.ResolveIncidents(), do.PollLane(), **LANDS_IDLE),
            "promised": becomes(*COMPLETED, do.ResolveIncidents(), do.PollLane(), **LANDS_IDLE),
            "transient": becomes(*COMPLETED, in_flight=None),
            "transient_empty": becomes(do.CountDuplicateAck("m7")),
            "suspended": becomes(*COMPLETED, in_flight=None, late_ack=True),
            "suspended_empty": becomes(do.CountDuplicateAck("m7")),
            "idle": becomes(do.CountDuplicateAck("m7")),
        },
        flying=flying(retries_spent=4),
    ),
    Row(
        "TransientError for a probe: the partner answers again",
        on.TransientErrorReceived("m7", 30, "disk full"),
        noted(
            waiting=PROBE_HELD,
            unsent=PROBE_HELD,
            promised=PROBE_HELD,
            transient=PROBE_HELD,
            suspended=becomes(do.Note("m7", "TransientError: disk full")),
            suspended_empty=becomes(do.Note("m7", "TransientError: disk full")),
        ),
        flying=flying(retries_spent=4),
    ),
    Row(
        "Ack of another known message",
        on.AckOfOtherReceived("m5"),
        everywhere(becomes(do.CountDuplicateAck("m5"))),
        proves=("000-014", "000-097"),
    ),
    Row(
        "Ack of a cancelled message",
        on.AckOfOtherReceived("m5", cancelled=True),
        everywhere(
            becomes(
                do.RecordLateVerdict("m5"),
                do.NotifyFromParty(PartyEventKind.CANCELLED, "m5", "received after all"),
            )
        ),
        proves=("000-014",),
    ),
    Row(
        "Ack of an unknown id",
        on.AckOfUnknownReceived("x1"),
        everywhere(
            becomes(do.Note("x1", "Acknowledgement of a message that was never sent from here"))
        ),
        proves=("000-014",),
    ),
    Row(
        "TransientError",
        on.TransientErrorReceived("m7", 30, "disk full"),
        noted(
            waiting=HELD,
            unsent=HELD,
            promised=HELD,
            transient=HELD,
            suspended=becomes(do.Note("m7", "TransientError: disk full")),
            suspended_empty=becomes(do.Note("m7", "TransientError: disk full")),
        ),
        proves=("000-029", "000-079", "000-083"),
    ),
    Row(
        "TransientError, one too many",
        on.TransientErrorReceived("m7", 30, "disk full"),
        noted(
            waiting=TOO_OFTEN,
            unsent=TOO_OFTEN,
            promised=TOO_OFTEN,
            transient=TOO_OFTEN,
            suspended=becomes(do.Note("m7", "TransientError: disk full")),
            suspended_empty=becomes(do.Note("m7", "TransientError: disk full")),
        ),
        flying=flying(transients=5),
    ),
    Row(
        "SequenceGap, SequenceStale or SequenceConflict",
        on.SequenceErrorReceived("m7", GAP),
        {
            "waiting": OUT_OF_STEP,
            "unsent": OUT_OF_STEP,
            "promised": OUT_OF_STEP,
            "transient": OUT_OF_STEP,
            "transient_empty": OUT_OF_STEP_EMPTY,
            "suspended": GAP_EXPLAINS,
            "suspended_empty": GAP_NOTED,
            "idle": OUT_OF_STEP_EMPTY,
        },
        proves=("000-029", "000-084"),
    ),
    Row(
        "any other Error",
        on.ErrorReceived("m7", HARD),
        everywhere(HARD_NOTED)
        | {
            "waiting": HARD_SUSPENDS,
            "unsent": HARD_SUSPENDS,
            "promised": HARD_SUSPENDS,
            "transient": HARD_SUSPENDS,
        },
        proves=("000-029", "000-084"),
    ),
    Row(
        "an Error with a code of the peer's own",
        on.ErrorReceived("m7", STRANGE),
        everywhere(STRANGE_NOTED)
        | {
            "waiting": STRANGE_SUSPENDS,
            "unsent": STRANGE_SUSPENDS,
            "promised": STRANGE_SUSPENDS,
            "transient": STRANGE_SUSPENDS,
        },
        proves=("000-029",),
    ),
    Row("a Warning", on.ErrorReceived("m7", WARNING), everywhere(WARNING_NOTED)),
    Row(
        "Error for another message",
        on.ErrorForOtherReceived("m5", HARD),
        everywhere(becomes(do.Note("m5", "Error NotSupported: no such action"))),
    ),
)
