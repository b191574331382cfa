"""Reliable messages on their way to partners that take many at once, and the conversations among
them that are sent in order: one row each."""

from typing import Self

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q

from msh.protocol.flight import serial
from msh.protocol.flight.numbering import Numbering, NumberingState
from msh.protocol.flight.value import FlightState
from partners.models import Agreement

_STATES = (FlightState.READY, FlightState.WAITING, FlightState.HELD)


class Flight(models.Model):
    """The flight of a reliable message: the value of the same name in `msh/protocol/flight/`.
    `msh.store.flights.flights` alone writes it; it is deleted when the message ends, which is
    FLYING until then.

    `ends_at` is the time at which its Expired event is due.
    """

    # No foreign keys in the database: the statement that stores a message writes its flight, and
    # only what has ended is removed.
    message = models.OneToOneField(
        "OutboundMessage",
        on_delete=models.CASCADE,
        primary_key=True,
        related_name="flight",
        db_constraint=False,
    )
    link = models.ForeignKey(
        "OutboundLink",
        on_delete=models.PROTECT,
        related_name="flights",
        db_index=False,
        db_constraint=False,
    )
    state = models.CharField(
        max_length=7,
        choices=[(state.value, state.value) for state in _STATES],
        default=FlightState.READY.value,
        db_default=FlightState.READY.value,
    )
    attempt = models.IntegerField(default=0, db_default=0)
    copies = models.IntegerField(default=0, db_default=0)
    under_way = models.BooleanField(default=False, db_default=False)
    carried = models.BooleanField(default=False, db_default=False)
    reached = models.BooleanField(default=False, db_default=False)
    unreached = models.IntegerField(default=0, db_default=0)
    unsent = models.IntegerField(default=0, db_default=0)
    due = models.DateTimeField(null=True, blank=True)
    expires_at = models.DateTimeField(null=True, blank=True)
    persists_until = models.DateTimeField(null=True, blank=True)
    ends_at = models.DateTimeField(null=True, blank=True)
    held_for = models.CharField(max_length=32, blank=True, default="", db_default="")
    """An IncidentKind, or "operator"."""
    waits_turn = models.BooleanField(default=False, db_default=False)
    """The message is sent in order, and has no number yet."""
    ordered_in = models.ForeignKey(
        "OutboundConversation",
        on_delete=models.PROTECT,
        null=True,
        blank=True,
        related_name="flights",
        db_index=False,
        db_constraint=False,
    )
    """The conversation in whose order it is sent; None for a new one until a worker has found it:
    who submits locks no conversation."""
    number = models.IntegerField(null=True, blank=True)

    class Meta:
        indexes = [
            # Of a link: what has a place already goes first, then in the order of submission.
            models.Index(
                fields=["link", "-under_way", "message"],
                condition=Q(state="ready", waits_turn=False),
                name="flight_ready",
            ),
            # New ones that no worker has seen.
            models.Index(
                fields=["link", "message"],
                condition=Q(waits_turn=True, ordered_in=None),
                name="flight_unsorted",
            ),
            models.Index(
                fields=["ordered_in", "waits_turn", "message"],
                condition=Q(ordered_in__isnull=False),
                name="flight_in_conversation",
            ),
            models.Index(fields=["link"], condition=Q(under_way=True), name="flight_under_way"),
            models.Index(fields=["due"], condition=Q(state="waiting"), name="flight_due"),
            models.Index(
                fields=["ends_at"], condition=Q(ends_at__isnull=False), name="flight_ends"
            ),
            models.Index(fields=["link", "message"], condition=Q(state="held"), name="flight_held"),
        ]
        constraints = [
            models.CheckConstraint(
                condition=Q(state="held", due=None, under_way=False)
                | Q(state__in=["ready", "waiting"], due__isnull=False, held_for=""),
                name="flight_due_unless_held",
            ),
            models.CheckConstraint(
                condition=~Q(state="waiting") | Q(under_way=True, attempt__gte=1),
                name="flight_waits_for_a_copy",
            ),
            models.CheckConstraint(
                condition=Q(number=None) | Q(waits_turn=False, ordered_in__isnull=False),
                name="flight_number_in_conversation",
            ),
            # Safe since nothing restarts a conversation before all of it is accounted for.
            models.UniqueConstraint(
                fields=["ordered_in", "number"],
                condition=Q(number__isnull=False),
                name="flight_number_once",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.message}: {self.state}"


class OutboundConversationQuerySet(models.QuerySet["OutboundConversation"]):
    def waiting(self) -> Self:
        """Return the conversations that are stopped until an operator, or an Acknowledgment, lets
        them continue."""
        return self.filter(state=NumberingState.STOPPED).order_by("pk")

    def named(self, conversation_id: str) -> Self:
        """Return the conversations of this name, by the unique index, which begins with the
        agreement."""
        known = self.filter(conversation_id=conversation_id)
        return known.filter(agreement__in=Agreement.objects.order_by().values("pk"))


class OutboundConversation(models.Model):
    """A conversation that is sent in order: the value `Numbering` in
    `msh/protocol/flight/numbering.py`. `msh.store.flights` alone writes it.

    `head` is the row id of the oldest message without a number, if that is ready. `used_at`: when
    a message of it was submitted, given a number, or ended.
    """

    link = models.ForeignKey(
        "OutboundLink",
        on_delete=models.CASCADE,
        related_name="conversations",
        db_index=False,
        db_constraint=False,
    )
    agreement = models.ForeignKey(
        "partners.Agreement", on_delete=models.CASCADE, related_name="+", db_index=False
    )
    conversation_id = models.CharField("ConversationId", max_length=255)
    state = models.CharField(
        max_length=10,
        choices=[(state.value, state.value) for state in NumberingState],
        default=NumberingState.BEGINNING.value,
        db_default=NumberingState.BEGINNING.value,
    )
    next_number = models.PositiveIntegerField(default=serial.FIRST, db_default=serial.FIRST)
    resets = models.BooleanField(default=True, db_default=True)
    unconfirmed = models.CharField(max_length=255, blank=True, default="", db_default="")
    stopped_by = ArrayField(models.CharField(max_length=255), default=list, db_default=[])
    broken = models.BooleanField(default=False, db_default=False)
    head = models.BigIntegerField(null=True, blank=True)
    used_at = models.DateTimeField()

    objects = OutboundConversationQuerySet.as_manager()

    class Meta:
        verbose_name = "conversation to a partner"
        verbose_name_plural = "conversations to partners"
        indexes = [
            # Those of which a message may start, whatever waits in the others.
            models.Index(
                fields=["link", "head"],
                condition=Q(state__in=["beginning", "running"], head__isnull=False),
                name="out_conversation_starts",
            ),
            models.Index(
                fields=["link"], condition=Q(state="stopped"), name="out_conversation_stopped"
            ),
        ]
        constraints = [
            models.UniqueConstraint(
                fields=["agreement", "conversation_id"], name="out_conversation_once"
            ),
            models.CheckConstraint(
                condition=Q(state="stopped") & (Q(broken=True) | ~Q(stopped_by=[]))
                | ~Q(state="stopped") & Q(broken=False, stopped_by=[]),
                name="out_conversation_stopped_why",
            ),
            models.CheckConstraint(
                condition=Q(next_number__lte=serial.LAST), name="out_conversation_number_in_range"
            ),
        ]

    def __str__(self) -> str:
        return self.conversation_id

    @property
    def numbering(self) -> Numbering:
        stopped_by = frozenset(self.stopped_by)
        return Numbering(self.next_number, self.resets, self.unconfirmed, stopped_by, self.broken)
