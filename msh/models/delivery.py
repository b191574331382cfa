"""The document history: what became of a message at its consumer."""

from collections.abc import Collection

from django.contrib.postgres.indexes import HashIndex
from django.db import models
from django.db.models import Q

from msh.protocol.kinds import DeliveryState

from .inbound import InboundMessage

OPEN_TO_OPERATORS = [DeliveryState.BLOCKED, DeliveryState.PARKED, DeliveryState.IN_DOUBT]
"""States that wait for a person."""

_CHOICES = [(s.value, s.value.replace("_", " ")) for s in DeliveryState if s != DeliveryState.NEW]


class DeliveryQuerySet(models.QuerySet["Delivery"]):
    def with_id(self, value: str, messages: Collection[int] = ()) -> "DeliveryQuerySet":
        """`messages`: row ids of inbound messages whose deliveries are found besides."""
        found = InboundMessage.objects.with_message_id(value).values_list("pk", flat=True)
        return self.filter(Q(message__in=[*found, *messages]) | Q(external_id=value))

    def waiting_for_operator(self) -> "DeliveryQuerySet":
        return self.filter(state__in=[state.value for state in OPEN_TO_OPERATORS])


class Delivery(models.Model):
    """One row per consumer and message: the document history of 002 and the id map of 004. Each
    replay of the message is a row more.

    No row is NEW. `started_at` and `ended_at` belong to the latest attempt; `due` is as in
    `protocol.delivery.Delivery`. `external_id` is what the consumer's system calls it.
    """

    consumer = models.ForeignKey("Consumer", on_delete=models.PROTECT, related_name="deliveries")
    message = models.ForeignKey(
        "InboundMessage", on_delete=models.CASCADE, related_name="deliveries"
    )
    state = models.CharField(max_length=10, choices=_CHOICES)
    attempt = models.IntegerField()
    failures = models.IntegerField(default=0)
    started_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True, blank=True)
    due = models.DateTimeField(null=True, blank=True)
    external_id = models.TextField("external id", blank=True, db_default="")
    detail = models.TextField("last error", blank=True, db_default="")
    rejected_at = models.DateTimeField(null=True, blank=True, editable=False)
    """When its consumer rejected it, until it is completed or an operator has marked it."""
    # No foreign key in the database: both are deleted with their message.
    replay_of = models.ForeignKey(
        "self",
        on_delete=models.CASCADE,
        null=True,
        blank=True,
        related_name="replays",
        db_index=False,
        db_constraint=False,
        help_text="The earlier delivery that completed the message.",
    )
    replay_order = models.BigIntegerField(null=True, editable=False)
    """For a replay, the order of its pair or conversation, see `NewHead`."""
    pair = models.BigIntegerField(editable=False, db_default=0)
    """The link of its message, negative for a message in the order of a conversation; by a trigger.
    What is to be run again is looked for pair by pair."""

    objects = DeliveryQuerySet.as_manager()

    class Meta:
        verbose_name_plural = "deliveries"
        ordering = ["-id"]
        permissions = [
            ("decide_delivery", "Can decide what becomes of a delivery"),
            ("replay_delivery", "Can replay completed deliveries"),
            ("take_delivery", "Can take and settle deliveries with an API token"),
        ]
        indexes = [
            models.Index(
                fields=["state", "due"], condition=Q(due__isnull=False), name="delivery_due"
            ),
            # What is to be run again, by leaps: an outage of a consumer, or a pair that has to
            # wait, leaves many thousands.
            models.Index(
                fields=["consumer", "pair", "due"],
                condition=Q(state="failed"),
                name="delivery_failed",
            ),
            HashIndex(
                fields=["external_id"], condition=~Q(external_id=""), name="delivery_external_id"
            ),
            models.Index(
                fields=["state", "id"],
                condition=Q(state__in=["blocked", "parked", "in_doubt"]),
                name="delivery_waiting",
            ),
            # Which replay is next, and how many are not done.
            models.Index(
                fields=["consumer", "replay_order", "id"],
                condition=Q(replay_order__isnull=False, state__in=["processing", "failed"]),
                name="delivery_replays_open",
            ),
            # What keeps an incident of rejected deliveries open.
            models.Index(
                fields=["rejected_at"],
                condition=Q(rejected_at__isnull=False),
                name="delivery_rejected",
            ),
            models.Index(
                fields=["replay_of"],
                condition=Q(replay_of__isnull=False),
                name="delivery_replays_of",
            ),
        ]
        constraints = [
            models.UniqueConstraint(
                fields=["consumer", "message"], condition=Q(replay_of=None), name="delivery_once"
            ),
            models.CheckConstraint(
                condition=Q(replay_of=None, replay_order=None)
                | Q(replay_of__isnull=False, replay_order__isnull=False),
                name="delivery_replay_has_an_order",
            ),
            models.CheckConstraint(
                condition=~Q(state__in=["processing", "failed"]) | Q(due__isnull=False),
                name="delivery_due_while_open",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.message} to {self.consumer}" + (" (replay)" if self.replay_of_id else "")

    def get_state_display(self) -> str:  # type: ignore[no-redef]
        """Replaces Django's: a replay begins in the state of a delivery that is to be run again."""
        if self.replay_of_id and not self.attempt:
            return "to be replayed"
        return dict(_CHOICES).get(self.state, self.state)
