"""One action on many rows: what was chosen, how far it is, what became of each."""

from datetime import UTC, datetime

from django.db import models
from django.db.models import Q

from msh.protocol.vocabulary import utc_text

EVER = datetime(1970, 1, 1, tzinfo=UTC)
"""The time of a job for rows of any age."""


class BulkAction(models.TextChoices):
    RESUME = "resume", "Resume partners"
    RUN_AGAIN = "run-again", "Run deliveries again"
    CANCEL = "cancel", "Cancel queued messages"
    REPLAY = "replay", "Replay deliveries"
    SUBMIT_AGAIN = "submit-again", "Submit failed messages again"
    RESUME_MESSAGES = "resume-messages", "Resume messages"


class BulkState(models.TextChoices):
    RUNNING = "running", "running"
    CANCELLED = "cancelled", "cancelled"
    DONE = "done", "done"


class BulkJob(models.Model):
    """The rows are chosen when it is confirmed, and do not change: what came later is not in it."""

    action = models.CharField(max_length=15, choices=BulkAction)
    since = models.DateTimeField()
    actor = models.CharField(max_length=150)
    reason = models.TextField()
    state = models.CharField(max_length=9, choices=BulkState, default=BulkState.RUNNING)
    started_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True, blank=True)
    total = models.PositiveIntegerField(default=0, db_default=0)
    done = models.PositiveIntegerField(default=0, db_default=0)
    refused = models.PositiveIntegerField(default=0, db_default=0)
    cancelled_by = models.CharField(max_length=150, blank=True, default="")
    cancel_reason = models.TextField(blank=True, default="", db_default="")
    confirmation = models.UUIDField(null=True, editable=False, unique=True)
    """The key of the confirmed form: if it is sent twice, it starts one job."""
    about = models.TextField(blank=True, editable=False, default="", db_default="")
    """The set that the rows were chosen from, such as the queue of a link. A confirmation of
    another set is refused."""

    partner = models.ForeignKey(
        "partners.Partner",
        on_delete=models.SET_NULL,
        null=True,
        editable=False,
        related_name="+",
        db_constraint=False,
        db_index=False,
    )
    """Whose rows they are, if they were chosen by one partner."""

    class Meta:
        ordering = ["-id"]
        permissions = [("bulk_bulkjob", "Can act on many partners or deliveries at once")]
        indexes = [
            models.Index(fields=["id"], condition=Q(state="running"), name="bulk_job_running"),
        ]

    def __str__(self) -> str:
        name = self.get_action_display()
        return name if self.since == EVER else f"{name} since {utc_text(self.since)}"


class BulkItem(models.Model):
    """One row of a job: `key` is the partner's, the delivery's or the message's. `done` is null
    until its turn."""

    job = models.ForeignKey(BulkJob, on_delete=models.CASCADE, related_name="items")
    key = models.BigIntegerField()
    label = models.TextField()
    done = models.BooleanField(null=True, blank=True)
    detail = models.TextField(blank=True, default="")

    class Meta:
        ordering = ["id"]
        constraints = [
            models.UniqueConstraint(fields=["job", "key"], name="bulk_item_once"),
        ]
        indexes = [
            models.Index(fields=["job", "id"], condition=Q(done=None), name="bulk_item_open"),
        ]

    def __str__(self) -> str:
        return self.label
