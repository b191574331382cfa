"""Messages we accepted."""

from django.contrib.postgres.indexes import BrinIndex
from django.db import models
from django.db.models import Q

from .message import MessageColumns, MessageQuerySet, conversation_index


class InboundState(models.TextChoices):
    """ACCEPTED messages make up the order of their pair; PARKED ones are out of it, undecided."""

    ACCEPTED = "accepted"
    DELIVERED = "delivered"
    REJECTED = "rejected"
    PARKED = "parked"
    # For a party behind another MSH (000 §4.1):
    ROUTED = "routed", "routed: forwarded when it is acknowledged"
    WITHHELD = "withheld", "withheld: to be forwarded, not acknowledged"
    FORWARDING = "forwarding", "forwarding: not yet acknowledged by the next hop"
    FORWARDED = "forwarded", "forwarded: acknowledged by the next hop"


UNACKNOWLEDGED = (InboundState.WITHHELD, InboundState.FORWARDING)
"""Stored, and not acknowledged before the next MSH has acknowledged (D20)."""


class InboundMessageQuerySet(MessageQuerySet["InboundMessage"]):
    time = "received_at"


class InboundMessage(MessageColumns):
    """A message as accepted: once per pair and MessageId.

    The row is committed before its Acknowledgement is sent (000 §2.1.3), and delivered later.
    """

    link = models.ForeignKey(
        "InboundLink", on_delete=models.PROTECT, related_name="messages", db_index=False
    )
    state = models.CharField(max_length=12, choices=InboundState, default=InboundState.ACCEPTED)
    epoch = models.PositiveIntegerField(null=True, blank=True)
    sequence_number = models.PositiveIntegerField("SequenceNumber", null=True, blank=True)
    sent_at = models.DateTimeField()
    """The TimeStamp of its MessageData."""
    received_at = models.DateTimeField()
    header = models.BinaryField()
    """The header document as it came."""
    duplicates = models.PositiveIntegerField(default=0, db_default=0)
    delivered_at = models.DateTimeField(null=True, blank=True)
    """When it left the order of its pair for good: delivered, rejected or forwarded."""

    feed_position = models.BigIntegerField(null=True, blank=True)
    """Its place in the feed, None until the feed is read: see `flows.feed`."""

    forward_due = models.DateTimeField(null=True, blank=True)
    """When it is next tried to send it on, after that failed."""
    forward_failures = models.PositiveIntegerField(default=0, db_default=0)
    forward_error = models.TextField(blank=True, default="", db_default="")

    objects = InboundMessageQuerySet.as_manager()

    class Meta:
        ordering = ["-id"]
        permissions = [
            ("view_payload_inboundmessage", "Can see the payloads of messages we received"),
        ]
        indexes = [
            conversation_index("inbound_conversation"),
            models.Index(
                fields=["id"],
                condition=Q(state__in=["rejected", "parked"]),
                name="inbound_unusual",
            ),
            models.Index(
                fields=["id"],
                condition=Q(state__in=["forwarding", "forwarded"]),
                name="inbound_forwarded",
            ),
            BrinIndex(fields=["received_at"], autosummarize=True, name="inbound_received_at"),
            models.Index(
                fields=["link", "id"], condition=Q(state="accepted"), name="inbound_undelivered"
            ),
            models.Index(
                fields=["link", "id"],
                condition=Q(state__in=["routed", "withheld"]),
                name="inbound_to_send_on",
            ),
            models.Index(
                fields=["id"], condition=Q(feed_position=None), name="inbound_not_in_feed"
            ),
        ]
        constraints = [
            models.UniqueConstraint(fields=["link", "message_id"], name="inbound_message_once"),
            models.UniqueConstraint(
                fields=["link", "epoch", "sequence_number"],
                condition=Q(sequence_number__isnull=False),  # no index to look MessageIds up by
                name="inbound_number_once",
            ),
            models.UniqueConstraint(
                fields=["feed_position"],
                condition=Q(feed_position__isnull=False),
                name="inbound_feed_position_once",
            ),
            models.CheckConstraint(
                condition=Q(sequence_number=None) | Q(semantics="OnceAndOnlyOnce"),
                name="inbound_number_only_if_reliable",
            ),
        ]
