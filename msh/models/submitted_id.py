"""The ids of submitted messages that retention has removed."""

from django.db import models


class SubmittedId(models.Model):
    """What is still known of a message that an application submitted, so that the same submission
    is not sent a second time (001-05). `key` is the id that its row had."""

    link = models.ForeignKey(
        "OutboundLink",
        on_delete=models.CASCADE,
        related_name="+",
        db_index=False,
        db_constraint=False,
    )
    message_id = models.CharField(max_length=255)
    content_digest = models.BinaryField(max_length=32)
    key = models.BigIntegerField()
    state = models.CharField(max_length=12)
    submitted_at = models.DateTimeField()
    ended_at = models.DateTimeField()

    class Meta:
        default_permissions = ()
        indexes = [
            # Years of them are kept: each night removes the oldest. They are not partitioned by
            # month: an id is unique in all months, which an index of a partition cannot say.
            models.Index(fields=["ended_at"], name="submitted_id_ended"),
        ]
        constraints = [
            models.UniqueConstraint(fields=["link", "message_id"], name="submitted_id_once"),
        ]

    def __str__(self) -> str:
        return self.message_id
