"""What an agreement of ebMS 2.0 has for one Service, by its type, and Action, in one direction
(EB-201)."""

from copy import copy
from typing import Any

from django.core.exceptions import NON_FIELD_ERRORS, ValidationError
from django.db import models
from django.db.models import Q
from django.db.models.fields import NOT_PROVIDED

from msh.protocol.ebms.vocabulary import SERVICE, Kind

from . import ebms2
from .agreement import BOUNDS, Agreement
from .dialects import Dialect
from .fields import check_visible, uri_field

_LIMITS = {
    name: (BOUNDS | ebms2.BOUNDS)[name]
    for name in ("retries", "retry_interval", "time_to_live", "persist_duration")
}


_ANOTHER = "This agreement has another channel for this Service, its type and Action."


class Direction(models.TextChoices):
    OUT = "out", "we send"
    IN = "in", "the partner sends"


def _as_agreed(name: str) -> Any:
    """The field of the agreement, which may be empty: then the value of the agreement holds."""
    field: Any = Agreement._meta.get_field(name)  # noqa: SLF001  public
    _, _, arguments, options = field.deconstruct()
    options |= {"null": True, "blank": True, "default": None, "db_default": NOT_PROVIDED}
    options |= {"help_text": "", "verbose_name": field.verbose_name}
    return type(field)(*arguments, **options)


