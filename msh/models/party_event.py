"""What became of submitted messages (D9): a feed, and the outbox of one handler."""

import uuid

from django.db import models
from django.db.models import Q

from msh.protocol.kinds import PartyEventKind


class PartyEvent(models.Model):
    """One event for the application that submitted the message. `due` is when it is to be
    delivered (again) to MSH_FROM_PARTY_HANDLER; `delivered_at` ends that."""

    event_id = models.UUIDField(default=uuid.uuid4, unique=True)
    # No foreign key in the database: an event is written by the transaction that changes its
    # message, and only retention deletes messages, after their events.
    message = models.ForeignKey(
        "OutboundMessage", on_delete=models.CASCADE, related_name="events", db_constraint=False
    )
    kind = models.CharField(max_length=16, choices=[(k.value, k.name) for k in PartyEventKind])
    detail = models.TextField(blank=True)
    code = models.CharField(max_length=32, blank=True, default="", db_default="")
    """Why, for programs: see `NotifyFromParty`."""
    at = models.DateTimeField()
    due = models.DateTimeField()
    tries = models.IntegerField(default=0, db_default=0)
    delivered_at = models.DateTimeField(null=True, blank=True)
    feed_position = models.BigIntegerField(null=True, blank=True)
    """Its position in the feed of events, None until that is read: see `flows.delivery.feed`."""

    class Meta:
        indexes = [
            models.Index(
                fields=["due"], condition=Q(delivered_at=None), name="party_event_undelivered"
            ),
            models.Index(
                fields=["id"], condition=Q(feed_position=None), name="party_event_not_in_feed"
            ),
        ]
        constraints = [
            models.UniqueConstraint(
                fields=["feed_position"],
                condition=Q(feed_position__isnull=False),
                name="party_event_feed_position_once",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.event_id}"
