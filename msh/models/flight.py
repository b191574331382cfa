"""Reliable messages on their way to partners that take many at once: one row each."""

from django.db import models
from django.db.models import Q

from msh.protocol.flight.value import FlightState

_STATES = (FlightState.READY, FlightState.WAITING, FlightState.HELD)


class Flight(models.Model):
    """Where a reliable message stands: the value of the same name in `msh/protocol/flight/`.
    `msh.store.flights.flights` alone writes it; it is deleted when the message ends, which is
    FLYING until then.

    `ends_at` is that of the value: when Expired is due.
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
    attempt = models.PositiveIntegerField(default=0, db_default=0)
    copies = models.PositiveIntegerField(default=0, db_default=0)
    under_way = models.BooleanField(default=False, db_default=False)
    carried = models.BooleanField(default=False, db_default=False)
    reached = models.BooleanField(default=False, db_default=False)
    unreached = models.PositiveIntegerField(default=0, db_default=0)
    due = models.DateTimeField(null=True, blank=True)
    expires_at = models.DateTimeField(null=True, blank=True)
    persists_until = models.DateTimeField(null=True, blank=True)
    ends_at = models.DateTimeField(null=True, blank=True)
    held_for = models.CharField(max_length=32, blank=True, default="", db_default="")
    """An IncidentKind, or "operator"."""

    class Meta:
        indexes = [
            # Of a link: what has a place already goes first, then in the order of submission.
            models.Index(
                fields=["link", "-under_way", "message"],
                condition=Q(state="ready"),
                name="flight_ready",
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
        ]

    def __str__(self) -> str:
        return f"{self.message}: {self.state}"
