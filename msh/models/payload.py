"""Payload parts: outbound ones in wire form, inbound ones decoded; and what is known of both after
retention has removed their content."""

from typing import Any

from django.db import models
from django.db.models.functions import Length


class _Part(models.Model):
    """What is said of a payload, beside its content."""

    position = models.SmallIntegerField()
    content_type = models.CharField(max_length=255)
    label = models.TextField(blank=True)
    description = models.TextField(blank=True)

    class Meta:
        abstract = True
        ordering = ["position"]

    def __str__(self) -> str:
        return self.label or str(getattr(self, "content_id", self.position))


def _message(model: str, name: str) -> "models.ForeignKey[Any, Any]":
    """No foreign key in the database: a payload is written by the statement or transaction that
    writes its message, and only retention deletes messages, after what belongs to them."""
    return models.ForeignKey(
        model,
        on_delete=models.CASCADE,
        related_name=name,
        db_index=False,
        db_constraint=False,
    )


class OutboundPayload(_Part):
    """One part as it goes over the wire, delimiter and part headers included (D36).

    The body of a message is its head and then every `wire`, in order; of an encrypted message every
    `encrypted`, which was made when the message was composed, and is sent again as it is.
    """

    message = _message("OutboundMessage", "payloads")
    content_id = models.CharField(max_length=255)
    wire = models.BinaryField()
    encrypted = models.BinaryField(null=True)
    size = models.IntegerField(default=0)
    """Bytes of the content, as it was submitted; `sha256` is of it, too."""
    sha256 = models.BinaryField(max_length=32)

    class Meta(_Part.Meta):
        constraints = [
            models.UniqueConstraint(fields=["message", "position"], name="outbound_payload_once"),
        ]


class InboundPayload(_Part):
    """One payload as the application gets it: decoded bytes."""

    message = _message("InboundMessage", "payloads")
    content_id = models.TextField()
    content = models.BinaryField()
    size = models.GeneratedField(
        expression=Length("content"), output_field=models.IntegerField(), db_persist=True
    )
    sha256 = models.GeneratedField(
        expression=models.Func("content", function="sha256"),
        output_field=models.BinaryField(),
        db_persist=True,
    )

    class Meta(_Part.Meta):
        constraints = [
            models.UniqueConstraint(fields=["message", "position"], name="inbound_payload_once"),
        ]


class _RemovedPart(_Part):
    """A payload whose content retention has removed. It stays as long as its message."""

    size = models.IntegerField()
    sha256 = models.BinaryField(max_length=32)

    class Meta(_Part.Meta):
        abstract = True
        default_permissions = ()


class RemovedOutboundPayload(_RemovedPart):
    message = _message("OutboundMessage", "removed_payloads")

    class Meta(_RemovedPart.Meta):
        constraints = [
            models.UniqueConstraint(
                fields=["message", "position"], name="removed_outbound_payload_once"
            ),
        ]


class RemovedInboundPayload(_RemovedPart):
    message = _message("InboundMessage", "removed_payloads")

    class Meta(_RemovedPart.Meta):
        constraints = [
            models.UniqueConstraint(
                fields=["message", "position"], name="removed_inbound_payload_once"
            ),
        ]
