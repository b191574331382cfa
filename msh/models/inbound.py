"""Messages we accepted."""

from typing import Self

from django.contrib.postgres.indexes import BrinIndex
from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Coalesce

from .message import MessageColumns, MessageQuerySet, conversation_index


class InboundState(models.TextChoices):
    """ACCEPTED messages make up the order of their pair, or of their conversation; PARKED ones are
    out of it, undecided; HELD ones are acknowledged, and not in it yet."""

    ACCEPTED = "accepted", "accepted"
    HELD = "held", "held"
    DELIVERED = "delivered", "delivered"
    REJECTED = "rejected", "rejected"
    PARKED = "parked", "parked"
    # For a party behind another MSH (000 §4.1):
    ROUTED = "routed", "routed"  # acknowledged, then forwarded
    WITHHELD = "withheld", "withheld"  # acknowledged when the next hop has acknowledged it
    FORWARDING = "forwarding", "forwarding"
    FORWARDED = "forwarded", "forwarded"


UNACKNOWLEDGED = (InboundState.WITHHELD, InboundState.FORWARDING)
"""Stored, and not acknowledged before the next MSH has acknowledged (D20)."""


class InboundMessageQuerySet(MessageQuerySet["InboundMessage"]):
    time = "received_at"

    def undelivered(self) -> Self:
        """Return the undelivered messages in the order of the pair. Those of ordered conversations
        are in `undelivered_in_order`, which has another index."""
        return self.filter(ordered_in=None, state=InboundState.ACCEPTED)

    def undelivered_in_order(self) -> Self:
        """Return the undelivered messages in the order of a conversation, including held ones."""
        states = [InboundState.ACCEPTED, InboundState.HELD]
        return self.filter(ordered_in__isnull=False, state__in=states)


class InboundMessage(MessageColumns):
    """A message as accepted: once per pair and MessageId.

    The row is committed before its Acknowledgement is sent (000 §2.1.3), and delivered later.
    """

    replay: int | None = None
    """The argument for an in-process consumer: the number of the delivery if it is a replay, None
    for the first delivery."""

    link = models.ForeignKey(
        "InboundLink",
        on_delete=models.PROTECT,
        related_name="messages",
        db_index=False,
        db_constraint=False,
    )
    state = models.CharField(max_length=12, choices=InboundState, default=InboundState.ACCEPTED)
    epoch = models.IntegerField(null=True, blank=True)
    sequence_number = models.IntegerField("SequenceNumber", null=True, blank=True)
    sent_at = models.DateTimeField()
    """The TimeStamp of its MessageData."""
    received_at = models.DateTimeField()
    header = models.BinaryField()
    """The header document as it came."""
    duplicates = models.IntegerField(default=0, db_default=0)
    delivered_at = models.DateTimeField(null=True, blank=True)
    """When it left the order of its pair for good: delivered, rejected or forwarded."""

    # Not checked: the conversation is written by the statement that stores its message, under the
    # lock of the link, and stays as long as its messages.
    ordered_in = models.ForeignKey(
        "InboundConversation",
        on_delete=models.DO_NOTHING,
        null=True,
        blank=True,
        related_name="messages",
        db_index=False,
        db_constraint=False,
    )
    """The conversation in whose order it is delivered. None: in the order of its pair."""
    order_number = models.IntegerField("MessageOrder", null=True, blank=True)
    turn = models.BigIntegerField(null=True, blank=True)
    """Its position in the order of delivery, if that is not its id. It is set when the message is
    released."""

    feed_position = models.BigIntegerField(null=True, blank=True)
    """Its position in the feed, None until the feed is read: see `flows.feed`."""

    forward_due = models.DateTimeField(null=True, blank=True)
    """When it is next tried to send it on, after that failed."""
    forward_failures = models.IntegerField(default=0, db_default=0)
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
                fields=["link", "id"],
                condition=Q(state="accepted", ordered_in=None),
                name="inbound_undelivered",
            ),
            models.Index(
                fields=["ordered_in"],
                condition=Q(ordered_in__isnull=False),
                name="inbound_in_order",
            ),
            # The heads of conversations, and what the limits of a partner count.
            models.Index(
                F("state"),
                F("link"),
                F("ordered_in"),
                Coalesce("turn", "id"),
                condition=Q(state__in=["accepted", "held"], ordered_in__isnull=False),
                name="inbound_undelivered_in_order",
            ),
            models.Index(
                fields=["link", "id"],
                condition=Q(state__in=["routed", "withheld"]),
                name="inbound_to_send_on",
            ),
            models.Index(
                Coalesce("turn", "id"),
                condition=Q(feed_position=None) & ~Q(state="held"),
                name="inbound_not_in_feed",
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
                fields=["ordered_in", "order_number"],
                condition=Q(state="held"),
                name="inbound_held_once",
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
            models.CheckConstraint(
                condition=~Q(state="held")
                | Q(ordered_in__isnull=False, order_number__isnull=False, turn=None),
                name="inbound_held_in_order",
            ),
        ]
