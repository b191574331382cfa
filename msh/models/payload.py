"""Payload parts: outbound ones in wire form, inbound ones decoded."""

from django.db import models


class OutboundPayload(models.Model):
    """One part as it goes over the wire, delimiter and part headers included (D36).

    The body of a message is its head and then every `wire`, in order.
    """

    # No foreign key in the database: a payload is written by the statement or transaction that
    # writes its message, and only retention deletes messages, after what belongs to them.
    message = models.ForeignKey(
        "OutboundMessage",
        on_delete=models.CASCADE,
        related_name="payloads",
        db_index=False,
        db_constraint=False,
    )
    position = models.SmallIntegerField()
    content_type = models.CharField(max_length=255)
    content_id = models.CharField(max_length=255)
    label = models.TextField(blank=True)
    description = models.TextField(blank=True)
    wire = models.BinaryField()

    class Meta:
        ordering = ["position"]
        constraints = [
            models.UniqueConstraint(fields=["message", "position"], name="outbound_payload_once"),
        ]

    def __str__(self) -> str:
        return self.label or self.content_id


class InboundPayload(models.Model):
    """One payload as the application gets it: decoded bytes."""

    # No foreign key in the database, as above.
    message = models.ForeignKey(
        "InboundMessage",
        on_delete=models.CASCADE,
        related_name="payloads",
        db_index=False,
        db_constraint=False,
    )
    position = models.SmallIntegerField()
    content_type = models.CharField(max_length=255)
    content_id = models.TextField()
    label = models.TextField(blank=True)
    description = models.TextField(blank=True)
    content = models.BinaryField()

    class Meta:
        ordering = ["position"]
        constraints = [
            models.UniqueConstraint(fields=["message", "position"], name="inbound_payload_once"),
        ]

    def __str__(self) -> str:
        return self.label or self.content_id
