"""What a CPA 2.0 says of two parties (EB-195 to EB-201). Read by `msh.wire.cpa`."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from .message import PartyId

AGREED = ("agreed", "signed")
"""The values of Status of a CPA under which messages may be sent."""


@dataclass(frozen=True, slots=True)
class Signing:
    """By which messages are signed. `certificate` is in PEM; empty if the CPA has only a name."""

    method: str
    digest: str
    certificate: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Encryption:
    """`certificate`, in PEM, is that of the receiver; empty if the CPA has only a name."""

    method: str
    certificate: str = field(repr=False)


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
    """`signals_out` and `signals_in`: the channels of what has none of its own (EB-201);
    `overrides`: of signals that we send by another one, by Action. `notes`: what of the CPA cannot
    be done here, in sentences (EB-198)."""

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
    overrides: Mapping[str, Channel] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


class NotOne(ValueError):
    """It cannot be told which party of a CPA is us. Its text names both."""


def who_is_us(
    parties: tuple[CpaParty, CpaParty], ours: Collection[PartyId], we: str = ""
) -> CpaParty:
    """The party with the PartyId `we`, or else one of `ours`, where a blank type is any (EB-196).
    Raises NotOne."""
    if we:
        found = [one for one in parties if any(each.value == we for each in one.party_ids)]
        why = f"PartyId {we} is of"
    else:
        found = [one for one in parties if any(_is_one_of(each, ours) for each in one.party_ids)]
        why = "our agreements have PartyIds of"
    if len(found) == 1:
        return found[0]
    first, second = (f"{one.name} ({one.party_ids[0].value})" for one in parties)
    of = f"both {first} and {second}" if found else f"neither {first} nor {second}"
    raise NotOne(f"Which party is us? {why} {of}: name a PartyId of ours.")


def _is_one_of(party_id: PartyId, ours: Collection[PartyId]) -> bool:
    return any(one.value == party_id.value and one.type in ("", party_id.type) for one in ours)


def why_not_in_force(cpa: Cpa, now: datetime, *, not_yet: bool = False) -> str:
    """Why messages may not be sent under it, as a sentence; empty if they may. `not_yet`: it may
    still be proposed, or begin later (EB-197)."""
    if cpa.status not in AGREED and not not_yet:
        return f"Its Status is {cpa.status}: only {' or '.join(AGREED)} may be used."
    if cpa.start > now and not not_yet:
        return f"It begins on {cpa.start:%Y-%m-%d}."
    if cpa.end <= now:
        return f"It has ended on {cpa.end:%Y-%m-%d}."
    return ""


def channels(cpa: Cpa) -> Iterator[Channel]:
    yield from (cpa.signals_out, cpa.signals_in, *cpa.overrides.values())
    for action in cpa.actions:
        yield action.channel
