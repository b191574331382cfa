"""Defaults that a version has brought into the database once: roles and the schedule."""

from collections.abc import Iterable

from django.db import models
from django.db.models.functions import Now


class AppliedDefaultQuerySet(models.QuerySet["AppliedDefault"]):
    def mark_new(self, names: Iterable[str]) -> list[str]:
        """Return those of `names` that were not applied before, and record them as applied. The
        caller applies them in the same transaction."""
        wanted = list(names)
        known = set(self.filter(name__in=wanted).values_list("name", flat=True))
        new = [name for name in wanted if name not in known]
        self.bulk_create([AppliedDefault(name=name) for name in new])
        return new


class AppliedDefault(models.Model):
    """One row for each permission of a role and each entry of the schedule: without it, what an
    administrator removed would come back with the next migration."""

    name = models.CharField(max_length=200, unique=True)
    at = models.DateTimeField(db_default=Now())

    objects = AppliedDefaultQuerySet.as_manager()

    class Meta:
        default_permissions = ()

    def __str__(self) -> str:
        return self.name
