"""The clock's share: deadlines that have passed, and leases whose worker was lost."""

from collections.abc import Iterable

from msh.flows.advance import Lanes, end_best_effort
from msh.flows.advance.outbound import lost_best_effort
from msh.protocol.events import DeadlinePassed
from msh.protocol.lane import LaneState

BATCH = 50


def passed_deadlines(lanes: Lanes, due: Iterable[int]) -> None:
    """Step the lanes of the partners `due`, whose wait is over: send again, or suspend (000
    §2.1.4)."""
    for partner_id in due:
        lane = lanes.lane(partner_id)
        if lane.state is not LaneState.IDLE and not lane.unsent:
            lanes.step(partner_id, DeadlinePassed())


def lost_leases() -> None:
    """End the BestEffort messages whose worker was lost: outcome unknown, never a second copy."""
    end_best_effort(lost_best_effort(BATCH))
