"""The sequence state of a pair: one row per partner and direction."""

import json
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from django.db import models
from django.db.models import Q

from msh.protocol import sequence
from msh.protocol.agreement import Terms, UnreadableTerms
from msh.protocol.errors import UnreadableTermsError
from msh.protocol.lane import InFlight, Lane, LaneState
from msh.protocol.receiver import ReceivingLink

if TYPE_CHECKING:
    from partners.models import Partner

_NUMBER = Q(next_number__gte=sequence.FIRST, next_number__lte=sequence.LAST)
_TIMED = Q(state__in=["waiting", "transient"])


class OutboundLinkQuerySet(models.QuerySet["OutboundLink"]):
    def suspended(self) -> "OutboundLinkQuerySet":
        return self.filter(state=LaneState.SUSPENDED)


class OutboundLink(models.Model):
    """The lane of a pair, as the Sender keeps it. `lane` is its frozen value."""

    partner = models.OneToOneField(
        "partners.Partner", on_delete=models.CASCADE, related_name="outbound_link"
    )
    """Messages, signals and the history protect a link that was used, and so its partner."""

    state = models.CharField(
        max_length=9,
        choices=[(s.value, s.value) for s in LaneState],
        default=LaneState.IDLE,
        db_default="idle",
    )
    next_number = models.IntegerField(default=sequence.FIRST, db_default=1)
    epoch = models.IntegerField(default=1, db_default=1)
    # No foreign key in the database: who puts a message in flight writes both rows, and a trigger
    # refuses to delete a message that has not ended.
    in_flight = models.ForeignKey(
        "OutboundMessage",
        on_delete=models.PROTECT,
        null=True,
        blank=True,
        related_name="+",
        db_index=False,
        db_constraint=False,
    )
    due = models.DateTimeField(null=True, blank=True)
    unsent = models.BooleanField(default=False, db_default=False)
    promised = models.BooleanField(default=False, db_default=False)
    attempt = models.IntegerField(default=0, db_default=0)
    retries_spent = models.IntegerField(default=0, db_default=0)
    transients = models.IntegerField(default=0, db_default=0)
    transient_since = models.DateTimeField(null=True, blank=True)
    late_ack = models.BooleanField(default=False, db_default=False)
    suspended_since = models.DateTimeField(null=True, blank=True)
    suspended_for = models.CharField(max_length=32, blank=True, default="", db_default="")
    """An IncidentKind, or "operator"."""
    suspended_detail = models.TextField(blank=True, default="", db_default="")
    suspended_reason = models.CharField(max_length=20, blank=True, default="", db_default="")
    """A Reason, if the suspension itself names one; else the last attempt has it."""
    failures = models.IntegerField(default=0, db_default=0)
    """Attempts of flights in a row that failed in transport. With the
    columns below: of the gate."""
    failing_since = models.DateTimeField(null=True, blank=True)
    probe_due = models.DateTimeField(null=True, blank=True)
    probed_at = models.DateTimeField(null=True, blank=True)
    refusals = models.IntegerField(default=0, db_default=0)
    """Messages in a row that the partner refused with the code `refused_for`."""
    refused_for = models.TextField(blank=True, default="", db_default="")
    refused_message = models.TextField(blank=True, default="", db_default="")

    objects = OutboundLinkQuerySet.as_manager()

    class Meta:
        verbose_name_plural = "links to partners"
        permissions = [
            ("suspend_outboundlink", "Can suspend sending to a partner"),
            ("resume_outboundlink", "Can resume sending to a partner"),
            ("reset_retries_outboundlink", "Can reset the retries of a message in flight"),
            ("send_now_outboundlink", "Can send a message in flight again at once"),
            ("cancel_outboundlink", "Can cancel a message, with a verdict"),
            ("reset_sequence_outboundlink", "Can restart the numbers to a partner at 1"),
            ("resynchronise_outboundlink", "Can resynchronise the numbers of both sides"),
            ("rewind_outboundlink", "Can send acknowledged messages to a partner again"),
        ]
        indexes = [
            models.Index(fields=["due"], condition=_TIMED, name="outbound_link_due"),
            models.Index(fields=["id"], condition=Q(state="idle"), name="outbound_link_idle"),
        ]
        constraints = [
            models.CheckConstraint(condition=_NUMBER, name="next_number_in_range"),
            models.CheckConstraint(
                condition=(_TIMED & Q(due__isnull=False)) | (~_TIMED & Q(due=None, unsent=False)),
                name="due_while_waiting",
            ),
            models.CheckConstraint(
                condition=Q(promised=False) | Q(state="waiting", unsent=True),
                name="promised_while_unsent",
            ),
            models.CheckConstraint(
                condition=(
                    (Q(state="waiting") & Q(in_flight__isnull=False))
                    | (Q(state="idle") & Q(in_flight=None))
                    | Q(state__in=["transient", "suspended"])
                ),
                name="in_flight_while_waiting",
            ),
            models.CheckConstraint(
                condition=Q(state="suspended", suspended_since__isnull=False)
                | (~Q(state="suspended") & Q(suspended_since=None)),
                name="suspended_since_when",
            ),
        ]

    def __str__(self) -> str:
        return f"to {self.partner}"

    @property
    def lane(self) -> Lane:
        return lane_of(self, self.in_flight)


