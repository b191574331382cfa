"""Flights to start from, and how a row of the table says what becomes of them."""

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from msh.protocol import effects as do
from msh.protocol.flight import Flight, FlightEvent, FlightState, FlightTerms, OnSilence
from msh.protocol.kinds import IncidentKind, PartyEventKind
from msh.protocol.vocabulary import Severity

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
TERMS = FlightTerms(
    timeout=20,
    retries=3,
    retry_interval=20,
    transient_wait_limit=100,
    time_to_live=600,
    persist_duration=900,
)


def after(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


FLIGHT = Flight(
    "m7",
    TERMS,
    attempt=2,
    copies=2,
    expires_at=after(500),
    persists_until=after(800),
)
"""Its second copy was the last one."""

COLUMNS = ("ready", "waiting", "held", "acknowledged", "failed", "cancelled")
_SILENT = IncidentKind.RETRIES_SPENT


def flight_in(column: str, flight: Flight = FLIGHT, due: float = -5) -> Flight:
    """A flight as the column's name says. `due` in seconds from now."""
    state = FlightState(column)
    if column in ("ready", "waiting"):
        return replace(flight, state=state, under_way=True, due=after(due))
    return replace(flight, state=state, held_for=_SILENT if column == "held" else "")


@dataclass(frozen=True)
class Expected:
    """What changes of the flight, and every effect in its order. `legal` False: it raises."""

    changes: dict[str, Any] = field(default_factory=dict)
    effects: tuple[do.FlightEffect, ...] = ()
    legal: bool = True


def becomes(*effects: do.FlightEffect, **changes: Any) -> Expected:
    return Expected(changes, effects)


SAME = becomes()
ILLEGAL = Expected(legal=False)
GONE = {"acknowledged": SAME, "failed": SAME, "cancelled": SAME}


@dataclass(frozen=True)
class Row:
    """`proves`: the requirements of ebMS that the row shows."""

    name: str
    event: FlightEvent
    cells: dict[str, Expected]
    flight: Flight = FLIGHT
    due: float = -5
    proves: tuple[str, ...] = ()

    def before(self, column: str) -> Flight:
        return flight_in(column, self.flight, self.due)


def only(**cells: Expected) -> dict[str, Expected]:
    """These cells, and in every other state the event may not happen."""
    return dict.fromkeys(COLUMNS, ILLEGAL) | cells


def changed(**changes: Any) -> Flight:
    return replace(FLIGHT, **changes)


HOLDS = changed(on_silence=OnSilence.HOLD)
NUMBERED = changed(number=4)
LANDS = {"under_way": False, "due": None, "held_for": ""}
READIES = {"state": FlightState.READY, "due": NOW, "held_for": ""}


def fails(
    kind: IncidentKind,
    detail: str,
    code: str = "DeliveryFailure",
    severity: Severity = Severity.HARD_ERROR,
) -> Expected:
    """A flight that is under way fails."""
    return becomes(
        *failing(kind, detail, code, severity), do.PollLane(), state=FlightState.FAILED, **LANDS
    )


def fails_held(
    kind: IncidentKind,
    detail: str,
    code: str = "DeliveryFailure",
    severity: Severity = Severity.HARD_ERROR,
) -> Expected:
    """One that an operator was asked about fails: that incident is over."""
    return becomes(
        do.ResolveIncidents(),
        *failing(kind, detail, code, severity),
        state=FlightState.FAILED,
        **LANDS,
    )


def failing(
    kind: IncidentKind, detail: str, code: str, severity: Severity
) -> tuple[do.FlightEffect, ...]:
    return (
        do.Fail("m7", code, severity, detail),
        do.OpenIncident(kind, "m7", f"{code}: {detail}"),
        do.NotifyFromParty(PartyEventKind.FAILED, "m7", f"{code}: {detail}"),
    )


def holds(detail: str) -> Expected:
    return becomes(
        do.OpenIncident(IncidentKind.RETRIES_SPENT, "m7", detail),
        do.NotifyFromParty(PartyEventKind.SUSPENDED, "m7", detail),
        do.PollLane(),
        state=FlightState.HELD,
        under_way=False,
        due=None,
        held_for=IncidentKind.RETRIES_SPENT,
    )
