"""Maintenance windows: planned, begun and ended, in the caller's transaction."""

from datetime import datetime, timedelta

from django.db.models import QuerySet

from msh.models import MaintenanceWindow
from msh.protocol.maintenance import OPEN, WindowState
from msh.store.history import Actor
from partners.models import Partner


def open_windows() -> QuerySet[MaintenanceWindow]:
    """Planned and running ones."""
    return MaintenanceWindow.objects.filter(state__in=OPEN)


def is_in_maintenance(partner_id: int) -> bool:
    """Whether its window runs, and it is not probed: the rule of `gate_sql.IN_MAINTENANCE`."""
    running = MaintenanceWindow.objects.filter(partner=partner_id, state=WindowState.RUNNING)
    return running.exists()


def quiet_partners(now: datetime) -> set[int]:
    """Partners about whom nobody is called now."""
    near = open_windows().filter(starts_at__lte=now + timedelta(days=1))
    return {one.partner_id for one in near if one.window.keeps_quiet(now)}


def lock_partner(partner: Partner) -> None:
    """Whoever plans a second window for it waits."""
    Partner.objects.select_for_update(no_key=True).get(pk=partner.pk)


def insert_window(
    partner: Partner, starts_at: datetime, ends_at: datetime, resume_suspended: bool, actor: Actor
) -> MaintenanceWindow:
    return MaintenanceWindow.objects.create(
        partner=partner,
        starts_at=starts_at,
        ends_at=ends_at,
        resume_suspended=resume_suspended,
        reason=actor.reason,
        planned_by=actor.name,
    )


def due_windows(now: datetime) -> list[int]:
    """Windows whose beginning or end has come, the oldest first."""
    reached = open_windows().filter(starts_at__lte=now).order_by("starts_at", "pk")
    return [one.pk for one in reached if one.window.due_act(now)]


def lock_window(key: int) -> MaintenanceWindow | None:
    """None if the row is locked by another process, or the window has ended."""
    locked = open_windows().select_for_update(skip_locked=True, no_key=True, of=("self",))
    return locked.select_related("partner").filter(pk=key).first()


def mark_begun(window: MaintenanceWindow, since: datetime | None, outcome: str) -> None:
    window.state, window.suspended_since, window.outcome = WindowState.RUNNING, since, outcome
    window.save(update_fields=["state", "suspended_since", "outcome"])


def mark_over(
    window: MaintenanceWindow, state: WindowState, at: datetime, by: str, outcome: str
) -> None:
    window.state, window.ended_at, window.ended_by = state, at, by
    window.outcome = f"{window.outcome} {outcome}".strip()
    window.save(update_fields=["state", "ended_at", "ended_by", "outcome"])