def terms_of(row: Any) -> Terms:
    """The terms of an agreement, or of a row with its columns."""
    return Terms(
        row.timeout,
        row.retries,
        row.retry_interval,
        row.transient_count_limit,
        row.transient_time_limit,
        row.transient_wait_limit,
        row.early_warning,
    )


def lane_of(link: Any, message: Any | None) -> Lane:
    """The frozen lane of a link's row and that of its message in flight: rows of models or of SQL,
    where Django has psycopg return jsonb as text."""
    stored = message.terms if message else ""
    flying = message and InFlight(
        message_id=message.message_id,
        sequence_number=message.sequence_number,
        terms=_stored_terms(stored if isinstance(stored, str) else json.dumps(stored)),
        attempt=link.attempt,
        retries_spent=link.retries_spent,
        transients=link.transients,
        transient_since=link.transient_since,
    )
    return Lane(
        state=LaneState(link.state),
        next_number=link.next_number,
        epoch=link.epoch,
        in_flight=flying,
        due=link.due,
        unsent=link.unsent,
        promised=link.promised,
        late_ack=link.late_ack,
        suspended_for=link.suspended_for,
    )


@lru_cache(maxsize=1000)
def _stored_terms(text: str) -> Terms:
    """There are few agreements, and each has the same terms for all of its messages."""
    try:
        return Terms.of_stored(json.loads(text))
    except UnreadableTermsError as problem:
        return UnreadableTerms(str(problem))


class InboundLink(models.Model):
    """The pair as the Receiver keeps it. `last_number` is L, None before the first message."""

    partner = models.OneToOneField(
        "partners.Partner", on_delete=models.CASCADE, related_name="inbound_link"
    )
    last_number = models.IntegerField(null=True, blank=True)
    last_message_id = models.CharField(max_length=255, blank=True, default="", db_default="")
    epoch = models.IntegerField(default=1, db_default=1)
    highest_number = models.IntegerField(default=0, db_default=0)
    """The highest last number of the runs that ended because the partner began again at 1: their
    ids are kept until `last_number` has passed it (D39)."""
    reset_allowed = models.BooleanField(default=False, db_default=False)

    class Meta:
        verbose_name_plural = "links from partners"
        permissions = [
            ("allow_reset_inboundlink", "Can allow a partner to restart its numbers at 1"),
            ("expect_inboundlink", "Can give up missing numbers of a partner as lost"),
            ("hold_resets_inboundlink", "Can hold unexpected resets of a partner"),
        ]
        constraints = [
            models.CheckConstraint(
                condition=Q(last_number=None)
                | Q(last_number__gte=sequence.FIRST, last_number__lte=sequence.LAST),
                name="last_number_in_range",
            ),
        ]

    def __str__(self) -> str:
        return f"from {self.partner}"

    @property
    def receiving(self) -> ReceivingLink:
        return ReceivingLink(self.last_number, self.epoch, self.reset_allowed)


def link_of(partner: "Partner", direction: str) -> OutboundLink | InboundLink | None:
    """Return the link of a partner. None for a partner that is not used yet: links are created when
    they are needed."""
    link: OutboundLink | InboundLink | None
    link = getattr(partner, "outbound_link" if direction == "out" else "inbound_link", None)
    return link
