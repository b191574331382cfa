"""The dialects that partners speak, and which settings an agreement of each has."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.db import models

from msh.protocol.agreement import Terms
from msh.protocol.flight.value import FlightTerms

if TYPE_CHECKING:
    from .agreement import Agreement


class Dialect(models.TextChoices):
    TRP = "trp", "ebXML TRP"
    EBMS2 = "ebms2", "OASIS ebMS 2.0"


@dataclass(frozen=True, slots=True)
class Settings:
    """What agreements of one dialect have. `names`: what documents call a setting → the field of
    Agreement. `not_yet`: settings that have no effect yet, with the one value that says so.
    `refusal`: why nothing can be sent under such an agreement; empty if it can."""

    names: Mapping[str, str]
    terms: Callable[["Agreement"], Terms]
    not_yet: Mapping[str, Any]
    refusal: str = ""

    def has(self, field: str) -> bool:
        return field in self.names.values()


def settings_of(dialect: str) -> Settings:
    """Of a dialect that is none: those of the default, for the field itself is refused."""
    return _SETTINGS.get(dialect, _SETTINGS[Dialect.TRP])


def dialect_with(name: str) -> str:
    """The dialect whose agreements have the setting that documents call `name`; "" if all have."""
    owners = [dialect for dialect, settings in _SETTINGS.items() if name in settings.names]
    return owners[0] if len(owners) == 1 else ""


def _terms(agreement: "Agreement") -> Terms:
    return Terms(
        timeout=agreement.timeout,
        retries=agreement.retries,
        retry_interval=agreement.retry_interval,
        transient_count_limit=agreement.transient_count_limit,
        transient_time_limit=agreement.transient_time_limit,
        transient_wait_limit=agreement.transient_wait_limit,
        early_warning=agreement.early_warning,
    )


def _flight_terms(agreement: "Agreement") -> FlightTerms:
    return FlightTerms(
        timeout=agreement.retry_interval,
        retries=agreement.retries,
        retry_interval=agreement.retry_interval,
        transient_wait_limit=agreement.transient_wait_limit,
        early_warning=agreement.early_warning,
        time_to_live=agreement.time_to_live,
        persist_duration=agreement.persist_duration,
    )


def _same(*names: str) -> dict[str, str]:
    return {name: name for name in names}


_BOTH = _same(
    "dialect",
    "tpa_id",
    "our_party",
    "their_party",
    "retries",
    "retry_interval",
    "semantics",
    "transient_wait_limit",
    "early_warning",
)
_SETTINGS: dict[str, Settings] = {
    Dialect.TRP: Settings(
        names=_BOTH
        | _same(
            "our_party_context",
            "their_party_context",
            "timeout",
            "transient_count_limit",
            "transient_time_limit",
            "on_unexpected_first",
        ),
        terms=_terms,
        not_yet={},
    ),
    Dialect.EBMS2: Settings(
        names=_BOTH
        | {"our_party_type": "our_party_context", "their_party_type": "their_party_context"}
        | _same(
            "our_role",
            "their_role",
            "service_type",
            "persist_duration",
            "time_to_live",
            "ordered",
            "window",
            "sync_reply",
            "ack",
            "eliminates",
            "on_failure",
            "lenient",
            "check_ref_to",
        ),
        terms=_flight_terms,
        not_yet={"ordered": False, "sync_reply": "none", "check_ref_to": False},
        refusal="its dialect is ebms2, in which nothing can be sent yet",
    ),
}
