"""Webhooks: addresses of applications that are told what became of submitted messages."""

from typing import Any

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models.functions import Now

from msh.protocol.kinds import PartyEventKind

from .consumer import check_url
from .signing import Signed


class Webhook(Signed):
    """It reads the feed of events: `position` is that of the last one that its address has taken.
    One POST at a time is under way to it, so that events come in the order of the feed, each at
    least once."""

    name = models.SlugField(max_length=63, unique=True)
    enabled = models.BooleanField(
        default=True, help_text="Off: nothing is sent. Switched on, it goes on where it stopped."
    )
    url = models.CharField(
        "address", max_length=1000, validators=[check_url], help_text="Events are posted there."
    )
    kinds = ArrayField(
        models.CharField(max_length=16, choices=[(k.value, k.value) for k in PartyEventKind]),
        blank=True,
        default=list,
        help_text="Only events of these kinds. None selected: all.",
    )
    partners: "models.ManyToManyField[Any, Any]" = models.ManyToManyField(
        "partners.Partner",
        blank=True,
        related_name="+",
        help_text="Only events of messages to these partners. None selected: all.",
    )
    position = models.BigIntegerField(default=0, db_default=0, editable=False)
    due = models.DateTimeField(db_default=Now(), editable=False)
    """When it may be POSTed to (again)."""
    tries = models.IntegerField(default=0, db_default=0, editable=False)
    """Failed attempts of the event that is next."""
    error = models.TextField(blank=True, default="", db_default="", editable=False)
    """Why the last one failed."""
    failing = models.ForeignKey(
        "partners.Partner",
        on_delete=models.SET_NULL,
        null=True,
        editable=False,
        related_name="+",
        db_index=False,
    )
    """The partner of the event that it does not take."""

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name
