"""The history: what happened, to what, by whom. Append-only; a trigger refuses updates, but of
the count of a row."""

from django.contrib.postgres.indexes import BrinIndex
from django.db import models
from django.db.models import F
from django.db.models.functions import Now

from .blocks import Block, blocks_of
from .incident import Direction

SYSTEM = "msh"
"""The actor of what the MSH does by itself."""

REFUSED = ("MailRefused", "RequestRefused")
"""The events of what a partner sent and was no message; `code` says why (`Refusal`)."""


# Of one message, as its index has them.
OLDEST_FIRST = (Block("pk"), "pk")
NEWEST_FIRST = (Block("pk").desc(), "-pk")


class HistoryQuerySet(models.QuerySet["History"]):
    def by_persons(self, name: str = "") -> "HistoryQuerySet":
        """Return the actions of all operators, or of the one with this name. A partial index has
        only these rows."""
        acts = self.exclude(actor=SYSTEM)
        return acts.filter(actor=name) if name else acts

    def refused_for(self, code: str) -> "HistoryQuerySet":
        """Return the refusals for this reason. A partial index has only refusals."""
        return self.filter(event__in=REFUSED, code=code)

    def of_message(self, message_id: str) -> "HistoryQuerySet":
        """Return the rows of a message. The index has them in the order of `OLDEST_FIRST` and
        `NEWEST_FIRST`."""
        rows = self.alias(block=Block("pk"))
        return rows.filter(block__in=blocks_of(History), message_id=message_id)


class History(models.Model):
    """One row per transition of a message or a lane, and per act of an operator.

    `subject` says whose states `from_state` and `to_state` are. `actor` is "msh" or a user name.
    """

    class Subject(models.TextChoices):
        MESSAGE = "message"
        LINK = "link"

    at = models.DateTimeField(db_default=Now())
    actor = models.CharField(max_length=150, db_default=SYSTEM)
    partner = models.ForeignKey(
        "partners.Partner", on_delete=models.PROTECT, db_constraint=False, db_index=False
    )
    direction = models.CharField(max_length=3, choices=Direction)
    subject = models.CharField(max_length=8, choices=Subject)
    message_id = models.CharField("MessageId", max_length=255, blank=True)
    event = models.CharField(max_length=40)
    from_state = models.CharField(max_length=16, blank=True)
    to_state = models.CharField(max_length=16, blank=True)
    code = models.CharField(max_length=32, blank=True, default="", db_default="")
    """Why, as a code: the kind of the incident that was opened, `early_warning`, `duplicate`, the
    reason of a refusal, or the code of the Error that a signal deserved."""
    detail = models.TextField(blank=True)
    times = models.IntegerField(default=1, db_default=1)
    """The count of repetitions: what a partner repeats within a minute is one row. The database
    lets only `times` and `last_at` of a row change, and only grow."""
    last_at = models.DateTimeField(null=True, blank=True)
    """When it happened last, if that was more than once."""

    objects = HistoryQuerySet.as_manager()

    class Meta:
        verbose_name_plural = "history"
        ordering = ["id"]
        indexes = [
            # Rows come in the order of their time, so a few pages tell a minute's.
            BrinIndex(fields=["at"], autosummarize=True, name="history_at"),
            models.Index(Block("id"), F("message_id"), F("id"), name="history_of_message"),
            models.Index(
                fields=["partner", "direction", "id"],
                condition=models.Q(subject="link"),
                name="history_of_link",
            ),
            models.Index(
                fields=["id"], condition=~models.Q(actor=SYSTEM), name="history_by_persons"
            ),
            models.Index(
                fields=["actor", "id"], condition=~models.Q(actor=SYSTEM), name="history_by_person"
            ),
            models.Index(
                fields=["code", "id"],
                condition=models.Q(event__in=REFUSED),
                name="history_of_refusals",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.at:%Y-%m-%d %H:%M:%S} {self.event} {self.message_id}"
