"""The request of an operator that a second person confirms an action."""

from datetime import datetime

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from msh.models.incident import Direction
from msh.protocol.four_eyes import Act, Request, Verb


class RequestState(models.TextChoices):
    OPEN = "open"
    CONFIRMED = "confirmed"
    REFUSED = "refused"
    WITHDRAWN = "withdrawn"


def place_of(row: models.Model) -> str:
    """How `ActRequest.about` names a row."""
    return f"{row._meta.model_name}:{row.pk}"  # noqa: SLF001  public


class ActRequestQuerySet(models.QuerySet["ActRequest"]):
    def waiting(self, now: datetime) -> "ActRequestQuerySet":
        return self.filter(state=RequestState.OPEN, until__gt=now)


class ActRequest(models.Model):
    """One act, with exactly these `parameters`, on rows as `facts` says. `text` says in a sentence
    what it does. `about` is the row whose page shows it: its model and key."""

    verb = models.CharField(max_length=16, choices=[(verb.value, verb.value) for verb in Verb])
    act = models.CharField(max_length=40)
    parameters = models.JSONField()
    facts = models.TextField()
    text = models.TextField()
    partner = models.ForeignKey("partners.Partner", on_delete=models.PROTECT, null=True, blank=True)
    direction = models.CharField(max_length=3, choices=Direction, blank=True)
    message_id = models.CharField("MessageId", max_length=255, blank=True)
    about = models.CharField(max_length=60, blank=True)
    asked_by = models.CharField(max_length=150)
    reason = models.TextField()
    asked_at = models.DateTimeField(db_default=Now())
    until = models.DateTimeField()
    state = models.CharField(max_length=9, choices=RequestState, default=RequestState.OPEN)
    decided_by = models.CharField(max_length=150, blank=True, default="", db_default="")
    decided_at = models.DateTimeField(null=True, blank=True)
    words = models.TextField(blank=True, default="", db_default="")
    """The words of the second person, or why it was withdrawn."""
    outcome = models.TextField(blank=True, default="", db_default="")
    """The result of the action."""
    started_at = models.DateTimeField(null=True, blank=True)
    """The time at which a worker began a confirmed action (prune)."""
    ended_at = models.DateTimeField(null=True, blank=True)
    """When it ended, or its worker was found to have died."""

    objects = ActRequestQuerySet.as_manager()

    class Meta:
        verbose_name = "four-eyes request"
        verbose_name_plural = "four-eyes requests"
        ordering = ["-id"]
        default_permissions = ("view",)
        permissions = [
            ("confirm_actrequest", "Can confirm or refuse requests of other operators"),
            ("act_alone_actrequest", "Can go ahead without a second person"),
        ]
        indexes = [
            models.Index(fields=["until"], condition=Q(state="open"), name="act_request_open"),
            models.Index(
                fields=["id"],
                condition=Q(state="confirmed", verb="prune", ended_at=None),
                name="act_request_prune",
            ),
        ]

    def __str__(self) -> str:
        return f"request {self.pk}"

    @property
    def value(self) -> Request:
        ended = "" if self.state == RequestState.OPEN else self.state
        return Request(self.asked_by, self.until, ended)

    @property
    def confirmed_act(self) -> Act:
        return Act(Verb(self.verb), self.act, self.parameters, self.facts)
