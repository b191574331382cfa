"""Rows of flights and of the gates of their partners: what statements give and take."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from msh.store.partner_columns import RouteColumns


@dataclass(frozen=True, slots=True)
class HeldGate:
    """A link that this transaction has locked."""

    id: int
    partner_id: int


@dataclass(frozen=True, slots=True)
class FoundFlight:
    """A flight that this transaction has locked, and the id of its link if it holds that too."""

    id: int
    gate: int | None


@dataclass(frozen=True, slots=True)
class LastFailure:
    """How the last attempt of a message failed: in words, and as a Reason."""

    detail: str
    reason: str


@dataclass(frozen=True, slots=True)
class GateRow:
    """`under_way`: how many flights have a place. `window`: of its agreements the smallest.
    `in_order`: messages wait for their turn in a conversation, and one may start.
    `retry_interval` is the shortest of them, in seconds. `in_maintenance`: it is suspended, and a
    maintenance window runs. `expiring` of those under way have a TimeToLive: when the first and the
    last of these end."""

    link_id: int
    partner_id: int
    state: str
    failures: int
    failing_since: datetime | None
    probe_due: datetime | None
    probed_at: datetime | None
    refusals: int
    refused_for: str
    refused_message: str
    suspended_for: str
    suspended_since: datetime | None
    suspended_detail: str
    suspended_reason: str
    probe_interval: int
    never_probe: bool
    retry_interval: int
    in_maintenance: bool
    under_way: int
    expiring: int
    first_expiry: datetime | None
    last_expiry: datetime | None
    window: int
    in_order: bool
    now: datetime


@dataclass(frozen=True, slots=True)
class FlightRow:
    """`terms` are those of the message once it is composed, else None: then those of its agreement
    hold, the columns after it. A message without a flight has its own `state`. `ordered_in_id` is
    its conversation if it is sent in order, None for a new one that no worker has seen."""

    id: int
    partner_id: int
    message_id: str
    size: int
    message_state: str
    terms: Any
    first_sent_at: datetime | None
    order_number: int | None
    retries: int
    retry_interval: int
    transient_wait_limit: int
    early_warning: int
    time_to_live: int
    persist_duration: int
    on_failure: str
    state: str | None
    attempt: int | None
    copies: int | None
    under_way: bool | None
    carried: bool | None
    reached: bool | None
    unreached: int | None
    unsent: int | None
    due: datetime | None
    expires_at: datetime | None
    persists_until: datetime | None
    held_for: str | None
    waits_turn: bool
    ordered_in_id: int | None
    last_attempt: int | None
    now: datetime


@dataclass(frozen=True, slots=True)
class Candidate:
    key: int
    message_id: str
    partner_id: int


@dataclass(frozen=True, kw_only=True)
class FlightState:
    """What `WRITE` stores."""

    key: int
    state: str
    attempt: int
    copies: int
    under_way: bool
    carried: bool
    reached: bool
    unreached: int
    unsent: int
    due: datetime | None
    expires_at: datetime | None
    persists_until: datetime | None
    ends_at: datetime | None
    held_for: str
    number: int | None
    ordered_in_id: int | None


@dataclass(frozen=True, kw_only=True)
class GateState:
    """What `WRITE_GATE` stores."""

    link_id: int
    suspended: bool
    failures: int
    failing_since: datetime | None
    probe_due: datetime | None
    probed_at: datetime | None
    refusals: int
    refused_for: str
    refused_message: str
    suspended_for: str
    suspended_since: datetime | None
    suspended_detail: str
    suspended_reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FlyingCopy(RouteColumns):
    """A message as far as a copy of it needs it. `head` is None until the first is composed;
    `channel_address` too, if its channel has none of its own. `sealed` has the parts of an
    encrypted one in place of `wires`."""

    id: int
    message_id: str
    semantics: str
    conversation_id: str
    service_interface: str
    action: str
    ref_to_message_id: str
    boundary: str
    head: bytes | None
    body_sha256: bytes | None
    agreement_id: int
    dialect: str
    tpa_id: str
    our_party: str
    our_party_context: str
    our_role: str
    their_party: str
    their_party_context: str
    their_role: str
    service_type: str
    ack: str
    ack_actor: str
    ack_signed: bool
    signed: bool
    signature_method: str
    eliminates: str
    sync_reply: str
    soap_action: str
    channel_address: str | None
    encrypted: bool
    encryption_method: str
    encryption_certificate: str
    wires: Sequence[bytes] | None
    sealed: Sequence[bytes] | None
    content_ids: Sequence[str] | None
    content_types: Sequence[str] | None
    labels: Sequence[str] | None
    descriptions: Sequence[str] | None


@dataclass(frozen=True, slots=True)
class ClockAndFlights:
    now: datetime
    has_flights: bool
