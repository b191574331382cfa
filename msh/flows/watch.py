"""The clock's slower share: silent partners are probed (D41), an operator is called for links that
say nothing and make no way, and incidents that are over are resolved."""

from datetime import timedelta

from django.conf import settings
from django.db import transaction

from msh.flows import advance
from msh.flows.advance import Lanes
from msh.flows.nudge import Nudge, nudge
from msh.models import hot
from msh.models.watched import lock_probes, unmoved
from msh.protocol.events import ProbeDue
from msh.protocol.stuck import why_stuck

PROBES = 50
STUCK = 1_000
QUIET = timedelta(minutes=10)
"""How long something has not come again before it is over: what comes and goes is one incident."""


def watch() -> None:
    """Probe, look for stuck links, for incidents that are over, for due times that are too far."""
    if probe():
        nudge(Nudge.CARRY)
    find_stuck()
    advance.resolve_passed(QUIET)
    advance.bring_back_due()


def probe() -> int:
    """Ask for one more copy to every silent partner whose probe is due; how many."""
    with transaction.atomic():
        due = lock_probes(PROBES)
        lanes = Lanes.load(due, hot.run((hot.CLOCK, ()))[0][0].now)
        for partner_id in lanes:
            lanes.step(partner_id, ProbeDue())
        lanes.write()
    return len(due)


def find_stuck() -> int:
    """Open an incident for every link that is stuck, and resolve those of links that are no
    longer; how many are stuck."""
    limit = timedelta(seconds=settings.MSH_STUCK_AFTER)
    with transaction.atomic():
        moved_at = {one.partner_id: one.at for one in unmoved(limit, STUCK)}
        lanes = Lanes.lock(moved_at)
        reasons = {
            partner_id: why_stuck(lanes.lane(partner_id), moved_at[partner_id], lanes.now, limit)
            for partner_id in lanes
        }
        stuck = {partner_id: why for partner_id, why in reasons.items() if why}
        advance.note_stuck(stuck, lanes.now)
    return len(stuck)
