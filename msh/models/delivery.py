"""The document history: what became of a message at its consumer."""

from django.contrib.postgres.indexes import HashIndex
from django.db import models
from django.db.models import Q

from msh.protocol.kinds import DeliveryState

from .inbound import InboundMessage

OPEN_TO_OPERATORS = [DeliveryState.BLOCKED, DeliveryState.PARKED, DeliveryState.IN_DOUBT]
"""States that wait for a person."""

_CHOICES = [(s.value, s.value.replace("_", " ")) for s in DeliveryState if s != DeliveryState.NEW]


class DeliveryQuerySet(models.QuerySet["Delivery"]):
    def with_id(self, value: str) -> "DeliveryQuerySet":
        message = InboundMessage.objects.with_message_id(value)
        return self.filter(
            Q(message__in=list(message.values_list("pk", flat=True))) | Q(external_id=value)
        )

    def waiting_for_operator(self) -> "DeliveryQuerySet":
        return self.filter(state__in=[state.value for state in OPEN_TO_OPERATORS])


class Delivery(models.Model):
    """One row per consumer and message: the document history of 002 and the id map of 004.

    No row is NEW. `started_at` and `ended_at` belong to the latest attempt; `due` is as in
    `protocol.delivery.Delivery`. `external_id` is what the consumer's system calls it.
    """

    consumer = models.ForeignKey("Consumer", on_delete=models.PROTECT, related_name="deliveries")
    message = models.ForeignKey(
        "InboundMessage", on_delete=models.CASCADE, related_name="deliveries"
    )
    state = models.CharField(max_length=10, choices=_CHOICES)
    attempt = models.PositiveIntegerField()
    failures = models.PositiveIntegerField(default=0)
    started_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True, blank=True)
    due = models.DateTimeField(null=True, blank=True)
    external_id = models.TextField("external id", blank=True, db_default="")
    detail = models.TextField("last error", blank=True, db_default="")

    objects = DeliveryQuerySet.as_manager()

    class Meta:
        verbose_name_plural = "deliveries"
        ordering = ["-id"]
        permissions = [
            ("decide_delivery", "Can decide what becomes of a delivery"),
            ("take_delivery", "Can take and settle deliveries by an API token"),
        ]
        indexes = [
            models.Index(fields=["due"], condition=Q(due__isnull=False), name="delivery_due"),
            HashIndex(
                fields=["external_id"], condition=~Q(external_id=""), name="delivery_external_id"
            ),
            models.Index(
                fields=["state", "id"],
                condition=Q(state__in=["blocked", "parked", "in_doubt"]),
                name="delivery_waiting",
            ),
        ]
        constraints = [
            models.UniqueConstraint(fields=["consumer", "message"], name="delivery_once"),
            models.CheckConstraint(
                condition=~Q(state__in=["processing", "failed"]) | Q(due__isnull=False),
                name="delivery_due_while_open",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.message} to {self.consumer}"
