"""Filters of lists that somebody has given a name."""

from django.conf import settings
from django.db import models
from django.db.models import Q

QUERY_LIMIT = 2000
PER_LIST = 50
"""Filters of one user for one list."""


class SavedFilterQuerySet(models.QuerySet["SavedFilter"]):
    def seen_by(self, user: int | None, of_list: str) -> "SavedFilterQuerySet":
        return self.filter(Q(owner=user) | Q(shared=True), of_list=of_list)


class SavedFilter(models.Model):
    """`of_list`: the table of the list; `query`: its address behind the `?`."""

    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    of_list = models.CharField(max_length=100)
    name = models.CharField(max_length=60)
    shared = models.BooleanField(default=False)
    query = models.CharField(max_length=QUERY_LIMIT)

    objects = SavedFilterQuerySet.as_manager()

    class Meta:
        default_permissions = ("delete",)
        ordering = ["name", "id"]
        indexes = [models.Index(fields=["of_list"], name="saved_filter_of_list")]
        constraints = [
            models.UniqueConstraint(fields=["owner", "of_list", "name"], name="saved_filter_once"),
        ]

    def __str__(self) -> str:
        return self.name
