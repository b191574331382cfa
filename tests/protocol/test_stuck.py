"""When a lane that says nothing is stuck."""

from datetime import timedelta

import pytest

from msh.protocol.stuck import why_stuck

from .sender_table.lanes import NOW, after, lane_in

LIMIT = timedelta(hours=1)
LONG_AGO = after(-3601)


@pytest.mark.parametrize(
    ("column", "why"),
    [
        ("waiting", "number 7 is in flight after 2 attempts and 1 TransientErrors"),
        ("transient", "number 7 is in flight after 2 attempts and 1 TransientErrors"),
        ("transient_empty", "asked to wait"),
        ("idle", "a queue, nothing in flight"),
    ],
)
def test_work_that_waits_too_long(column: str, why: str) -> None:
    since = "nothing has moved since 2026-03-01 10:59:59 UTC: "
    assert why_stuck(lane_in(column), LONG_AGO, NOW, LIMIT) == since + why


def test_no_work_young_work_or_a_suspended_lane_is_not_stuck() -> None:
    lane = lane_in("waiting")
    assert why_stuck(lane, None, NOW, LIMIT) == ""
    assert why_stuck(lane, after(-3600), NOW, LIMIT) == ""
    assert why_stuck(lane_in("suspended"), LONG_AGO, NOW, LIMIT) == ""
