"""Messages we send, and every attempt to transmit them."""

from collections.abc import Mapping
from typing import Any

from django.contrib.postgres.indexes import BrinIndex
from django.db import models
from django.db.models import F, Q, Value

from msh.protocol import sequence
from msh.protocol.attempt import AttemptOutcome
from msh.protocol.kinds import Verdict
from msh.protocol.vocabulary import DeliverySemantics

from .message import MessageColumns, MessageQuerySet, conversation_index


class OutboundState(models.TextChoices):
    """Each with its words, as part of a sentence."""

    QUEUED = "queued", "queued"
    IN_FLIGHT = "in_flight", "in flight"
    ACKNOWLEDGED = "acknowledged", "acknowledged"
    CANCELLED = "cancelled", "cancelled"
    REWOUND = "rewound", "rewound"
    SENT = "sent", "sent"
    FAILED = "failed", "failed"
    FLYING = "flying", "in flight"


HELD = "held"
"""How a flight is shown that waits for an operator."""

SHOWN_STATES = [
    *(choice for choice in OutboundState.choices if choice[0] != OutboundState.FLYING),
    (HELD, HELD),
]
"""The states that `shown_state` may return."""


def shown_state() -> models.Case:
    """The state of a message, for who does not know of flights."""
    return models.Case(
        models.When(~Q(state=OutboundState.FLYING), then=F("state")),
        models.When(flight__state=HELD, then=Value(HELD)),
        models.When(flight__attempt=0, then=Value(OutboundState.QUEUED.value)),
        default=Value(OutboundState.IN_FLIGHT.value),
        output_field=models.CharField(),
    )


FLIGHTS_IN: Mapping[str, Q] = {
    OutboundState.QUEUED: Q(state="ready", attempt=0),
    OutboundState.IN_FLIGHT: Q(state="waiting") | Q(state="ready", attempt__gt=0),
    HELD: Q(state=HELD),
}
"""Which flights `shown_state` gives these states."""

_RELIABLE_QUEUE = Q(state="queued", semantics="OnceAndOnlyOnce")
_REWOUND = Q(state="rewound")
_BEST_EFFORT_OPEN = Q(state__in=["queued", "in_flight"], semantics="BestEffort")


class OutboundMessageQuerySet(MessageQuerySet["OutboundMessage"]):
    time = "submitted_at"

    def queued(self) -> "OutboundMessageQuerySet":
        return self.filter(state=OutboundState.QUEUED)

    def failed_for_good(self) -> "OutboundMessageQuerySet":
        """Return the failed messages that were not submitted again as a copy."""
        copies = self.model.objects.filter(corrects=models.OuterRef("pk"))
        return self.filter(~models.Exists(copies), state=OutboundState.FAILED)

    def head_of_queue(self, link: int, limit: int) -> "OutboundMessageQuerySet":
        """The oldest that are queued to it, by the partial indexes: they know of one semantics
        each, and without them a table of millions would be read in the order of its ids."""
        of_link = self.model.objects.queued().filter(link=link).order_by("pk").values("pk")
        reliable, best_effort = (
            of_link.filter(semantics=semantics)[:limit]
            for semantics in ("OnceAndOnlyOnce", "BestEffort")
        )
        return self.filter(pk__in=reliable.union(best_effort, all=True)).order_by("pk")[:limit]

    def in_state(self, state: str) -> "OutboundMessageQuerySet":
        """Written so that the partial indexes answer it: they know of one semantics each."""
        reliable, best_effort = Q(semantics="OnceAndOnlyOnce"), Q(semantics="BestEffort")
        match state:
            case OutboundState.QUEUED:
                queue = (reliable & Q(state=state)) | (best_effort & Q(state=state))
                return self._with_flights(state, queue)
            case OutboundState.IN_FLIGHT:
                links = self._link_model().objects.filter(in_flight__isnull=False)
                flying = list(links.values_list("in_flight", flat=True))
                return self._with_flights(state, Q(pk__in=flying) | (best_effort & Q(state=state)))
            case OutboundState.SENT:
                return self.filter(best_effort, state=state)
            case "held":
                return self.filter(flight__state=state)
        return super().in_state(state)

    def _with_flights(self, state: str, others: Q) -> "OutboundMessageQuerySet":
        """Return `others` and the messages whose flight has this state, as a union: an OR over both
        tables could use no index."""
        flights = self._flight_model().objects.filter(FLIGHTS_IN[state])
        if not flights.exists():
            return self.filter(others)
        keys = self.model.objects.filter(others).order_by().values("pk")
        return self.filter(pk__in=keys.union(flights.values("pk"), all=True))

    def _flight_model(self) -> Any:
        return self.model._meta.get_field("flight").related_model  # noqa: SLF001  public


