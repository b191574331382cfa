"""The table of a partner's gate: rows of events, columns of gates."""

from datetime import datetime
from typing import get_args

from msh.protocol import effects as do
from msh.protocol import events as on
from msh.protocol.flight import ProbeClaimed
from msh.protocol.flight.gate import (
    BREAKER,
    TRANSITIONS,
    Gate,
    GateEvent,
    GateState,
    MessageRefused,
    MessageTaken,
    MessageUnreached,
    PartnerHeard,
    step,
)
from msh.protocol.kinds import IncidentKind
from msh.protocol.lane import OPERATOR

from .form import NOW, SAME, Becomes, Cells, Row, Table, after, becomes

UNREACHABLE = IncidentKind.PARTNER_UNREACHABLE
OPEN = Gate(60, 30, failures=3)
BROKEN = Gate(60, 30, GateState.SUSPENDED, BREAKER, after(-5), UNREACHABLE)
STOPPED = Gate(60, 30, GateState.SUSPENDED, 3, None, OPERATOR)
COLUMNS = {"open": OPEN, "broken": BROKEN, "stopped": STOPPED}

TRANSMITTED = on.AttemptTransmitted("m7", 2)
FAILED = on.AttemptFailed("m7", 2, "503", unreachable=True)


def breaks(detail: str, failures: int, due: datetime | None) -> Becomes:
    return becomes(
        do.OpenIncident(UNREACHABLE, "m7", detail),
        state=GateState.SUSPENDED,
        failures=failures,
        failing_since=NOW if failures == BREAKER else None,
        due=due,
        suspended_for=UNREACHABLE,
    )


OPENED = {"state": GateState.OPEN, "failures": 0, "due": None, "suspended_for": ""}
OPENS = becomes(do.ResolveIncidents(), do.PollLane(), **OPENED)
STOPS = becomes(state=GateState.SUSPENDED, due=None, suspended_for=OPERATOR)
ON_AN_ANSWER: Cells = {"open stopped": becomes(failures=0), "broken": OPENS}

TABLE = Table(
    "gate",
    tuple(COLUMNS),
    (
        Row(TRANSMITTED, ON_AN_ANSWER),
        Row(on.AttemptRefused("m7", 2, "400"), ON_AN_ANSWER),
        Row(on.AttemptFailed("m7", 2, "500"), ON_AN_ANSWER, name="answered"),
        Row(
            FAILED,
            {
                "open stopped": becomes(failures=4, failing_since=NOW),
                "broken": becomes(failures=9, failing_since=NOW, due=after(60)),
            },
        ),
        Row(
            MessageUnreached("m7", "silent"),
            {"open": breaks("silent", 3, after(60)), "broken stopped": SAME},
        ),
        Row(ProbeClaimed(30), {"broken": becomes(due=after(30 + 60), probed_at=NOW)}),
        Row(
            MessageRefused("m7", "400", "no such action"),
            {"*": becomes(refusals=1, refused_for="400", refused_message="m7")},
        ),
        Row(MessageTaken(), {"*": SAME}),
        Row(PartnerHeard(), {"*": SAME}),
        Row(on.OperatorSuspended(), {"open broken": STOPS}),
        Row(on.OperatorResumed(), {"broken stopped": OPENS}),
    ),
    before=lambda row, column: COLUMNS[column],
    step=lambda gate, event: step(gate, event, now=NOW),
    transitions=TRANSITIONS,
    states=GateState,
    events=frozenset(get_args(GateEvent)),
)
