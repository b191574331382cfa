"""Changes that people made to the configuration. Append-only like the history: a trigger refuses
updates. After MSH_KEEP_CHANGES days, a year at least, they may be removed."""

from django.core.serializers.json import DjangoJSONEncoder
from django.db import models
from django.db.models.functions import Now


class SettingChange(models.Model):
    """One row that was added, changed or removed: partner, agreement, consumer, user and so on.

    `before` and `after` are values by field: of an added row `before` is empty, of a removed one
    `after`, of a changed one both have what is different. Of secrets they say only that they are.
    """

    class What(models.TextChoices):
        ADDED = "added"
        CHANGED = "changed"
        REMOVED = "removed"

    at = models.DateTimeField(db_default=Now())
    actor = models.CharField(max_length=150)
    what = models.CharField(max_length=7, choices=What)
    kind = models.CharField(max_length=100)
    name = models.CharField(max_length=500)
    before = models.JSONField(encoder=DjangoJSONEncoder)
    after = models.JSONField(encoder=DjangoJSONEncoder)
    reason = models.TextField()

    class Meta:
        verbose_name = "audit log entry"
        verbose_name_plural = "audit log entries"
        ordering = ["id"]
        # The last change of one thing, for the dashboard: by whom and why.
        indexes = [models.Index(fields=["kind", "name", "id"], name="setting_change_of")]

    def __str__(self) -> str:
        return f"{self.kind} {self.name}: {self.what}"