class OutboundMessage(MessageColumns):
    """A message as submitted, and as it went over the wire.

    `head` is composed at the first transmission and never again; with the payloads it is the body,
    whose SHA-256 is checked before every copy (D36). `terms` are those it was sent under.
    """

    link = models.ForeignKey(
        "OutboundLink",
        on_delete=models.PROTECT,
        related_name="messages",
        db_index=False,
        db_constraint=False,
    )
    state = models.CharField(max_length=12, choices=OutboundState, default=OutboundState.QUEUED)
    forwards = models.ForeignKey(
        "InboundMessage",
        on_delete=models.PROTECT,
        null=True,
        blank=True,
        related_name="forwarded_as",
        db_index=False,
        help_text="The message from a partner that is forwarded as this one.",
    )
    corrects = models.ForeignKey(
        "self",
        on_delete=models.SET_NULL,
        null=True,
        blank=True,
        related_name="corrected_by",
        db_index=False,
        help_text="The message that ended and was submitted again as this one.",
    )
    submitted_at = models.DateTimeField()
    """Also the TimeStamp of its MessageData."""
    size = models.IntegerField(help_text="bytes of the payloads, as they were submitted")
    boundary = models.CharField(max_length=70)

    epoch = models.IntegerField(null=True, blank=True)
    sequence_number = models.IntegerField("SequenceNumber", null=True, blank=True)
    order_number = models.IntegerField("MessageOrder", null=True, blank=True)
    """The number of the message in its conversation."""
    terms = models.JSONField(null=True, blank=True)
    head = models.BinaryField(null=True)
    body_sha256 = models.BinaryField(null=True, max_length=32)
    due = models.DateTimeField(null=True, blank=True, help_text="BestEffort: end of the lease")
    first_sent_at = models.DateTimeField(null=True, blank=True)
    completed_at = models.DateTimeField(null=True, blank=True)
    outcome = models.CharField(
        max_length=12, blank=True, db_default="", choices=[(v.value, v.value) for v in Verdict]
    )
    earlier_attempts = models.IntegerField(default=0, db_default=0)
    """Attempts made before it was queued again or rewound: their numbers go on."""
    duplicate_acks = models.IntegerField(default=0, db_default=0)

    objects = OutboundMessageQuerySet.as_manager()

    @property
    def holds_up(self) -> bool:
        """Whether it failed and has a number of its conversation, which stands still until an
        operator resumes or cancels it."""
        return self.state == OutboundState.FAILED and self.order_number is not None

    @property
    def flies(self) -> bool:
        """Whether it has a flight, or had one until it ended."""
        reliable = self.semantics == DeliverySemantics.ONCE_AND_ONLY_ONCE
        return reliable and self.agreement.settings.flies

    class Meta:
        ordering = ["-id"]
        permissions = [
            ("view_payload_outboundmessage", "Can see the payloads of messages we sent"),
            ("submit_outboundmessage", "Can submit messages with an API token"),
            ("correct_outboundmessage", "Can submit a message again, as it was or corrected"),
        ]
        indexes = [
            conversation_index("outbound_conversation"),
            models.Index(
                fields=["corrects"], condition=Q(corrects__isnull=False), name="outbound_corrects"
            ),
            # What is rewound has an index of its own: in this one, the search for the next message
            # would meet all that were cancelled since the last ANALYZE.
            models.Index(
                fields=["id"],
                condition=Q(state__in=["cancelled", "failed"]),
                name="outbound_unusual",
            ),
            models.Index(
                fields=["link", "id"], condition=Q(state="failed"), name="outbound_failed"
            ),
            BrinIndex(fields=["submitted_at"], autosummarize=True, name="outbound_submitted_at"),
            # An archive of what ended in a day.
            BrinIndex(fields=["completed_at"], autosummarize=True, name="outbound_completed_at"),
            models.Index(
                fields=["id"], condition=Q(semantics="BestEffort"), name="outbound_unreliable"
            ),
            models.Index(fields=["link", "id"], condition=_RELIABLE_QUEUE, name="outbound_queue"),
            models.Index(
                fields=["link", "epoch", "sequence_number"],
                condition=_REWOUND,
                name="outbound_rewound",
            ),
            models.Index(
                fields=["link", "id"], condition=_BEST_EFFORT_OPEN, name="outbound_best_effort"
            ),
        ]
        constraints = [
            models.UniqueConstraint(fields=["link", "message_id"], name="outbound_message_once"),
            models.UniqueConstraint(
                fields=["link", "epoch", "sequence_number"],
                condition=Q(sequence_number__isnull=False),  # no index to look MessageIds up by
                name="outbound_number_once",
            ),
            models.UniqueConstraint(
                fields=["forwards"],
                condition=Q(forwards__isnull=False),
                name="outbound_forwards_once",
            ),
            models.CheckConstraint(
                condition=Q(sequence_number=None)
                | Q(sequence_number__gte=sequence.FIRST, sequence_number__lte=sequence.LAST),
                name="outbound_number_in_range",
            ),
            models.CheckConstraint(
                condition=~Q(state__in=["in_flight", "rewound"], semantics="OnceAndOnlyOnce")
                | Q(sequence_number__isnull=False, terms__isnull=False),
                name="in_flight_has_number",
            ),
            models.CheckConstraint(
                # A flight has no number.
                condition=~Q(state="acknowledged", semantics="OnceAndOnlyOnce")
                | Q(terms__isnull=False, sequence_number__isnull=False, epoch__isnull=False)
                | Q(terms__isnull=False, sequence_number=None, epoch=None),
                name="acknowledged_has_terms",
            ),
            models.CheckConstraint(
                condition=Q(head=None, body_sha256=None)
                | Q(head__isnull=False, body_sha256__isnull=False),
                name="head_has_digest",
            ),
        ]


