"""Maintenance windows of partners: the clock suspends and resumes the link as an operator does, in
the name of whoever planned the window."""

import logging
from datetime import datetime, timedelta

from django.db import transaction

from msh.flows.errors import NotPossible
from msh.flows.operations import change_link
from msh.models import MaintenanceWindow, OutboundLink
from msh.protocol.maintenance import WindowAct, WindowState
from msh.protocol.vocabulary import utc_text
from msh.store.clock import read_clock
from msh.store.history import SYSTEM, Actor
from msh.store.operations.bulk_jobs import is_cancelling
from msh.store.operations.operator_actions import open_links
from msh.store.operations.windows import (
    due_windows,
    insert_window,
    lock_partner,
    lock_window,
    mark_begun,
    mark_over,
    open_windows,
)
from msh.store.sending.links import OutboundLinks
from partners.models import Partner

logger = logging.getLogger(__name__)

LONGEST = timedelta(days=31)
STAYS_SUSPENDED = "The link was already suspended, so this window does not resume it."
BEING_CANCELLED = (
    "Not resumed: its queue is being cancelled, or a request about it waits for a second person."
    " Resume the link after that."
)
TAKEN_OVER = "The link was already suspended; this window resumes it, as planned."


def plan(
    partner: Partner,
    actor: Actor,
    *,
    starts_at: datetime | None = None,
    ends_at: datetime,
    resume_suspended: bool = False,
) -> MaintenanceWindow:
    """A window that has begun already begins at the next look; None: now, by the clock of the
    database. `resume_suspended`: it also resumes a link that is suspended when it begins. Raises
    NotPossible."""
    open_links(partner)
    with transaction.atomic():
        now = read_clock()
        starts_at = starts_at or now
        if ends_at <= max(starts_at, now):
            raise NotPossible(
                "Nothing was planned: the end must be after the beginning and in the future."
            )
        if ends_at - starts_at > LONGEST:
            raise NotPossible(f"Nothing was planned: a window is at most {LONGEST.days} days long.")
        lock_partner(partner)
        for other in open_windows().filter(partner=partner):
            if other.window.overlaps(starts_at, ends_at):
                raise NotPossible(
                    f"Nothing was planned: {partner} already has a window from"
                    f" {utc_text(other.starts_at, to='minutes')}"
                    f" to {utc_text(other.ends_at, to='minutes')}, planned by"
                    f" {other.planned_by}. Choose other times, or end that window first."
                )
        return insert_window(partner, starts_at, ends_at, resume_suspended, actor)


def end(window: MaintenanceWindow, actor: Actor) -> None:
    """Cancel it, or end it early if it is running. Raises NotPossible."""
    with transaction.atomic():
        locked = lock_window(window.pk)
        if locked is None:
            raise NotPossible("The window has already ended, or is ending now.")
        if locked.state == WindowState.RUNNING:
            _end(locked, actor.name, actor)
        else:
            why = f"Cancelled: {actor.reason}"
            mark_over(locked, WindowState.CANCELLED, read_clock(), actor.name, why)


def due() -> list[int]:
    return due_windows(read_clock())


def follow(key: int) -> None:
    """What the clock does to this window now, in the caller's transaction."""
    window = lock_window(key)
    match window and window.window.due_act(read_clock()):
        case WindowAct.BEGIN if window:
            _begin(window)
        case WindowAct.END if window:
            why = f"end of maintenance window {window.pk}: {window.reason}"
            _end(window, SYSTEM, Actor(window.planned_by, why))
        case WindowAct.MISS if window:
            why = "The MSH was down during the whole window: nothing was suspended."
            mark_over(window, WindowState.MISSED, read_clock(), SYSTEM, why)


def _begin(window: MaintenanceWindow) -> None:
    until = utc_text(window.ends_at, to="minutes")
    why = f"maintenance window {window.pk} until {until}: {window.reason}"
    # Held past the savepoint of a refusal: a late Ack could resume before the link is read again.
    OutboundLinks.lock([window.partner_id])
    try:
        change_link.suspend(window.partner, Actor(window.planned_by, why))
        outcome = "Suspended."
    except NotPossible:
        if not window.resume_suspended:
            mark_begun(window, None, STAYS_SUSPENDED)
            return
        outcome = TAKEN_OVER
    since = OutboundLink.objects.values_list("suspended_since", flat=True).get(
        partner=window.partner_id
    )
    mark_begun(window, since, outcome)


def _end(window: MaintenanceWindow, by: str, actor: Actor) -> None:
    outcome = ""
    if window.suspended_since is not None and is_cancelling(window.partner_id):
        outcome = BEING_CANCELLED
    elif window.suspended_since is not None:
        try:
            change_link.resume(window.partner, actor, if_suspended_since=window.suspended_since)
            outcome = "Resumed."
        except NotPossible as why:
            outcome = f"Not resumed. {why}"
    mark_over(window, WindowState.ENDED, read_clock(), by, outcome)
