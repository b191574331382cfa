"""The dialects that partners speak, and which settings an agreement of each has."""

import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol
from uuid import NAMESPACE_URL, UUID, uuid5

from django.db import models

from msh.protocol.agreement import Terms
from msh.protocol.ebms.message import is_uri
from msh.protocol.ebms.vocabulary import SERVICE
from msh.protocol.flight.value import FlightTerms
from msh.protocol.uri import host_of
from msh.protocol.vocabulary import DeliverySemantics


class OurSide(Protocol):
    """The partner, as far as a MessageId needs it."""

    @property
    def our_uri_or_default(self) -> str: ...


class Agreed(Protocol):
    """What a dialect reads of an agreement: fields of `Agreement`, which says what each is."""

    timeout: int
    retries: int
    retry_interval: int
    transient_count_limit: int
    transient_time_limit: int
    transient_wait_limit: int
    early_warning: int
    time_to_live: int
    persist_duration: int
    ack: str

    @property
    def partner(self) -> OurSide: ...


class Dialect(models.TextChoices):
    TRP = "trp", "ebXML TRP"
    EBMS2 = "ebms2", "OASIS ebMS 2.0"


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of agreements of one dialect. `names`: what documents call a setting → the field
    of Agreement. `flies`: each reliable message has a flight of its own, none has a number.
    `message_id` makes a MessageId, `conversation_id` the ConversationId of one that begins a
    conversation. `why_not` says why a message with this Service, its type and these semantics
    cannot be submitted: the name of what is wrong and a sentence, or None. `has_ping`: the
    partner's MSH can be asked whether it is there, and for the status of a message."""

    names: Mapping[str, str]
    terms: Callable[[Agreed], Terms]
    flies: bool
    message_id: Callable[[Agreed], str]
    conversation_id: Callable[[str], str]
    why_not: Callable[[Agreed, tuple[str, str], str], tuple[str, str] | None]

    has_ping: bool = False

    def has(self, field: str) -> bool:
        return field in self.names.values()


def settings_of(dialect: str) -> Settings:
    """Return the settings of a dialect; of an unknown one those of the default, because the field
    itself is refused."""
    return _SETTINGS.get(dialect, _SETTINGS[Dialect.TRP])


def dialect_with(name: str) -> str:
    """The dialect whose agreements have the setting that documents call `name`; "" if all have."""
    owners = [dialect for dialect, settings in _SETTINGS.items() if name in settings.names]
    return owners[0] if len(owners) == 1 else ""


def _terms(agreement: Agreed) -> Terms:
    return Terms(
        timeout=agreement.timeout,
        retries=agreement.retries,
        retry_interval=agreement.retry_interval,
        transient_count_limit=agreement.transient_count_limit,
        transient_time_limit=agreement.transient_time_limit,
        transient_wait_limit=agreement.transient_wait_limit,
        early_warning=agreement.early_warning,
    )


def _flight_terms(agreement: Agreed) -> FlightTerms:
    return FlightTerms(
        timeout=agreement.retry_interval,
        retries=agreement.retries,
        retry_interval=agreement.retry_interval,
        transient_wait_limit=agreement.transient_wait_limit,
        early_warning=agreement.early_warning,
        time_to_live=agreement.time_to_live,
        persist_duration=agreement.persist_duration,
    )


def _new_uuid() -> UUID:
    """Return a UUID of version 7 (RFC 9562): 48 bits are milliseconds, 74 are random. New ids are
    the last in each index, ours and the partner's, where a random position costs more the more is
    stored. No library for three lines: nothing needs the order within a millisecond that one would
    add."""
    milliseconds = time.time_ns() // 1_000_000
    high = milliseconds << 16 | 7 << 12 | secrets.randbits(12)
    return UUID(int=high << 64 | 0b10 << 62 | secrets.randbits(62))


def _uuid(agreement: Agreed) -> str:
    return str(_new_uuid())


def _uuid_of(message_id: str) -> str:
    """EB-033. The same for the same MessageId: a submission that is repeated is the same one."""
    return str(uuid5(NAMESPACE_URL, f"mid:{message_id}"))


def _uuid_at_host(agreement: Agreed) -> str:
    """EB-036."""
    host = host_of(agreement.partner.our_uri_or_default) or "msh"
    return f"{_new_uuid()}@{host}"


def _anything(
    agreement: Agreed, typed_service: tuple[str, str], semantics: str
) -> tuple[str, str] | None:
    return None


def _why_not_ebms2(
    agreement: Agreed, typed_service: tuple[str, str], semantics: str
) -> tuple[str, str] | None:
    service, service_type = typed_service
    if service == SERVICE:  # EB-035
        return "service_interface", f"service_interface {service!r} is reserved for the MSHs"
    if any(character.isspace() for character in service):  # EB-034
        return "service_interface", f"service_interface {service!r} has white space"
    if not (service_type or is_uri(service)):  # EB-034
        why = f"agreement {agreement} has no service_type, so it must be a URI"
        return "service_interface", f"service_interface {service!r}: {why}"
    wanted = _WITH_ACK.get(agreement.ack, semantics)
    if semantics != wanted:  # EB-081
        why = f"agreement {agreement} has ack {agreement.ack}, which needs {wanted}"
        return "semantics", f"semantics {semantics}: {why}"
    return None


_WITH_ACK = {
    "always": DeliverySemantics.ONCE_AND_ONLY_ONCE,
    "never": DeliverySemantics.BEST_EFFORT,
}
"""The semantics of messages that ask for an Acknowledgment, and of those that do not."""


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
    "ends",
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
        flies=False,
        message_id=_uuid,
        conversation_id=str,
        why_not=_anything,
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
            "soap_action",
            "refuses_status",
            "ack",
            "ack_actor",
            "eliminates",
            "on_failure",
            "lenient",
            "retryable_codes",
            "check_ref_to",
            "clock_tolerance",
            "signed",
            "ack_signed",
            "signature_method",
            "certificate",
            "allow_sha1",
            "keep_expired",
            "encrypted",
            "encryption_method",
            "encryption_certificate",
            "allow_rsa_1_5",
        ),
        terms=_flight_terms,
        flies=True,
        message_id=_uuid_at_host,
        conversation_id=_uuid_of,
        why_not=_why_not_ebms2,
        has_ping=True,
    ),
}
