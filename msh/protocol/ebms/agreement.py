"""The terms of an ebMS 2.0 agreement for messages that we receive, and the breaches of them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from .channel import Channel, channel_of, not_listed, types_listed
from .message import Defect, Error, Message, MessageHeader, Party, PartyId, Service
from .signature import USUAL
from .vocabulary import SERVICE, ErrorCode, Kind, Stage

ALWAYS, NEVER = "always", "never"
NO_SYNC, ANY_SYNC = "none", ""
_SYNC_REPLY = {NO_SYNC: NEVER, ANY_SYNC: "perMessage"}
_SIGNALS_ON_CONNECTION = ("mshSignalsOnly", "signalsOnly", "signalsAndResponse")
WITH_RESPONSE = ("responseOnly", "signalsAndResponse")
"""The partner may answer by a message of a business."""

_HEADER = "/SOAP:Envelope/SOAP:Header"
_MESSAGE_HEADER = f"{_HEADER}/eb:MessageHeader"


@dataclass(frozen=True, slots=True)
class Agreed:
    """A party without type is the agreement's whatever its type is (EB-030).

    `ack` and `eliminates` say whether AckRequested and DuplicateElimination are always there,
    never, or as each message wants. `lenient` has the rows that are only noted. `sync_reply` is
    the syncReplyMode, ANY_SYNC where nothing is asked of SyncReply. `refuses_status`: the partner
    may not ask what has become of its messages. `ordered`: they have MessageOrder. `horizon`:
    seconds for which copies of one may come. `checks_ref_to`: a message may refer only to one that
    we know (EB-039). `service_type`: "" takes any (EB-034). `clock_tolerance`: seconds for which
    a message is taken after its TimeToLive (EB-040).

    `signed`: messages of a business are signed (EB-175). `ack_signed`: so are Acknowledgments, ours
    by `signature_method`; `can_sign` says whether we have a key for it (EB-099). `certificates`
    are those of the partner, in PEM. `allow_sha1`, `keep_expired`: signatures with SHA-1 are
    taken, and those of a certificate that has run out (EB-169, EB-172). `encrypted`: payloads are
    encrypted for us, `allow_rsa_1_5`: their keys may be by RSA 1.5 (EB-185).

    `channels` are those of what the partner sends, `signals` those of our signals (EB-201).
    `ack_differs`: the Acknowledgments of some Actions are signed, and those of others are not.
    """

    cpa_id: str
    our_party: PartyId
    their_party: PartyId
    our_role: str = ""
    their_role: str = ""
    ack: str = "perMessage"
    eliminates: str = "perMessage"
    lenient: frozenset[str] = frozenset()
    sync_reply: str = NO_SYNC
    refuses_status: bool = False
    ordered: bool = False
    horizon: int = 0
    checks_ref_to: bool = False
    service_type: str = ""
    clock_tolerance: int = 0
    signed: bool = False
    ack_signed: bool = False
    signature_method: str = USUAL
    can_sign: bool = False
    certificates: tuple[str, ...] = ()
    allow_sha1: bool = False
    keep_expired: bool = False
    encrypted: bool = False
    allow_rsa_1_5: bool = False
    channels: tuple[Channel, ...] = ()
    signals: tuple[Channel, ...] = ()
    ack_differs: bool = False

    @property
    def ours(self) -> Party:
        return Party((self.our_party,), self.our_role)

    @property
    def theirs(self) -> Party:
        return Party((self.their_party,), self.their_role)


def under(agreed: Agreed, header: MessageHeader) -> Agreed:
    """What was agreed on for a message with this Service and Action: its channel's, and otherwise
    the agreement's. Whether it is answered by a signed Acknowledgment, the channel of these says,
    if it says so."""
    channel = channel_of(agreed.channels, header.service, header.action, agreed.service_type)
    terms = {**channel.terms} if channel else {}
    of_ack = _of_signal(agreed, Kind.ACKNOWLEDGMENT)
    if "signed" in of_ack:
        terms["ack_signed"] = of_ack["signed"]
    return replace(agreed, **terms) if terms else agreed


def _of_signal(agreed: Agreed, kind: Kind) -> Mapping[str, Any]:
    channel = channel_of(agreed.signals, Service(SERVICE), str(kind))
    return channel.terms if channel else {}


def parties_of(agreed: Agreed, kind: Kind) -> tuple[Party, Party]:
    """From and To of a signal of ours: with the Roles of its channel, if it has any."""
    roles = {name: _of_signal(agreed, kind).get(name) for name in ("our_role", "their_role")}
    found = replace(agreed, **{name: role for name, role in roles.items() if role is not None})
    return found.ours, found.theirs


def signs_errors(agreed: Agreed) -> bool:
    """Whether our MessageErrors are signed: whenever they can be, unless their channel says no."""
    return agreed.can_sign and bool(_of_signal(agreed, Kind.MESSAGE_ERROR).get("signed", True))


def answers_on_connection(agreed: Agreed, message: Message) -> bool:
    """Whether Acknowledgment or MessageError is the HTTP answer to this message (EB-073)."""
    return message.sync_reply and agreed.sync_reply in _SIGNALS_ON_CONNECTION


def names(party: Party, wanted: PartyId) -> bool:
    """Whether one of the party's ids is the one that was agreed on (EB-029)."""
    return any(
        one.value == wanted.value and wanted.type in ("", one.type) for one in party.party_ids
    )


