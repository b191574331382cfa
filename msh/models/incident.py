"""Incidents, which require an operator."""

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from msh.protocol.kinds import IncidentKind


class Direction(models.TextChoices):
    OUT = "out"
    IN = "in"


class Incident(models.Model):
    """Opened once per cause: while it is open, the same cause on the same link only counts."""

    partner = models.ForeignKey("partners.Partner", on_delete=models.PROTECT)
    direction = models.CharField(max_length=3, choices=Direction)
    kind = models.CharField(max_length=32, choices=[(k.value, k.name) for k in IncidentKind])
    message_id = models.CharField("MessageId", max_length=255, blank=True)
    detail = models.TextField(blank=True)
    reason = models.CharField(max_length=20, blank=True, default="", db_default="")
    """A Reason, if what opened it names one."""
    consumer = models.CharField(max_length=63, blank=True, db_default="", default="")
    """The consumer of a delivery, or the one that a link is stuck for. It is a name, because the
    incident outlives the consumer."""
    count = models.PositiveIntegerField(default=1, db_default=1)
    opened_at = models.DateTimeField()
    last_at = models.DateTimeField()
    resolved_at = models.DateTimeField(null=True, blank=True)
    resolved_by = models.CharField(max_length=150, blank=True, db_default="")
    resolution = models.TextField(blank=True, db_default="")
    assigned_to = models.CharField(max_length=150, blank=True, db_default="", default="")
    """A user name: an incident outlives the user."""
    announced = models.BooleanField(default=False, db_default=False)
    """Operators were called: the notices to them are rows."""
    turns = models.PositiveSmallIntegerField(default=0, db_default=0)
    """How often a step of recipients was called (`msh.alerts.rules.escalation`)."""
    next_turn = models.DateTimeField(null=True, blank=True)
    """When the next step is called if nobody is assigned by then."""

    class Meta:
        ordering = ["-opened_at"]
        permissions = [
            ("resolve_incident", "Can resolve an incident"),
            ("assign_incident", "Can assign an incident and write notes on it"),
        ]
        indexes = [
            models.Index(fields=["id"], condition=Q(announced=False), name="incident_unannounced"),
            models.Index(
                fields=["next_turn"],
                condition=Q(next_turn__isnull=False),
                name="incident_next_turn",
            ),
        ]
        constraints = [
            models.UniqueConstraint(
                fields=["partner", "direction", "kind"],
                condition=Q(resolved_at=None),
                name="incident_open_once",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.kind.replace('_', ' ')}: {self.partner}"


class IncidentNote(models.Model):
    """A note about an incident: what somebody found out or did. Append-only, like the history."""

    incident = models.ForeignKey(Incident, on_delete=models.CASCADE, related_name="notes")
    at = models.DateTimeField(db_default=Now())
    author = models.CharField(max_length=150)
    text = models.TextField()

    class Meta:
        ordering = ["id"]

    def __str__(self) -> str:
        return f"{self.author}: {self.text}"
