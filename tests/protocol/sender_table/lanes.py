"""Lanes to start from, and how a row of the table says what becomes of them."""

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from msh.protocol import effects as do
from msh.protocol import events as on
from msh.protocol.agreement import Terms
from msh.protocol.kinds import IncidentKind, PartyEventKind
from msh.protocol.lane import InFlight, Lane, LaneState
from msh.protocol.reason import Reason

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
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


SILENT = IncidentKind.RETRIES_SPENT


def after(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def lane_in(column: str, flying: InFlight = FLYING, due: float = -5) -> Lane:
    """A lane as the column's name says. `due` in seconds from now."""
    lane = Lane(next_number=8, epoch=2)
    over = after(due)
    return {
        "waiting": replace(lane, state=LaneState.WAITING, in_flight=flying, due=over),
        "unsent": replace(lane, state=LaneState.WAITING, in_flight=flying, due=over, unsent=True),
        "promised": replace(
            lane,
            state=LaneState.WAITING,
            in_flight=flying,
            due=over,
            unsent=True,
            promised=True,
        ),
        "transient": replace(lane, state=LaneState.TRANSIENT, in_flight=flying, due=over),
        "transient_empty": replace(lane, state=LaneState.TRANSIENT, due=over),
        "suspended": replace(
            lane, state=LaneState.SUSPENDED, in_flight=flying, suspended_for=SILENT
        ),
        "suspended_empty": replace(
            lane, state=LaneState.SUSPENDED, late_ack=True, suspended_for=SILENT
        ),
        "idle": lane,
    }[column]


COLUMNS = (
    "waiting",
    "unsent",
    "promised",
    "transient",
    "transient_empty",
    "suspended",
    "suspended_empty",
    "idle",
)


@dataclass(frozen=True)
class Expected:
    """What changes of the lane, and every effect in its order. `legal` False: it raises."""

    changes: dict[str, Any] = field(default_factory=dict)
    effects: tuple[do.SenderEffect, ...] = ()
    legal: bool = True


def becomes(*effects: do.SenderEffect, **changes: Any) -> Expected:
    return Expected(changes, effects)


SAME = becomes()
ILLEGAL = Expected(legal=False)


@dataclass(frozen=True)
class Row:
    name: str
    event: on.SenderEvent
    cells: dict[str, Expected]
    flying: InFlight = FLYING
    due: float = -5
    proves: tuple[str, ...] = ()

    def lane(self, column: str) -> Lane:
        return lane_in(column, self.flying, self.due)


def everywhere(expected: Expected) -> dict[str, Expected]:
    return dict.fromkeys(COLUMNS, expected)


def only(**cells: Expected) -> dict[str, Expected]:
    """These cells, and in every other state the event may not happen."""
    return everywhere(ILLEGAL) | cells


def noted(**cells: Expected) -> dict[str, Expected]:
    """These cells, and in every other state it is noted on its attempt or dropped."""
    return everywhere(SAME) | cells


def suspends(
    kind: IncidentKind, detail: str, reason: Reason = Reason.NONE, **changes: Any
) -> Expected:
    return becomes(
        do.OpenIncident(kind, "m7", detail, reason),
        do.NotifyFromParty(PartyEventKind.SUSPENDED, "m7", detail),
        state=LaneState.SUSPENDED,
        due=None,
        unsent=False,
        promised=False,
        suspended_for=kind,
        **changes,
    )


def flying(**changes: Any) -> InFlight:
    return replace(FLYING, **changes)


TRANSMITS = {
    "state": LaneState.WAITING,
    "due": NOW,
    "unsent": True,
    "promised": False,
    "suspended_for": "",
}
LANDS_IDLE = {
    "state": LaneState.IDLE,
    "in_flight": None,
    "due": None,
    "unsent": False,
    "promised": False,
}
