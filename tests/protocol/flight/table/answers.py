"""Rows of the table: what the partner answers."""

from msh.protocol import effects as do
from msh.protocol import events as on
from msh.protocol.flight import FlightState
from msh.protocol.kinds import IncidentKind, PartyEventKind
from msh.protocol.message import ErrorReport
from msh.protocol.vocabulary import ErrorCode, Severity

from .flights import LANDS, Row, becomes, fails, fails_held, only

HARD = ErrorReport(
    ErrorCode.VALUE_NOT_RECOGNIZED, Severity.HARD_ERROR, "//eb:Action", "unknown Action"
)
FOREIGN = ErrorReport(
    ErrorCode.UNKNOWN, Severity.HARD_ERROR, description="no such patient", code_text="NHS:200"
)
WARNING = ErrorReport(ErrorCode.INCONSISTENT, Severity.WARNING, description="odd")
ACKED = do.NotifyFromParty(PartyEventKind.ACKNOWLEDGED, "m7")
RECEIVED = IncidentKind.ERROR_RECEIVED
AT_ACTION = "unknown Action (at //eb:Action)"
NOTED = becomes(do.Note("m7", f"HardError ValueNotRecognized: {AT_ACTION}"))
AFTER = "after its Acknowledgment: "
LATE = becomes(
    do.Note("m7", f"HardError ValueNotRecognized: {AT_ACTION}"),
    do.OpenIncident(RECEIVED, "m7", f"{AFTER}ValueNotRecognized: {AT_ACTION}"),
    do.NotifyFromParty(PartyEventKind.ERROR, "m7", f"ValueNotRecognized: {AT_ACTION}"),
)
WARNED = do.Note("m7", "Warning Inconsistent: odd")
TOLD = do.NotifyFromParty(PartyEventKind.WARNING, "m7", "Inconsistent: odd")
DONE = {"state": FlightState.ACKNOWLEDGED, **LANDS}

ANSWERS = (
    Row(
        "acknowledged",
        on.AckReceived("m7"),
        only(
            ready=becomes(do.Complete("m7"), ACKED, do.PollLane(), **DONE),
            waiting=becomes(do.Complete("m7"), ACKED, do.PollLane(), **DONE),
            held=becomes(do.ResolveIncidents(), do.Complete("m7"), ACKED, **DONE),
            acknowledged=becomes(do.CountDuplicateAck("m7")),
            failed=becomes(
                do.ResolveIncidents(),
                do.Complete("m7"),
                do.NotifyFromParty(PartyEventKind.ACKNOWLEDGED, "m7", "late, after it had failed"),
                **DONE,
            ),
            cancelled=becomes(
                do.RecordLateVerdict("m7"),
                do.NotifyFromParty(PartyEventKind.CANCELLED, "m7", "received after all"),
            ),
        ),
        proves=("EB-086", "EB-087"),
    ),
    Row(
        "Error received",
        on.ErrorReceived("m7", HARD),
        only(
            ready=fails(RECEIVED, AT_ACTION, "ValueNotRecognized"),
            waiting=fails(RECEIVED, AT_ACTION, "ValueNotRecognized"),
            held=fails_held(RECEIVED, AT_ACTION, "ValueNotRecognized"),
            acknowledged=LATE,
            failed=NOTED,
            cancelled=NOTED,
        ),
        proves=("EB-058",),
    ),
    Row(
        "Error received, with a code of theirs",
        on.ErrorReceived("m7", FOREIGN),
        only(
            ready=fails(RECEIVED, "no such patient", "NHS:200"),
            waiting=fails(RECEIVED, "no such patient", "NHS:200"),
            held=fails_held(RECEIVED, "no such patient", "NHS:200"),
            acknowledged=becomes(
                do.Note("m7", "HardError NHS:200: no such patient"),
                do.OpenIncident(RECEIVED, "m7", f"{AFTER}NHS:200: no such patient"),
                do.NotifyFromParty(PartyEventKind.ERROR, "m7", "NHS:200: no such patient"),
            ),
            failed=becomes(do.Note("m7", "HardError NHS:200: no such patient")),
            cancelled=becomes(do.Note("m7", "HardError NHS:200: no such patient")),
        ),
        proves=("EB-057", "EB-058"),
    ),
    Row(
        "Warning received",
        on.ErrorReceived("m7", WARNING),
        only(
            ready=becomes(WARNED, TOLD),
            waiting=becomes(WARNED, TOLD),
            held=becomes(WARNED, TOLD),
            acknowledged=becomes(WARNED, TOLD),
            failed=becomes(WARNED),
            cancelled=becomes(WARNED),
        ),
        proves=("EB-059",),
    ),
)
