"""Values of the Sender's lane."""

from datetime import UTC, datetime

import pytest

from msh.protocol.agreement import Terms
from msh.protocol.lane import InFlight, Lane, LaneState

NOW = datetime(2026, 1, 1, tzinfo=UTC)
TERMS = Terms(timeout=60, retries=3, retry_interval=60)


def test_a_message_without_transient_errors_has_reached_no_limit() -> None:
    assert not InFlight("m1", 1, TERMS).transient_limit_reached(NOW)


def test_a_lane_with_nothing_in_flight_has_no_message_in_flight_to_name() -> None:
    with pytest.raises(AssertionError, match="idle with nothing in flight"):
        _ = Lane().flying


@pytest.mark.parametrize(("promised", "attempt"), [(False, 3), (True, 2)])
def test_a_promised_copy_has_its_attempt_number_already(promised: bool, attempt: int) -> None:
    flying = InFlight("m1", 1, TERMS, attempt=2)
    lane = Lane(LaneState.WAITING, in_flight=flying, due=NOW, unsent=True, promised=promised)
    assert lane.attempt_to_send == attempt
