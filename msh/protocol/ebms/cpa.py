"""What a CPA 2.0 says of two parties (EB-195 to EB-201). Read by `msh.wire.cpa`."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime

from .message import PartyId

AGREED = ("agreed", "signed")
"""The values of Status of a CPA under which messages may be sent."""


@dataclass(frozen=True, slots=True)
class Signing:
    """By which messages are signed. `certificate` is in DER; empty if the CPA has only a name."""

    method: str
    digest: str
    certificate: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Encryption:
    """`certificate`, in DER, is that of the receiver."""

    method: str
    certificate: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Channel:
    """How messages go one way: what their sender promises, and where their receiver takes them.
    Times in seconds; None where the CPA does not say."""

    ack: str
    ack_signed: str
    eliminates: str
    ack_actor: str
    sync_reply: str
    address: str
    error_address: str
    retries: int | None = None
    retry_interval: int | None = None
    ordered: bool = False
    persist_duration: int | None = None
    signing: Signing | None = None
    encryption: Encryption | None = None


@dataclass(frozen=True, slots=True)
class Action:
    """A message that one party may send the other. `is_ours`: we send it."""

    is_ours: bool
    service: str
    service_type: str
    action: str
    from_role: str
    to_role: str
    channel: Channel


@dataclass(frozen=True, slots=True)
class CpaParty:
    name: str
    party_ids: tuple[PartyId, ...]


@dataclass(frozen=True, slots=True)
class Cpa:
    """`signals_out` and `signals_in`: the channels of what has none of its own (EB-201). `notes`:
    what of the CPA cannot be done here, in sentences (EB-198)."""

    cpa_id: str
    version: str
    status: str
    start: datetime
    end: datetime
    ours: CpaParty
    theirs: CpaParty
    actions: tuple[Action, ...]
    signals_out: Channel
    signals_in: Channel
    notes: tuple[str, ...] = ()


def why_not_in_force(cpa: Cpa, now: datetime, *, not_yet: bool = False) -> str:
    """Why messages may not be sent under it, as a sentence; empty if they may. `not_yet`: it may
    begin later (EB-197)."""
    if cpa.status not in AGREED:
        return f"Its Status is {cpa.status}: only {' or '.join(AGREED)} may be used."
    if cpa.start > now and not not_yet:
        return f"It begins on {cpa.start:%Y-%m-%d}."
    if cpa.end <= now:
        return f"It has ended on {cpa.end:%Y-%m-%d}."
    return ""


def channels(cpa: Cpa) -> Iterator[Channel]:
    yield from (cpa.signals_out, cpa.signals_in)
    for action in cpa.actions:
        yield action.channel
