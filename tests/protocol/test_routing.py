"""What a router makes of a Receiver's outcome (000 §4.1, D20)."""

from datetime import UTC, datetime

import pytest

from msh.protocol import effects as do
from msh.protocol import receiver, routing
from msh.protocol.kinds import IncidentKind, RouteMode
from msh.protocol.lane import LaneState
from msh.protocol.message import Route
from msh.protocol.receiver import Known, MessageArrived, ReceivingLink
from msh.protocol.routing import Onward
from msh.protocol.vocabulary import ErrorCode

HOP, END_TO_END = RouteMode
LINK = ReceivingLink(last_number=4)
NEW = MessageArrived("m", 5, Known.NO)
STEPPED = receiver.step(LINK, NEW)
AT = datetime(2026, 11, 21, tzinfo=UTC)


def hop(sender: str, receiver_uri: str = "http://r/") -> Route:
    return Route(sender, receiver_uri, sender, AT, 1)


def errors(outcome: receiver.Outcome) -> list[tuple[ErrorCode, int | None]]:
    return [(e.code, e.min_retry_secs) for e in outcome[1] if isinstance(e, do.QueueError)]


def test_hop_acknowledges_what_it_has_stored() -> None:
    after, effects = routing.router_outcome(LINK, STEPPED, Onward(HOP), "m")

    assert after.last_number == 5
    assert effects == (do.Accept(5, 1), do.QueueAck(), do.SendOn(withheld=False))


def test_end_to_end_takes_number_and_id_and_queues_nothing_yet() -> None:
    after, effects = routing.router_outcome(LINK, STEPPED, Onward(END_TO_END), "m")

    assert after.last_number == 5
    assert effects == (do.Accept(5, 1), do.SendOn(withheld=True))


@pytest.mark.parametrize(
    ("mode", "state", "closed"),
    [
        (HOP, LaneState.IDLE, False),
        (HOP, LaneState.WAITING, False),
        (HOP, LaneState.TRANSIENT, False),
        (HOP, LaneState.SUSPENDED, True),
        (END_TO_END, LaneState.IDLE, False),
        (END_TO_END, LaneState.WAITING, False),
        (END_TO_END, LaneState.TRANSIENT, True),
        (END_TO_END, LaneState.SUSPENDED, True),
    ],
)
def test_new_message_by_state_of_the_next_hop(
    mode: RouteMode, state: LaneState, closed: bool
) -> None:
    after, effects = routing.router_outcome(LINK, STEPPED, Onward(mode, state, 30), "m")

    assert any(isinstance(effect, do.SendOn) for effect in effects) is not closed
    if closed:
        wait = 30 if state is LaneState.TRANSIENT else None
        assert after == LINK
        assert errors((after, effects)) == [(ErrorCode.TRANSIENT_ERROR, wait)]


@pytest.mark.parametrize("known", [Known.SAME, Known.OTHER])
@pytest.mark.parametrize("state", LaneState)
def test_a_known_message_is_answered_as_ever(known: Known, state: LaneState) -> None:
    outcome = receiver.step(LINK, MessageArrived("m", 4, known))

    assert (
        routing.router_outcome(LINK, outcome, Onward(HOP, state, obstacle="none"), "m") == outcome
    )


def test_a_gap_is_a_gap_also_while_the_way_onward_is_closed() -> None:
    outcome = receiver.step(LINK, MessageArrived("m", 9, Known.NO))

    assert routing.router_outcome(LINK, outcome, Onward(HOP, LaneState.SUSPENDED), "m") == outcome


def test_an_obstacle_is_a_delivery_failure_and_an_incident() -> None:
    after, effects = routing.router_outcome(LINK, STEPPED, Onward(HOP, obstacle="no route"), "m")

    assert after == LINK
    assert errors((after, effects)) == [(ErrorCode.DELIVERY_FAILURE, None)]
    assert do.OpenIncident(IncidentKind.ROUTE_FAILED, "m", "no route") in effects


def test_best_effort_is_sent_on_whatever_the_lane_does() -> None:
    outcome = (LINK, receiver.best_effort("m", Known.NO))

    _, effects = routing.router_outcome(LINK, outcome, Onward(END_TO_END, LaneState.SUSPENDED), "m")

    assert effects == (do.Accept(None, None), do.SendOn(withheld=False))


def test_repeated_copy_waits_or_gets_delivery_failure() -> None:
    assert errors(routing.repeated(LINK, "")) == [(ErrorCode.TRANSIENT_ERROR, None)]
    assert errors(routing.repeated(LINK, "refused")) == [(ErrorCode.DELIVERY_FAILURE, None)]


def test_a_message_that_we_sent_on_before_is_a_loop() -> None:
    loop = [hop("http://a/"), hop("http://R/", "http://x/"), hop("http://x/")]

    assert "a loop" in routing.obstacle(loop, "http://r/")
    assert routing.obstacle([hop("http://a/"), hop("http://x/")], "http://r/") == ""


def test_a_loop_is_seen_where_the_router_has_another_name_onward() -> None:
    loop = [hop("http://a/"), hop("http://r/onward/", "http://x/"), hop("http://x/")]

    assert "a loop" in routing.obstacle(loop, "http://r/onward/")

    by_its_first_name = [hop("http://a/"), hop("http://r/", "http://x/"), hop("http://x/")]
    assert "a loop" in routing.obstacle(by_its_first_name, "http://r/onward/")


def test_only_who_got_the_message_last_is_this_router() -> None:
    chain = [hop("http://a/", "http://x/"), hop("http://x/", "http://r/")]

    assert routing.obstacle(chain, "http://r/onward/") == ""


def test_at_most_16_routing_headers_leave_a_router() -> None:
    far = [hop(f"http://{n}.example/") for n in range(16)]

    assert routing.obstacle(far[1:], "http://r/") == ""
    assert "at most" in routing.obstacle(far, "http://r/")
