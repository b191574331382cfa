"""What the flight's table does not say: its ends, what comes at once, and lives that begin."""

from dataclasses import replace

import pytest

from msh.protocol import events as on
from msh.protocol.errors import IllegalTransition
from msh.protocol.flight import TRANSITIONS, FlightState, step
from msh.protocol.flight.answers import after_error_of_best_effort, events_of
from msh.protocol.message import ErrorReport
from msh.protocol.vocabulary import ErrorCode, Severity
from tests.protocol.tables.flight import FOREIGN, HARD, WARNING, flight_in
from tests.protocol.tables.form import NOW

GONE = (FlightState.ACKNOWLEDGED, FlightState.FAILED, FlightState.CANCELLED)


def test_what_is_acknowledged_is_never_left() -> None:
    """EB-087: and a failed message becomes acknowledged, or is sent again by an operator."""
    targets = {
        state: {target for cell in TRANSITIONS[state].values() if cell for target in cell.targets}
        for state in GONE
    }
    assert targets[FlightState.ACKNOWLEDGED] == {FlightState.ACKNOWLEDGED}
    assert targets[FlightState.CANCELLED] == {FlightState.CANCELLED}


def test_the_reason_is_given_for_what_is_refused_at_the_end_of_a_life() -> None:
    """EB-084."""
    flight = replace(flight_in("held"), persists_until=NOW)
    with pytest.raises(IllegalTransition) as refusal:
        step(flight, on.SendNowRequested(), now=NOW)
    assert str(refusal.value) == "SendNowRequested may not happen while past its PersistDuration"


@pytest.mark.parametrize(
    ("reports", "acknowledged", "events"),
    [
        ([], True, ("ack",)),
        ([], False, ()),
        ([WARNING], True, (WARNING, "ack")),
        ([WARNING], False, (WARNING,)),
        ([HARD], True, (HARD,)),
        ([HARD, WARNING, FOREIGN], True, (WARNING, HARD, FOREIGN)),
        ([FOREIGN, HARD], False, (FOREIGN, HARD)),
    ],
)
def test_an_error_beside_an_acknowledgment_wins(
    reports: list[ErrorReport], acknowledged: bool, events: tuple[ErrorReport | str, ...]
) -> None:
    """EB-059, EB-060."""
    expected = tuple(
        on.AckReceived("m7") if isinstance(one, str) else on.ErrorReceived("m7", one)
        for one in events
    )
    assert events_of("m7", reports, acknowledged=acknowledged) == expected


FAILED = on.AttemptFailed("m7", 2, detail="Cannot connect", unreachable=True, nothing_sent=True)


def test_the_life_of_a_message_begins_with_the_first_byte_that_may_have_left() -> None:
    """The second attempt has sent nothing, nor had the first."""
    flight = flight_in("waiting")
    once, _ = step(replace(flight, unsent=flight.attempt - 1), FAILED, now=NOW)
    assert (once.expires_at, once.persists_until) == (None, None)
    again, _ = step(flight, FAILED, now=NOW)
    assert (again.expires_at, again.unsent) == (flight.expires_at, flight.unsent + 1)


@pytest.mark.requirement("EB-090")
def test_a_wait_that_the_partner_asks_for_spends_no_retry() -> None:
    asked = on.AttemptFailed("m7", 2, detail="429", retry_after=50, asked_to_wait=True)
    flight = flight_in("waiting")
    after, _ = step(flight, asked, now=NOW)
    assert (after.copies, after.reached) == (flight.copies - 1, True)


@pytest.mark.parametrize("severity", Severity)
@pytest.mark.parametrize("is_open", [True, False])
def test_an_error_about_a_best_effort_message(severity: Severity, *, is_open: bool) -> None:
    report = ErrorReport(ErrorCode.UNKNOWN, severity, description="no such service")
    kinds = [
        type(one).__name__ for one in after_error_of_best_effort("m7", report, is_open=is_open)
    ]
    if severity is Severity.WARNING:
        assert kinds == ["Note", "NotifyFromParty"]
    elif is_open:
        assert kinds == ["Fail", "OpenIncident", "NotifyFromParty"]
    else:
        assert kinds == ["Note"]
