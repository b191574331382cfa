"""The agreement with a partner: a TPA."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any, Protocol

from django.conf import settings
from django.core.exceptions import ValidationError
from django.db import models
from django.db.models import Q

from msh.protocol.agreement import Terms
from msh.protocol.kinds import OnUnexpectedFirst
from msh.protocol.vocabulary import DeliverySemantics

from . import ebms2
from .dialects import Dialect, Settings, settings_of
from .ebms2 import WEEK, Ebms2Settings, Presence
from .fields import bounded_field

HORIZONS = 10
"""Times as long as a copy may come that MessageIds are kept at least (D39)."""

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


_HORIZON = ("timeout", "retries", "retry_interval", "transient_time_limit", "persist_duration")


_CONTEXT = "DUNS, URI … Empty: any. ebMS 2.0: the type of the PartyId."


def _bounded(field: str, default: int, help_text: str) -> "models.PositiveIntegerField[int, int]":
    return bounded_field(None, default, BOUNDS[field], help_text)


class Fitting(Protocol):
    """A channel, as far as its agreement checks it."""

    agreement: Any

    @property
    def key(self) -> tuple[str, ...]: ...
    def refuse_impossible_terms(self) -> None: ...


class Agreement(Ebms2Settings):
    """One TPA (ebMS: CPA) with a partner. A message keeps a snapshot of the `terms` it was sent
    under. Which settings it has is a matter of its dialect; the others have their defaults."""

    partner = models.ForeignKey(
        "partners.Partner", on_delete=models.CASCADE, related_name="agreements"
    )
    dialect = models.CharField(
        max_length=5,
        choices=Dialect,
        default=Dialect.TRP,
        db_default=Dialect.TRP.value,
        help_text="The format of its messages. All agreements with a partner have the same"
        " dialect. Fixed once saved.",
    )
    tpa_id = models.CharField("TPAId", max_length=255, help_text="ebMS 2.0: the CPAId.")
    our_party = models.CharField(
        "our PartyId", max_length=255, help_text="The From party of our messages."
    )
    our_party_context = models.CharField(
        "context of our PartyId", max_length=255, blank=True, help_text=_CONTEXT
    )
    their_party = models.CharField(
        "their PartyId", max_length=255, help_text="The To party of our messages."
    )
    their_party_context = models.CharField(
        "context of their PartyId", max_length=255, blank=True, help_text=_CONTEXT
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
        "Retries: how many times the same message is sent again if no Acknowledgement comes."
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
        help_text="The default for messages that are submitted without delivery semantics.",
    )
    transient_count_limit = _bounded(
        "transient_count_limit",
        100,
        "TransientErrors in a row for one message before sending is suspended.",
    )
    transient_time_limit = _bounded(
        "transient_time_limit",
        86_400,
        "Seconds in total that TransientErrors may delay one message before sending is suspended.",
    )
    transient_wait_limit = _bounded(
        "transient_wait_limit",
        3_600,
        "The longest wait in seconds that a MinRetrySecs or Retry-After can ask for.",
    )
    early_warning = _bounded(
        "early_warning",
        0,
        "The retry at which the sending application is notified that its message is late, and"
        " operators too if retries remain. 0: the application is not notified; operators are,"
        " after half of the retries.",
    )
    on_unexpected_first = models.CharField(
        "unexpected number 1",
        max_length=6,
        choices=[(o.value, o.value) for o in OnUnexpectedFirst],
        default=OnUnexpectedFirst.ACCEPT.value,
        help_text="If SequenceNumber 1 arrives after higher numbers: accept it as a reset of the"
        " partner, hold it until an operator allows it, or refuse it.",
    )
    has_channels = models.BooleanField(default=False, db_default=False, editable=False)
    """Written by the database only, with every change of its channels: so that these are not asked
    for where there are none, and that no copy of the agreement is valid longer than they are."""

    ends = models.DateTimeField(
        null=True,
        blank=True,
        help_text="End of the TPA or CPA: from then on applications can submit no messages. What"
        " was submitted before is sent, and messages of the partner are accepted. Operators are"
        " called 30 days before. Empty: it does not end.",
    )

    class Meta:
        ordering = ["partner", "tpa_id"]
        constraints = [
            models.UniqueConstraint(
                fields=["partner", "tpa_id"],
                name="agreement_once",
                violation_error_message="This partner has another agreement with this TPAId.",
            ),
            models.UniqueConstraint(
                fields=["tpa_id", "their_party", "our_party"],
                condition=Q(dialect="ebms2"),  # a message without credential is known by them alone
                name="agreement_ebms2_once",
                violation_error_message="There is another ebMS 2.0 agreement with this CPAId and"
                " these parties.",
            ),
            *(
                models.CheckConstraint(
                    condition=Q((f"{field}__gte", smallest), (f"{field}__lte", largest)),
                    name=f"agreement_{field}",
                )
                for field, (smallest, largest) in (BOUNDS | ebms2.BOUNDS).items()
            ),
        ]

    def __str__(self) -> str:
        return self.tpa_id

    @property
    def settings(self) -> Settings:
        """The settings that agreements of its dialect have."""
        return settings_of(self.dialect)

    def has_ended(self, now: datetime) -> bool:
        return self.ends is not None and self.ends <= now

    known: "Iterable[Agreement] | None" = None
    """The others of its partner, if who checks it has read them."""
    listed: "Iterable[Fitting] | None" = None
    """Its channels, if who checks it has read them, or is about to change them."""

    def follow(self) -> bool:
        """Set the timeout for a dialect that has none, because queries for all dialects read it.
        True if it was set."""
        if self.settings.has("timeout"):
            return False
        self.timeout = self.retry_interval
        return True

    def save(self, *args: Any, **kwargs: Any) -> None:
        if self.follow() and (fields := kwargs.get("update_fields")) is not None:
            kwargs["update_fields"] = {*fields, "timeout"}
        super().save(*args, **kwargs)

    def clean(self) -> None:
        """Refuses what the dialect does not have, and terms under which MessageIds would be kept
        for longer than anything is."""
        self._refuse_other_dialect()
        self._refuse_foreign_settings()
        self.refuse_impossible_terms()
        self._refuse_channels_that_do_not_fit()

    @property
    def signs(self) -> bool:
        """Whether anything that is sent under it is signed."""
        return bool(self.signature_methods)

    @property
    def signature_methods(self) -> set[str]:
        """Those by which we sign anything that is sent under it."""
        channels = self.channels.all() if self.has_channels else ()
        agreed = (self, *(one.agreed for one in channels))
        return {one.signature_method for one in agreed if one.signed or one.ack_signed}

    @property
    def encrypts(self) -> bool:
        """Whether the payloads of any of its messages are encrypted."""
        return self._has_any("encrypted")

    def _has_any(self, *terms: str) -> bool:
        """Itself, or for a channel."""
        channels = self.channels.all() if self.has_channels else ()
        return any(getattr(one, term) for one in (self, *channels) for term in terms)

    def address_of(self, service: str, action: str) -> str:
        """Where the channel of what we send leads; "": where the partner is."""
        if not self.has_channels:
            return ""
        found = self.channels.filter(direction="out", service=service, action=action).first()
        return found.address or "" if found else ""

    @property
    def has_order(self) -> bool:
        """Whether any of its messages are in the order of their conversation."""
        return self._has_any("ordered")

    def refuse_impossible_terms(self) -> None:
        """Refuses terms that cannot be combined."""
        self._refuse_unasked_acknowledgements()
        self.refuse_impossible_receipt()
        if self._has_terms():
            self.refuse_short_persist_duration(self.retries, self.retry_interval)
        if self._has_terms() and (why := self.kept_too_short()):
            raise ValidationError(f"{why}, or shorten {', '.join(_HORIZON)}.", code="horizon")

    def refuse_impossible_receipt(self) -> None:
        """Refuses those of `refuse_impossible_terms` that are about what the partner sends, too."""
        self.refuse_what_cannot_be_verified()
        self.refuse_what_cannot_be_signed()
        self.refuse_what_cannot_be_encrypted()
        if self.ordered:
            self.refuse_what_order_forbids()

    def _refuse_channels_that_do_not_fit(self) -> None:
        channels: Iterable[Fitting] | None = self.listed
        if channels is None:
            channels = self.channels.all() if self.has_channels else ()
        seen = set()
        for channel in channels:
            channel.agreement = self
            if channel.key in seen:
                raise ValidationError(
                    f"Channel {channel}: there would be two of this Service type."
                )
            seen.add(channel.key)
            try:
                channel.refuse_impossible_terms()
            except ValidationError as problem:
                raise ValidationError(f"Channel {channel}: {problem.messages[0]}") from None

    def _refuse_other_dialect(self) -> None:
        stored = Agreement.objects.filter(pk=self.pk).values_list("dialect", flat=True)
        before = None if self._state.adding else stored.first()
        if before not in (None, self.dialect):
            raise ValidationError(
                {"dialect": f"Cannot be changed from {before}: add another agreement."}
            )
        known = self.known
        if known is None:
            known = Agreement.objects.filter(partner=self.partner_id).exclude(pk=self.pk)
        if other := next((one for one in known if one.dialect != self.dialect), None):
            raise ValidationError(
                {
                    "dialect": f"Agreement {other} with this partner has dialect {other.dialect}:"
                    f" add another partner for {self.dialect}."
                }
            )

    def _refuse_foreign_settings(self) -> None:
        names = {field: name for name, field in self.settings.names.items()}
        wrong = {}
        for field in self._meta.fields:
            value, name = getattr(self, field.attname), field.name
            if name in _EVERY or value == field.get_default():
                continue
            if name not in names and not self._follows(name):
                wrong[name] = f"An agreement of dialect {self.dialect} has no {name}."
        if wrong:
            raise ValidationError(wrong)

    def _follows(self, name: str) -> bool:
        """Whether it has the value that `save` gives it."""
        return name == "timeout" and self.timeout == self._saved_retry_interval()

    def _saved_retry_interval(self) -> int:
        if self._state.adding:
            return self.retry_interval
        stored = Agreement.objects.filter(pk=self.pk).values_list("retry_interval", flat=True)
        return stored.first() or self.retry_interval

    def _refuse_unasked_acknowledgements(self) -> None:
        """An Acknowledgment is asked for if and only if the message is reliable."""
        wanted = {
            Presence.ALWAYS.value: DeliverySemantics.ONCE_AND_ONLY_ONCE,
            Presence.NEVER.value: DeliverySemantics.BEST_EFFORT,
        }.get(self.ack)
        if wanted not in (None, self.semantics):
            raise ValidationError({"ack": f"{self.ack} needs semantics {wanted}."})

    def _has_terms(self) -> bool:
        """A field that was refused may hold anything."""
        values = [getattr(self, name) for name in _HORIZON]
        return all(isinstance(value, int) for value in values)

    def ids_kept(self) -> timedelta:
        """How long MessageIds under this agreement are kept at least: its waits, those it grants
        included, HORIZONS times, or its PersistDuration if that is longer (EB-102)."""
        terms = self.terms()
        waits = HORIZONS * timedelta(seconds=terms.retry_horizon + terms.transient_time_limit)
        return max(waits, timedelta(seconds=self.persist_duration))

    def kept_too_short(self) -> str:
        """Why MSH_KEEP_MESSAGES is too short for it, and to what to set it; empty if it is not."""
        configured, needed = timedelta(days=settings.MSH_KEEP_MESSAGES), self.ids_kept()
        if needed <= configured:
            return ""
        days = -(-needed // timedelta(days=1))
        return (
            f"MSH_KEEP_MESSAGES is {configured.days} days, but MessageIds under agreement {self}"
            f" must be kept for {days}, {HORIZONS} times as long as duplicates may arrive: set"
            f" MSH_KEEP_MESSAGES to {days} or more"
        )

    def terms(self) -> Terms:
        """The values that the tables need."""
        return self.settings.terms(self)


_EVERY = ("id", "partner", "dialect", "tpa_id", "our_party", "their_party", "has_channels")
