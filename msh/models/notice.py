"""Calls to operators: an outbox, one row for each cause and channel."""

from django.db import models
from django.db.models import Q


class Channel(models.TextChoices):
    EMAIL = "email"
    WEBHOOK = "webhook"


class OperatorNotice(models.Model):
    """`cause` names what it is about, once: "incident:7", "late:5:MESSAGE-ID". `due` is when it is
    to be sent (again); `sent_at` ends it, and so does `given_up`."""

    cause = models.CharField(max_length=300)
    channel = models.CharField(max_length=7, choices=Channel)
    partner = models.ForeignKey("partners.Partner", on_delete=models.CASCADE)
    incident = models.ForeignKey(
        "Incident", on_delete=models.CASCADE, null=True, blank=True, related_name="notices"
    )
    kind = models.CharField(max_length=32)
    message_id = models.CharField("MessageId", max_length=255, blank=True)
    detail = models.TextField(blank=True)
    at = models.DateTimeField()
    due = models.DateTimeField()
    tries = models.PositiveIntegerField(default=0, db_default=0)
    sent_at = models.DateTimeField(null=True, blank=True)
    given_up = models.BooleanField(default=False, db_default=False)
    error = models.TextField(blank=True, default="", db_default="")

    class Meta:
        ordering = ["-id"]
        indexes = [
            models.Index(
                fields=["due"],
                condition=Q(sent_at=None, given_up=False),
                name="operator_notice_unsent",
            ),
        ]
        constraints = [
            models.UniqueConstraint(fields=["cause", "channel"], name="operator_notice_once"),
        ]

    def __str__(self) -> str:
        return f"{self.channel} of {self.cause}"
