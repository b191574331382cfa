"""What we agreed on with a partner: a TPA."""

from datetime import timedelta

from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.db.models import Q

from msh.protocol.agreement import Terms
from msh.protocol.kinds import OnUnexpectedFirst
from msh.protocol.vocabulary import DeliverySemantics

HORIZONS = 10
"""Times as long as a copy may come that MessageIds are kept at least (D39)."""
WEEK = 7 * 86_400  # seconds

BOUNDS = {
    "timeout": (1, WEEK),
    "retries": (0, 10_000),
    "retry_interval": (1, WEEK),
    "transient_count_limit": (1, 100_000),
    "transient_time_limit": (1, 4 * WEEK),
    "transient_wait_limit": (1, WEEK),
    "early_warning": (0, 10_000),
}
"""Smallest and largest value of each: whole seconds, or a count. Impossible ones are refused."""


_HORIZON = ("timeout", "retries", "retry_interval", "transient_time_limit")


def _bounded(field: str, default: int, help_text: str) -> "models.PositiveIntegerField[int, int]":
    smallest, largest = BOUNDS[field]
    return models.PositiveIntegerField(
        default=default,
        db_default=default,
        validators=[
            MinValueValidator(smallest, f"Must be {smallest} or more."),
            MaxValueValidator(largest, f"Must be {largest} or less."),
        ],
        help_text=help_text,
    )


class Agreement(models.Model):
    """One TPA with a partner. A message keeps a snapshot of the `terms` it was sent under."""

    partner = models.ForeignKey(
        "partners.Partner", on_delete=models.CASCADE, related_name="agreements"
    )
    tpa_id = models.CharField("TPAId", max_length=255)
    our_party = models.CharField(
        "our PartyId", max_length=255, help_text="The From party of our messages."
    )
    our_party_context = models.CharField(
        "its context", max_length=255, blank=True, help_text="DUNS, URI … Blank: any."
    )
    their_party = models.CharField(
        "their PartyId", max_length=255, help_text="The To party of our messages."
    )
    their_party_context = models.CharField(
        "its context", max_length=255, blank=True, help_text="DUNS, URI … Blank: any."
    )
    timeout = _bounded(
        "timeout",
        60,
        "Timeout: seconds to wait for an Acknowledgement or Error after a message was sent,"
        " before the first retry.",
    )
    retries = _bounded(
        "retries",
        3,
        "Retries: how many times the same message is sent again until an Acknowledgement comes."
        " Then sending to the partner is suspended.",
    )
    retry_interval = _bounded(
        "retry_interval", 60, "RetryInterval: seconds to wait after a retry before the next."
    )
    semantics = models.CharField(
        "DeliverySemantics",
        max_length=16,
        choices=[(s.value, s.value) for s in DeliverySemantics],
        default=DeliverySemantics.ONCE_AND_ONLY_ONCE.value,
        help_text="For messages that are submitted without delivery semantics.",
    )
    transient_count_limit = _bounded(
        "transient_count_limit",
        100,
        "TransientErrors in a row for one message before sending is suspended.",
    )
    transient_time_limit = _bounded(
        "transient_time_limit",
        86_400,
        "Seconds that TransientErrors may hold one message in all before sending is suspended.",
    )
    transient_wait_limit = _bounded(
        "transient_wait_limit",
        3_600,
        "Most seconds of one wait that we grant to a MinRetrySecs or Retry-After.",
    )
    early_warning = _bounded(
        "early_warning",
        0,
        "Retry at which the sending application is notified that its message is late, and operators"
        " too if retries remain. 0: the application is not notified, operators after half of the"
        " retries.",
    )
    on_unexpected_first = models.CharField(
        "on unexpected first",
        max_length=6,
        choices=[(o.value, o.value) for o in OnUnexpectedFirst],
        default=OnUnexpectedFirst.ACCEPT.value,
        help_text="If SequenceNumber 1 arrives after higher numbers: accept it as a reset of the"
        " partner, hold it until an operator allows it, or refuse it.",
    )

    class Meta:
        ordering = ["partner", "tpa_id"]
        constraints = [
            models.UniqueConstraint(
                fields=["partner", "tpa_id"],
                name="agreement_once",
                violation_error_message="This partner has another agreement with this TPAId.",
            ),
            *(
                models.CheckConstraint(
                    condition=Q((f"{field}__gte", smallest), (f"{field}__lte", largest)),
                    name=f"agreement_{field}",
                )
                for field, (smallest, largest) in BOUNDS.items()
            ),
        ]

    def __str__(self) -> str:
        return self.tpa_id

    def clean(self) -> None:
        """Refuses terms under which MessageIds would be kept for longer than anything is."""
        if self._has_terms() and (why := self.kept_too_short()):
            raise ValidationError(f"{why}, or shorten {', '.join(_HORIZON)}.", code="horizon")

    def _has_terms(self) -> bool:
        """A field that was refused may hold anything."""
        values = [getattr(self, name) for name in _HORIZON]
        return all(isinstance(value, int) for value in values)

    def ids_kept(self) -> timedelta:
        """How long MessageIds under this agreement are kept at least: its waits, those it grants
        included, HORIZONS times."""
        terms = self.terms()
        return HORIZONS * timedelta(seconds=terms.retry_horizon + terms.transient_time_limit)

    def kept_too_short(self) -> str:
        """Why MSH_KEEP_MESSAGES is too short for it, and to what to set it; empty if it is not."""
        configured, needed = timedelta(days=settings.MSH_KEEP_MESSAGES), self.ids_kept()
        if needed <= configured:
            return ""
        days = -(-needed // timedelta(days=1))
        return (
            f"MSH_KEEP_MESSAGES is {configured.days} days, but MessageIds under agreement {self}"
            f" must be kept for {days}, {HORIZONS} times as long as duplicates may arrive:"
            f" set MSH_KEEP_MESSAGES to {days} or more"
        )

    def terms(self) -> Terms:
        """The values that the tables need."""
        return Terms(
            timeout=self.timeout,
            retries=self.retries,
            retry_interval=self.retry_interval,
            transient_count_limit=self.transient_count_limit,
            transient_time_limit=self.transient_time_limit,
            transient_wait_limit=self.transient_wait_limit,
            early_warning=self.early_warning,
        )
