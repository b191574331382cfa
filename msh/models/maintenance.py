"""Maintenance windows of partners."""

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from msh.protocol.maintenance import Window, WindowState
from msh.protocol.vocabulary import utc_text


class MaintenanceWindow(models.Model):
    """A time in which the link to a partner is suspended, and nobody is called about it. `window`
    is its frozen value."""

    partner = models.ForeignKey(
        "partners.Partner", on_delete=models.CASCADE, related_name="maintenance_windows"
    )
    starts_at = models.DateTimeField()
    ends_at = models.DateTimeField()
    reason = models.TextField()
    planned_by = models.CharField(max_length=150)
    planned_at = models.DateTimeField(db_default=Now())
    state = models.CharField(
        max_length=9,
        choices=[(one.value, one.value) for one in WindowState],
        default=WindowState.PLANNED,
        db_default=WindowState.PLANNED.value,
    )
    resume_suspended = models.BooleanField(default=False, db_default=False)
    """Whether it also resumes a link that was suspended when it began."""
    suspended_since = models.DateTimeField(null=True, blank=True)
    """The suspension that it began, or took over: it resumes no other one."""
    ended_at = models.DateTimeField(null=True, blank=True)
    ended_by = models.CharField(max_length=150, blank=True, default="", db_default="")
    outcome = models.TextField(blank=True, default="", db_default="")
    """The result, as sentences."""

    class Meta:
        ordering = ["-starts_at"]
        indexes = [
            models.Index(
                fields=["partner", "starts_at"],
                condition=Q(state__in=["planned", "running"]),
                name="maintenance_window_open",
            ),
        ]
        constraints = [
            models.CheckConstraint(
                condition=Q(ends_at__gt=models.F("starts_at")), name="maintenance_window_has_length"
            ),
            models.UniqueConstraint(
                fields=["partner"],
                condition=Q(state="running"),
                name="maintenance_window_running_once",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.partner}, {utc_text(self.starts_at, to='minutes')}"

    @property
    def window(self) -> Window:
        return Window(WindowState(self.state), self.starts_at, self.ends_at)