class Channel(models.Model):
    """A Service and Action that may be sent in one direction, with the terms that differ from those
    of the agreement: NULL is the agreement's value. If a direction of an agreement has channels,
    nothing else may be sent in it.

    A channel of the reserved Service is not one of these: it says how a signal goes.
    """

    agreement = models.ForeignKey(Agreement, on_delete=models.CASCADE, related_name="channels")
    direction = models.CharField(max_length=3, choices=Direction)
    service = models.CharField(max_length=255, validators=[check_visible])
    action = models.CharField(max_length=255, validators=[check_visible])
    service_type = _as_agreed("service_type")
    our_role = _as_agreed("our_role")
    their_role = _as_agreed("their_role")
    semantics = _as_agreed("semantics")
    ack = _as_agreed("ack")
    ack_actor = _as_agreed("ack_actor")
    eliminates = _as_agreed("eliminates")
    retries = _as_agreed("retries")
    retry_interval = _as_agreed("retry_interval")
    time_to_live = _as_agreed("time_to_live")
    persist_duration = _as_agreed("persist_duration")
    ordered = _as_agreed("ordered")
    sync_reply = _as_agreed("sync_reply")
    soap_action = _as_agreed("soap_action")
    signed = _as_agreed("signed")
    signature_method = _as_agreed("signature_method")
    ack_signed = _as_agreed("ack_signed")
    encrypted = _as_agreed("encrypted")
    address: Any = uri_field(
        "address",
        "Where its messages are sent. Empty: the address of the partner. Our credential is sent"
        " only to the host of that one.",
        null=True,
        blank=True,
        default=None,
    )

    class Meta:
        ordering = ["agreement", "direction", "service", "action", "service_type"]
        constraints = [
            models.UniqueConstraint(
                fields=["agreement", "direction", "service", "action", "service_type"],
                name="channel_once",
                nulls_distinct=False,
                violation_error_message=_ANOTHER,
            ),
            *(
                models.CheckConstraint(
                    condition=Q((f"{field}__gte", smallest), (f"{field}__lte", largest)),
                    name=f"channel_{field}",
                )
                for field, (smallest, largest) in _LIMITS.items()
            ),
        ]

    def __str__(self) -> str:
        typed = "" if self.service_type is None else f" ({self.service_type or 'any type'})"
        return f"{self.direction} {self.service}{typed} {self.action}"

    @property
    def agreed_type(self) -> str:
        """The type of its Service: its own or the agreement's; "" takes any."""
        of_agreement: str = self.agreement.service_type
        return of_agreement if self.service_type is None else self.service_type

    @property
    def key(self) -> tuple[str, ...]:
        """What no two channels of an agreement have in common."""
        return self.direction, self.service, self.agreed_type, self.action

    @property
    def terms(self) -> dict[str, Any]:
        """Those that differ from the agreement's."""
        return {name: value for name in TERMS if (value := getattr(self, name)) is not None}

    @property
    def agreed(self) -> Agreement:
        """The agreement as it is for messages of this channel. Not to be saved."""
        agreement = copy(self.agreement)
        for name, value in self.terms.items():
            setattr(agreement, name, value)
        return agreement

    def clean(self) -> None:
        """Refuses terms that its direction does not have, and those that cannot be combined with
        each other or with those of the agreement."""
        if not hasattr(self, "agreement"):
            return  # a form without it was refused before
        if self.agreement.dialect != Dialect.EBMS2:
            raise ValidationError(
                f"An agreement of dialect {self.agreement.dialect} has no channels."
            )
        if self.service == SERVICE:
            self._refuse_unknown_signal()
        has, whose = self._has()
        if foreign := [name for name in self._given() if name not in has]:
            raise ValidationError({name: f"{whose} has no {name}." for name in foreign})
        self.refuse_impossible_terms()
        if self.agreement.listed is None:
            self._refuse_another()
        if self.service != SERVICE and self.direction == Direction.OUT:
            self._refuse_what_cannot_be_submitted()

    def _refuse_another(self) -> None:
        """The constraint does not see that the type of one is the agreement's."""
        same = {"direction": self.direction, "service": self.service, "action": self.action}
        others = self.agreement.channels.filter(**same).exclude(pk=self.pk)
        if any(one.key == self.key for one in others):
            raise ValidationError({"service_type": _ANOTHER})

    def _refuse_unknown_signal(self) -> None:
        if not Kind.of(self.service, self.action).is_signal:
            signals = ", ".join(one for one in Kind if one.is_signal)
            raise ValidationError({"action": f"The reserved Service has {signals}."})
        if self.direction == Direction.IN:
            raise ValidationError({"direction": "Signals of the partner have no channel."})

    def _has(self) -> tuple[tuple[str, ...], str]:
        """Which terms it may have, and what it is."""
        if self.service == SERVICE:
            has = OF_SIGNAL if Kind.of(self.service, self.action).answers else OF_QUESTION
            return has, f"A channel of {self.action}"
        if self.direction == Direction.IN:
            return OF_INCOMING, "A channel of messages that the partner sends"
        return (*TERMS, "address"), ""

    def _given(self) -> list[str]:
        return [name for name in (*TERMS, "address") if getattr(self, name) is not None]

    def refuse_impossible_terms(self) -> None:
        agreed = self.agreed
        try:
            if self.direction == Direction.IN:
                agreed.refuse_impossible_receipt()
            else:
                agreed.refuse_impossible_terms()
        except ValidationError as problem:
            raise ValidationError(self._of_this(problem)) from None

    def _refuse_what_cannot_be_submitted(self) -> None:
        agreed = self.agreed
        service = (self.service, agreed.service_type)
        why = agreed.settings.why_not(agreed, service, agreed.semantics)
        if why is not None:
            raise ValidationError({"service": why[1]})

    def _of_this(self, problem: ValidationError) -> dict[str, list[str]]:
        """What is wrong, at the terms that it has of its own."""
        found: dict[str, list[str]] = {}
        has_names = hasattr(problem, "error_dict")
        errors = problem.message_dict if has_names else {NON_FIELD_ERRORS: problem.messages}
        for name, messages in errors.items():
            mine = name if name in self.terms else NON_FIELD_ERRORS
            place = "" if mine == name else f"{name}: "
            found.setdefault(mine, []).extend(f"{place}{message}" for message in messages)
        return found


TERMS = (
    *("service_type", "our_role", "their_role", "semantics", "ack", "ack_actor", "eliminates"),
    *("retries", "retry_interval", "time_to_live", "persist_duration", "ordered", "sync_reply"),
    *("soap_action", "signed", "ack_signed", "signature_method", "encrypted"),
)
"""The terms that a channel may have of its own, by the names of the agreement's."""
OF_INCOMING = (
    *("service_type", "our_role", "their_role", "ack", "eliminates", "ordered", "sync_reply"),
    *("signed", "ack_signed", "encrypted"),
)
"""Those of messages that the partner sends: what else there is, the partner decides."""
OF_QUESTION = ("our_role", "their_role", "address")
"""Those of a Ping or StatusRequest of ours, or of our answer to one."""
OF_SIGNAL = (*OF_QUESTION, "signed")
"""Those of an Acknowledgment or MessageError of ours."""