class Attempt(models.Model):
    """One POST (or mail) of one copy. Numbers never start again for a message."""

    # No foreign key in the database: who writes an attempt holds the message, which has not ended,
    # and only what has ended is removed, after its attempts.
    message = models.ForeignKey(
        "OutboundMessage",
        on_delete=models.CASCADE,
        related_name="attempts",
        db_index=False,
        db_constraint=False,
    )
    number = models.IntegerField()
    claimed_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True, blank=True)
    outcome = models.CharField(
        max_length=16,
        blank=True,
        db_default="",
        choices=[(o.value, o.value) for o in AttemptOutcome],
    )
    status = models.SmallIntegerField(null=True, blank=True)
    detail = models.TextField(blank=True, db_default="")
    reason = models.CharField(max_length=20, blank=True, default="", db_default="")
    """A Reason: what `detail` says in words. Empty while it is under way."""
    body_sent = models.BooleanField(default=True, db_default=True)
    """False only where no byte of the body left us for certain (D18)."""

    class Meta:
        ordering = ["number"]
        indexes = [
            BrinIndex(fields=["claimed_at"], autosummarize=True, name="attempt_claimed_at"),
        ]
        constraints = [
            models.UniqueConstraint(fields=["message", "number"], name="attempt_once"),
        ]

    def __str__(self) -> str:
        return f"attempt {self.number}: {self.outcome or 'under way'}"
