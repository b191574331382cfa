"""When a lane that says nothing is stuck."""

from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from msh.protocol.kinds import DeliveryState
from msh.protocol.lane import OPERATOR
from msh.protocol.stuck import StuckSignal, Undelivered, why_stuck

from .tables.form import NOW, after
from .tables.sender import lane_in

LIMIT = timedelta(hours=1)
LONG_AGO = after(-3601)
SINCE = "no progress since 2026-03-01 10:59:59 UTC: "


@pytest.mark.parametrize(
    ("column", "why"),
    [
        ("waiting", "number 7 is in flight after 2 attempts and 1 TransientErrors"),
        ("transient", "number 7 is in flight after 2 attempts and 1 TransientErrors"),
        ("transient_empty", "the partner asked us to wait"),
        ("idle", "messages are queued, but none is in flight"),
    ],
)
def test_work_that_waits_too_long(column: str, why: str) -> None:
    assert why_stuck(lane_in(column), LONG_AGO, NOW, LIMIT) == SINCE + why


@pytest.mark.parametrize(("number", "are"), [(1, "1 message is"), (16, "16 messages are")])
def test_messages_without_numbers_that_nobody_acknowledges(number: int, are: str) -> None:
    why = why_stuck(lane_in("idle"), LONG_AGO, NOW, LIMIT, number)
    assert why == f"{SINCE}{are} under way and not acknowledged"


def test_no_work_young_work_or_a_suspended_lane_is_not_stuck() -> None:
    lane = lane_in("waiting")
    assert why_stuck(lane, None, NOW, LIMIT) == ""
    assert why_stuck(lane, after(-3600), NOW, LIMIT) == ""
    assert why_stuck(lane_in("suspended"), LONG_AGO, NOW, LIMIT) == ""


def test_link_suspended_by_an_operator_for_long_is_stuck() -> None:
    lane = replace(lane_in("suspended"), suspended_for=OPERATOR)
    assert why_stuck(lane, LONG_AGO, NOW, LIMIT) == SINCE + "suspended by an operator"
    assert why_stuck(lane, after(-3600), NOW, LIMIT) == ""


@pytest.mark.parametrize(
    ("fetched_at", "said"),
    [
        (None, "its application has never fetched messages"),
        (after(-7200), "its application last fetched messages at 2026-03-01 10:00:00 UTC"),
    ],
)
def test_reason_names_when_messages_were_last_fetched(
    fetched_at: datetime | None, said: str
) -> None:
    one = Undelivered(LONG_AGO, False, "orders", True, DeliveryState.NEW, True, fetched_at)
    said = f"consumer orders has not received the first message yet; {said}"
    assert one.why() == SINCE + said
    assert "fetched" not in replace(one, delivery=DeliveryState.IN_DOUBT).why()


@pytest.mark.parametrize(
    ("held", "enabled", "delivery", "why"),
    [
        (True, False, "failed", "deliveries are held by an operator"),
        (False, False, "failed", "consumer orders is switched off"),
        (False, True, "new", "consumer orders has not received the first message yet"),
        (False, True, "in_doubt", "the delivery to consumer orders is in doubt"),
    ],
)
def test_reasons_why_a_message_is_not_delivered(
    held: bool, enabled: bool, delivery: str, why: str
) -> None:
    one = Undelivered(LONG_AGO, held, "orders", enabled, DeliveryState(delivery))
    assert one.why() == SINCE + why


def test_signals_that_a_partner_does_not_accept() -> None:
    pending = StuckSignal("Acknowledgement", LONG_AGO, 61, "503 closed")
    assert pending.why() == (
        "an Acknowledgement has been pending since 2026-03-01 10:59:59 UTC; after 61 attempts the"
        " last answer is: 503 closed"
    )
