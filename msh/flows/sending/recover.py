"""What time ends: waits of links, and leases whose worker was lost."""

from collections.abc import Iterable

from msh.protocol.events import DeadlinePassed
from msh.protocol.lane import LaneState
from msh.store.sending.best_effort import end_best_effort, lock_lost
from msh.store.sending.links import OutboundLinks

BATCH = 50
"""Lost leases that one transaction ends: after a crash the others follow with the next rounds."""


def end_waits(links: OutboundLinks, due: Iterable[int]) -> None:
    """Step the links of the partners `due`, whose wait is over: send again, or suspend (000
    §2.1.4)."""
    for partner_id in due:
        lane = links.lane(partner_id)
        if lane.state is not LaneState.IDLE and not lane.unsent:
            links.step(partner_id, DeadlinePassed())


def end_lost_leases() -> None:
    """End the BestEffort messages whose worker was lost: outcome unknown, never a second copy."""
    end_best_effort(lock_lost(BATCH))
