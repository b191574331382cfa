"""The clock's slower share: silent partners are probed (D41), an operator is called for links that
say nothing and make no progress, and incidents that are over are resolved."""

import logging
from collections import defaultdict
from collections.abc import Callable
from datetime import timedelta
from typing import TypeVar

from django.conf import settings
from django.db import transaction

from msh.flows.sending.webhooks import call_for_failing
from msh.flows.wake_up import WakeUp, wake_up
from msh.models import Direction
from msh.protocol.errors import IllegalTransition
from msh.protocol.events import ProbeDue
from msh.protocol.flight.conversation import hole_is_due
from msh.protocol.stuck import why_stuck
from msh.store import capacity
from msh.store.clock import read_clock
from msh.store.incidents import note_stuck, open_stuck, resolve_passed
from msh.store.operations.clock_repair import make_far_work_due
from msh.store.operations.stuck_flights import find_unmoved_flights
from msh.store.operations.stuck_links import (
    find_last_answers,
    find_pending,
    find_undelivered,
    find_unmoved,
    lock_probes,
)
from msh.store.operations.windows import quiet_partners
from msh.store.receiving.conversations import find_due_links, lock_due, step_conversation
from msh.store.sending.links import OutboundLinks

from . import maintenance

logger = logging.getLogger(__name__)

Result = TypeVar("Result")

PROBES = 50
"""Links that are probed at once: each probe is a copy to be sent."""
STUCK = 1_000
"""Links that are looked at for being stuck: if there are more, the cause is not one of theirs."""
QUIET = timedelta(minutes=10)
"""How long something has not come again before it is over: what comes and goes is one incident."""


def watch() -> None:
    if probe():
        wake_up(WakeUp.TRANSMIT)
    follow_maintenance()
    find_stuck()
    call_for_holes()
    _apart(call_for_failing)
    _apart(resolve_passed, QUIET)
    _apart(make_far_work_due)


def probe() -> int:
    with transaction.atomic():
        due = lock_probes(PROBES)
    return sum(_apart(_probe, partner_id) or 0 for partner_id in due)


def _probe(partner_id: int) -> int:
    links = OutboundLinks.lock([partner_id])
    try:
        links.step(partner_id, ProbeDue())
    except IllegalTransition:
        return 0  # another worker was faster, or an operator
    links.write()
    return 1


def follow_maintenance() -> None:
    """Begin and end the maintenance windows whose time has come."""
    for key in _apart(maintenance.due) or ():
        _apart(maintenance.follow, key)


def call_for_holes() -> None:
    """Call an operator for each conversation that lacks a number for too long (EB-130, EB-132)."""
    for link_id in _apart(find_due_links) or ():
        _apart(_call_for_holes_of, link_id)


def _call_for_holes_of(link_id: int) -> None:
    for held in lock_due(link_id):
        step_conversation(held, *hole_is_due(held.value, held.horizon, now=held.now))


def find_stuck() -> int:
    limit = timedelta(seconds=settings.MSH_STUCK_AFTER)
    ways = (_find_stuck_to_partners, _find_stuck_from_partners)
    return sum(_apart(find, limit) or 0 for find in ways)


def _apart(act: Callable[..., Result], *given: object) -> Result | None:
    """Do it in a transaction of its own. None if it raised something: what else there is to watch
    is watched nevertheless."""
    try:
        with transaction.atomic():
            return act(*given)
    except Exception as error:
        if capacity.is_gone(error):
            raise
        logger.exception("a check failed; the others continue")
        return None


def _find_stuck_to_partners(limit: timedelta) -> int:
    """Read without locks: an Ack that comes meanwhile must not wait for all of them."""
    found = (*find_unmoved_flights(limit, STUCK), *find_unmoved(limit, STUCK))
    unmoved = {one.partner_id: one for one in found}
    now = read_clock()
    links = OutboundLinks.load(unmoved, now)
    reasons = {
        key: why_stuck(links.lane(key), one.at, now, limit, one.under_way)
        for key, one in unmoved.items()
        if key in links
    }
    stuck = {partner_id: why for partner_id, why in reasons.items() if why}
    for partner_id in quiet_partners(now) - open_stuck(Direction.OUT) if stuck else ():
        stuck.pop(partner_id, None)  # it stands still because that was planned
    answers = find_last_answers(stuck)
    named = {
        key: f"{why}; last answer: {answers[key]}" if key in answers else why
        for key, why in stuck.items()
    }
    note_stuck(Direction.OUT, named, now)
    return len(stuck)


def _find_stuck_from_partners(limit: timedelta) -> int:
    now = read_clock()
    reasons: defaultdict[int, list[str]] = defaultdict(list)
    undelivered = find_undelivered(limit, STUCK)
    for found in (undelivered, find_pending(limit, STUCK)):
        for partner_id, one in found.items():
            reasons[partner_id].append(one.why())
    stuck = {partner_id: "; ".join(why) for partner_id, why in reasons.items()}
    consumers = {key: one.consumer for key, one in undelivered.items() if not one.held}
    note_stuck(Direction.IN, stuck, now, consumers)
    return len(stuck)
