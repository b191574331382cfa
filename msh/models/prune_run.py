"""When old rows were last removed, and who removes them now."""

from datetime import datetime
from typing import Any

from django.db import models

from .history import History

NEWEST = 100
"""Rows of the history of which the latest time is taken: one of them may have an odd one."""


class PruneRunQuerySet(models.QuerySet["PruneRun"]):
    def last_known(self) -> datetime | None:
        """The last time that is known to have been: of the last run, before the first one that of
        the newest history. None where there is neither."""
        if at := self.values_list("at", flat=True).first():
            return at
        newest: models.QuerySet[History, Any] = History.objects.order_by("-pk")
        return max(newest.values_list("at", flat=True)[:NEWEST], default=None)


class PruneRun(models.Model):
    """One row, number 1: the last run. `at` is the database's clock when it began; a clock that
    has jumped far ahead since is not believed."""

    at = models.DateTimeField(null=True)
    holder = models.UUIDField(null=True)
    """The run that is in progress, until it has ended or `leased_until` has passed."""
    leased_until = models.DateTimeField(null=True)
    feed_removed = models.BigIntegerField(default=0, db_default=0)
    """The highest position in the feed of a message that was removed: who reads behind a lower one
    has missed it."""
    events_removed = models.BigIntegerField(default=0, db_default=0)
    """The same of the feed of events."""

    objects = PruneRunQuerySet.as_manager()

    class Meta:
        default_permissions = ()

    def __str__(self) -> str:
        return f"{self.at:%Y-%m-%d %H:%M}" if self.at else "none yet"
