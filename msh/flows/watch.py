"""The clock's slower share: silent partners are probed (D41), an operator is called for links that
say nothing and make no way, and incidents that are over are resolved."""

from collections import defaultdict
from datetime import timedelta

from django.conf import settings
from django.db import transaction

from msh.flows import advance
from msh.flows.advance import Lanes
from msh.flows.nudge import Nudge, nudge
from msh.models import Direction, hot
from msh.models.watched import lock_probes, owed, undelivered, unmoved
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
        return _find_stuck_to_partners(limit) + _find_stuck_from_partners(limit)


def _find_stuck_to_partners(limit: timedelta) -> int:
    moved_at = {one.partner_id: one.at for one in unmoved(limit, STUCK)}
    lanes = Lanes.lock(moved_at)
    reasons = {
        partner_id: why_stuck(lanes.lane(partner_id), moved_at[partner_id], lanes.now, limit)
        for partner_id in lanes
    }
    stuck = {partner_id: why for partner_id, why in reasons.items() if why}
    advance.note_stuck(Direction.OUT, stuck, lanes.now)
    return len(stuck)


def _find_stuck_from_partners(limit: timedelta) -> int:
    """Consumers that take nothing, and partners that do not take what we owe them."""
    now = hot.run((hot.CLOCK, ()))[0][0].now
    reasons: defaultdict[int, list[str]] = defaultdict(list)
    for found in (undelivered(limit, STUCK), owed(limit, STUCK)):
        for partner_id, one in found.items():
            reasons[partner_id].append(one.why())
    stuck = {partner_id: "; ".join(why) for partner_id, why in reasons.items()}
    advance.note_stuck(Direction.IN, stuck, now)
    return len(stuck)