def is_between(agreed: Agreed, from_party: Party, to_party: Party) -> bool:
    return names(from_party, agreed.their_party) and names(to_party, agreed.our_party)


def wrong_parties(agreed: Agreed, from_party: Party, to_party: Party) -> tuple[Error, ...]:
    """The agreement was found by its CPAId, and is not between these two (EB-105)."""
    pairs = (("From", from_party, agreed.their_party), ("To", to_party, agreed.our_party))
    return tuple(
        Error(
            ErrorCode.VALUE_NOT_RECOGNIZED,
            location=f"{_MESSAGE_HEADER}/eb:{place}/eb:PartyId",
            description=f"{place} is not the party of agreement {agreed.cpa_id}",
        )
        for place, party, wanted in pairs
        if not names(party, wanted)
    )


def tolerated(defects: tuple[Defect, ...], agreed: Agreed) -> tuple[Defect, ...]:
    """Return the defects without those that the agreement tolerates: the missing type of a PartyId,
    where the agreement has none either."""
    if not defects:
        return ()
    untyped = [
        place
        for place, party in (
            (f"{_MESSAGE_HEADER}/eb:From/", agreed.their_party),
            (f"{_HEADER}/eb:Acknowledgment/eb:From[", agreed.their_party),
            (f"{_MESSAGE_HEADER}/eb:To/", agreed.our_party),
        )
        if not party.type
    ]
    return tuple(
        one
        for one in defects
        if not (one.rule == "EB-030" and one.error.location.startswith(tuple(untyped)))
    )


def breaches(message: Message, agreed: Agreed) -> Iterator[Defect]:
    """Yield the breaches of the agreement by a business message (EB-031, EB-043, EB-201)."""
    header = message.header
    unlisted = not_listed(agreed.channels, header.service.value, header.action)
    if unlisted is not None:
        location = f"{_MESSAGE_HEADER}/eb:{unlisted.part}"
        text = f"{location} is none of those that agreement {agreed.cpa_id} lists"
        error = Error(ErrorCode.VALUE_NOT_RECOGNIZED, location=location, description=text)
        yield Defect("EB-201", Stage.HEADER, error)
        return
    yield from _role("From", header.from_party, agreed.their_role)
    yield from _role("To", header.to_party, agreed.our_role)
    types = types_listed(agreed.channels, header.service.value, header.action)
    types = types or (agreed.service_type,)
    if "" not in types and header.service.type not in types:
        location = f"{_MESSAGE_HEADER}/eb:Service"
        text = f"{location} must be of type {' or '.join(types)}"
        error = Error(ErrorCode.VALUE_NOT_RECOGNIZED, location=location, description=text)
        yield Defect("EB-034", Stage.HEADER, error, waivable=True)
    yield from _presence(
        f"{_MESSAGE_HEADER}/eb:DuplicateElimination",
        agreed.eliminates,
        there=header.eliminates_duplicates,
    )
    yield from _presence(
        f"{_HEADER}/eb:AckRequested", agreed.ack, there=bool(message.ack_requested)
    )
    yield from _presence(
        f"{_HEADER}/eb:SyncReply",
        _SYNC_REPLY.get(agreed.sync_reply, ALWAYS),
        there=message.sync_reply,
    )


def _role(place: str, party: Party, agreed: str) -> Iterator[Defect]:
    if not agreed or party.role == agreed:
        return
    location = f"{_MESSAGE_HEADER}/eb:{place}/eb:Role"
    code = ErrorCode.VALUE_NOT_RECOGNIZED if party.role else ErrorCode.INCONSISTENT
    text = f"{location} must be {agreed}"
    yield Defect("EB-031", Stage.HEADER, Error(code, location=location, description=text))


def _presence(location: str, agreed: str, *, there: bool) -> Iterator[Defect]:
    if agreed == (NEVER if there else ALWAYS):
        present = "present" if there else "missing"
        yield _inconsistent(location, f"is {present}, but the agreement says {agreed}")


def _inconsistent(location: str, sentence: str) -> Defect:
    text = f"{location} {sentence}"
    error = Error(ErrorCode.INCONSISTENT, location=location, description=text)
    return Defect("EB-043", Stage.HEADER, error, waivable=True)
