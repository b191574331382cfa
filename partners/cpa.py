"""A CPA 2.0 as the document that `partners.setup` takes (EB-195, EB-198, EB-201)."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from django.utils.text import slugify

from msh.pem import certificates_of, described, kind_of
from msh.protocol.ebms.cpa import Action, Channel, Cpa, CpaParty, Encryption, Signing
from msh.protocol.ebms.message import PartyId
from msh.protocol.ebms.signature import ALGORITHMS, USUAL
from msh.protocol.ebms.signature import name_of as method_of
from msh.protocol.ebms.vocabulary import SERVICE, Kind
from msh.protocol.vocabulary import DeliverySemantics
from partners.models import Agreement
from partners.models import Channel as ChannelRow
from partners.models.channel import OF_INCOMING, Direction
from partners.models.dialects import Dialect
from partners.models.ebms2 import WEEK, EncryptionMethod, Presence

RETRIES, RETRY_INTERVAL = 3, 60
"""Of a CPA that wants Acknowledgments and does not say how often, or after how many seconds, a
message is sent again."""
_NAME_LIMIT = 63


@dataclass(frozen=True, slots=True)
class Known:
    """The partner that the CPA is about: where messages go, empty for a new one. `uri`: who a new
    one is."""

    name: str
    address: str = ""
    error_address: str = ""
    uri: str = ""


@dataclass(frozen=True, slots=True)
class Drafted:
    """`notes`: what of the CPA is not done, or not as it says, in sentences."""

    document: Mapping[str, Any]
    notes: tuple[str, ...]


def name_of(party: CpaParty) -> str:
    """What a partner that is not known yet is called."""
    return slugify(party.name)[:_NAME_LIMIT] or slugify(party.party_ids[0].value)[:_NAME_LIMIT]


def drafted(
    cpa: Cpa,
    partner: Known,
    we: str = "",
    certificate: str = "",
    pinned: tuple[x509.Certificate, ...] = (),
) -> Drafted:
    """The partner with the agreement and its channels. `we`: which of our PartyIds is used, the
    first one by default. `certificate`: that of the partner, in PEM, where the CPA has only its
    name. `pinned`: those of the partner that stay beside the CPA's."""
    return _Draft(cpa, partner, we, certificate, pinned).make()


class _Draft:
    def __init__(
        self,
        cpa: Cpa,
        partner: Known,
        we: str,
        certificate: str,
        pinned: tuple[x509.Certificate, ...],
    ) -> None:
        self._cpa, self._partner = cpa, partner
        self._we, self._certificate, self._pinned = we, certificate, pinned
        self._notes = list(cpa.notes)

    def make(self) -> Drafted:
        actions = self._taken()
        main = next((one for one in actions if one.is_ours), actions[0])
        own = self._terms(main)
        own |= self._of_signals(own)
        agreement = {
            "dialect": Dialect.EBMS2.value,
            "tpa_id": self._cpa.cpa_id,
            **self._parties(),
            **own,
            **self._trusted(actions),
            "ends": self._cpa.end.astimezone(UTC).isoformat(),
            "channels": [*self._channels(actions, own), *self._signals()],
        }
        if not any(one.is_ours for one in actions):
            self._notes.append("It lets us send nothing: submissions are refused.")
        document = {"partners": [{**self._partner_values(), "agreements": [agreement]}]}
        return Drafted(document, tuple(dict.fromkeys(self._notes)))

    def _taken(self) -> list[Action]:
        """What stands twice in a CPA, as for other Roles, has one channel."""
        taken: dict[tuple[bool, str, str, str], Action] = {}
        for action in self._cpa.actions:
            if taken.setdefault(_key(action), action) != action:
                what = f"Action {action.action} of Service {action.service}"
                note = f"{what} ({action.service_type}) is left out: there is another of this name."
                self._notes.append(note)
        return list(taken.values())

    def _parties(self) -> dict[str, str]:
        ours, theirs = self._cpa.ours.party_ids, self._cpa.theirs.party_ids[0]
        used = next((one for one in ours if one.value == self._we), ours[0])
        return {
            "our_party": used.value,
            "our_party_type": used.type,
            "their_party": theirs.value,
            "their_party_type": theirs.type,
        }

    def _terms(self, action: Action) -> dict[str, Any]:
        channel, ours = action.channel, action.is_ours
        roles = (action.from_role, action.to_role)
        if channel.ack_signed == Presence.PER_MESSAGE:
            self._notes.append("ackSignatureRequested perMessage: no signed ones are asked for.")
        terms = {
            "service_type": action.service_type,
            "our_role": roles[0] if ours else roles[1],
            "their_role": roles[1] if ours else roles[0],
            "ack": channel.ack,
            "eliminates": channel.eliminates,
            "ordered": channel.ordered,
            "sync_reply": channel.sync_reply,
            "signed": channel.signing is not None,
            "ack_signed": channel.ack_signed == Presence.ALWAYS,
            "encrypted": channel.encryption is not None,
        }
        if channel.ack in _SEMANTICS:
            terms["semantics"] = _SEMANTICS[channel.ack]
        if ours and channel.signing:
            terms["signature_method"] = self._method(channel.signing)
        return terms | self._of_sender(channel)

    def _method(self, signing: Signing) -> str:
        """By which we sign. The digests are of the hash that its name has."""
        found = method_of(signing.method)
        if not found:
            text = f"SignatureAlgorithm {signing.method} is not known: we sign by {USUAL}."
            self._notes.append(text)
            return USUAL
        digest = ALGORITHMS[found].digest
        if signing.digest != digest:
            self._notes.append(f"HashFunction {signing.digest}: ours is that of {found}, {digest}.")
        if ALGORITHMS[found].is_weak:
            self._notes.append(f"We sign by {found}, as it says: SHA-1 can be forged.")
        return found

    def _of_signals(self, own: Mapping[str, Any]) -> dict[str, str]:
        """Our signals are signed as messages are, by the agreement's own method."""
        signing = self._cpa.signals_out.signing
        if signing is None:
            return {}
        if "signature_method" not in own:
            return {"signature_method": self._method(signing)}
        used = own["signature_method"]
        if method_of(signing.method) != used:
            self._notes.append(f"Signals are signed by {used}, although it says {signing.method}.")
        return {}

    def _of_sender(self, channel: Channel) -> dict[str, Any]:
        if channel.ack == Presence.NEVER and channel.retries is None:
            return {}
        retries, interval = channel.retries, channel.retry_interval
        if retries is None:
            self._notes.append(f"It does not say Retries: {RETRIES} are sent.")
        if interval is None:
            self._notes.append(f"It does not say RetryInterval: {RETRY_INTERVAL} s are waited.")
        retries = RETRIES if retries is None else retries
        interval = interval or RETRY_INTERVAL
        if interval > WEEK:
            self._notes.append(f"RetryInterval {interval} s is over a week: {WEEK} s are waited.")
            interval = WEEK
        persist = channel.persist_duration or 0
        if 0 < persist <= retries * interval:  # EB-102
            longer = (retries + 1) * interval
            self._notes.append(f"PersistDuration {persist} s ends before its retries: {longer} s.")
            persist = longer
        return {
            **({"ack_actor": channel.ack_actor} if channel.ack_actor else {}),
            "retries": retries,
            "retry_interval": interval,
            "persist_duration": persist,
        }

    def _trusted(self, actions: Iterable[Action]) -> dict[str, Any]:
        """By what the partner signs, and for which key is encrypted."""
        theirs = [one.channel for one in actions if not one.is_ours]
        signing = [one.signing for one in (*theirs, self._cpa.signals_in) if one.signing]
        pems = dict.fromkeys(one.certificate for one in signing if one.certificate)
        ours = [one.channel for one in actions if one.is_ours]
        weak = any(one.method.endswith("sha1") or one.digest.endswith("sha1") for one in signing)
        if weak:
            self._notes.append("Signatures of the partner with SHA-1 are accepted: allow_sha1.")
        found: dict[str, Any] = {"allow_sha1": weak}
        if trusted := list(pems) or ([self._certificate] if self._certificate else []):
            found["certificate"] = "\n".join([*trusted, *self._staying(trusted)])
        return found | self._encryption(ours or theirs)

    def _staying(self, trusted: Iterable[str]) -> Iterator[str]:
        """Copies of what is under way have the signature of the first one (EB-178)."""
        known = "".join("".join(trusted).split())
        for one in self._pinned:
            pem = one.public_bytes(Encoding.PEM).decode().strip()
            if "".join(pem.split()) not in known:
                text = "The certificate that it had stays beside this one until you take it away"
                self._notes.append(f"{text}: {described(one)}.")
                yield pem

    def _encryption(self, channels: Iterable[Channel]) -> dict[str, Any]:
        encryption = next((one.encryption for one in channels if one.encryption), None)
        if encryption is None:
            return {}
        found: dict[str, Any] = {}
        method = encryption.method.rpartition("#")[2]
        if method in EncryptionMethod.values:
            found["encryption_method"] = method
        else:
            default = EncryptionMethod.AES_256_GCM.value
            self._notes.append(f"EncryptionAlgorithm {method} is not known: {default} is used.")
        if encryption.certificate:
            found["encryption_certificate"] = encryption.certificate
        return found

    def _channels(
        self, actions: Iterable[Action], own: Mapping[str, Any]
    ) -> Iterator[dict[str, Any]]:
        """Each with what differs from the agreement's own terms."""
        for action in actions:
            terms = self._terms(action)
            if action.is_ours:
                differs = {name: value for name, value in terms.items() if own.get(name) != value}
                differs |= self._elsewhere(action.channel)
            else:
                differs = {name: terms[name] for name in OF_INCOMING if own[name] != terms[name]}
            direction = "out" if action.is_ours else "in"
            named = {"direction": direction, "service": action.service, "action": action.action}
            yield named | differs

    def _signals(self) -> Iterator[dict[str, Any]]:
        for action, channel in self._cpa.overrides.items():
            named = {"direction": "out", "service": SERVICE, "action": action}
            if not Kind.of(SERVICE, action).is_signal:
                self._notes.append(
                    f"OverrideMshActionBinding of {action}: there is no such signal."
                )
            elif address := self._elsewhere(channel):
                yield named | address

    def _elsewhere(self, channel: Channel) -> dict[str, Any]:
        is_usual = channel.address == self._cpa.signals_out.address
        return {} if is_usual else {"address": channel.address}

    def _partner_values(self) -> dict[str, Any]:
        """Signals go where the partner is; each message where its channel says."""
        partner, signals = self._partner, self._cpa.signals_out
        values: dict[str, Any] = {"name": partner.name}
        if partner.uri:
            values["uri"] = partner.uri
        if signals.address != (partner.address or partner.uri):
            values["address"] = signals.address
        if signals.error_address and signals.error_address != partner.error_address:
            values["error_uri"] = signals.error_address
        return values


_SEMANTICS = {
    Presence.NEVER.value: DeliverySemantics.BEST_EFFORT.value,
    Presence.ALWAYS.value: DeliverySemantics.ONCE_AND_ONLY_ONCE.value,
}
"""By AckRequested; else it is the application that decides."""


def _key(action: Action) -> tuple[bool, str, str, str]:
    return action.is_ours, action.service, action.service_type, action.action


class NoActions(ValueError):
    """The agreement does not list what may be sent, and a CPA has to."""

    def __init__(self, agreement: Agreement) -> None:
        super().__init__(
            f"Agreement {agreement} lists no Services and Actions: add its channels first,"
            " because a CPA names them."
        )


@dataclass(frozen=True, slots=True)
class Ours:
    """What a CPA says of us, and no agreement does. Certificates in PEM, of signatures by the kind
    of key; none without a key."""

    address: str
    signing: Mapping[str, str]
    encryption: str


def cpa_of(agreement: Agreement, ours: Ours, now: datetime) -> Cpa:
    """A CPA from which this agreement would be made (EB-200). It begins `now`, and ends in ten
    years if the agreement has no end. Raises NoActions."""
    return _Reverse(agreement, ours).cpa(now)


class _Reverse:
    def __init__(self, agreement: Agreement, ours: Ours) -> None:
        self._agreement, self._ours = agreement, ours
        self._partner = agreement.partner
        # An agreement has the terms of the first action that its CPA lists.
        channels = sorted(agreement.channels.all(), key=lambda one: len(one.terms))
        self._channels = [one for one in channels if one.service != SERVICE]
        self._signals = [one for one in channels if one.service == SERVICE and one.address]

    def cpa(self, now: datetime) -> Cpa:
        agreement, partner = self._agreement, self._partner
        if not self._channels:
            raise NoActions(agreement)
        ours = PartyId(agreement.our_party, agreement.our_party_context)
        theirs = PartyId(agreement.their_party, agreement.their_party_context)
        start = now.replace(microsecond=0)
        return Cpa(
            agreement.tpa_id,
            "2_0b",
            "agreed",
            start,
            agreement.ends or start + _TEN_YEARS,
            CpaParty(ours.value, (ours,)),
            CpaParty(partner.display_name or partner.name, (theirs,)),
            tuple(self._action(one) for one in self._channels),
            self._of_signals(partner.destination, partner.error_address, is_ours=True),
            self._of_signals(self._ours.address, "", is_ours=False),
            {
                one.action: self._of_signals(str(one.address), "", is_ours=True)
                for one in self._signals
            },
        )

    def _action(self, row: ChannelRow) -> Action:
        agreed, is_ours = row.agreed, row.direction == Direction.OUT
        ours, theirs = agreed.our_role, agreed.their_role
        address = (row.address or self._partner.destination) if is_ours else self._ours.address
        return Action(
            is_ours,
            row.service,
            agreed.service_type,
            row.action,
            ours if is_ours else theirs,
            theirs if is_ours else ours,
            self._channel(agreed, address, is_ours=is_ours),
        )

    def _channel(self, agreed: Agreement, address: str, *, is_ours: bool) -> Channel:
        is_reliable = agreed.ack != Presence.NEVER
        return Channel(
            ack=agreed.ack,
            ack_signed=_ALWAYS[agreed.ack_signed],
            eliminates=agreed.eliminates,
            ack_actor=agreed.ack_actor,
            sync_reply=agreed.sync_reply,
            address=address,
            error_address=self._partner.error_address if is_ours else "",
            retries=agreed.retries if is_reliable else None,
            retry_interval=agreed.retry_interval if is_reliable else None,
            ordered=agreed.ordered,
            persist_duration=agreed.persist_duration or None,
            signing=self._signing(agreed, is_ours=is_ours),
            encryption=self._encryption(agreed, is_ours=is_ours),
        )

    def _of_signals(self, address: str, error_address: str, *, is_ours: bool) -> Channel:
        never, agreed = Presence.NEVER.value, self._agreement
        signing = self._signing(agreed, is_ours=is_ours)
        to, sync = agreed.ack_actor, agreed.sync_reply
        return Channel(never, never, never, to, sync, address, error_address, signing=signing)

    def _signing(self, agreed: Agreement, *, is_ours: bool) -> Signing | None:
        if not agreed.signed:
            return None
        name = agreed.signature_method
        certificate = self._ours.signing.get(ALGORITHMS[name].key, "")
        if not is_ours:
            certificate = _first(agreed.certificate)
            name = _of_partner(name, certificate, weak=agreed.allow_sha1)
        algorithm = ALGORITHMS[name]
        return Signing(algorithm.method, algorithm.digest, certificate)

    def _encryption(self, agreed: Agreement, *, is_ours: bool) -> Encryption | None:
        """For the key of the one who gets it."""
        if not agreed.encrypted:
            return None
        theirs = _first(agreed.encryption_certificate or agreed.certificate)
        method = agreed.encryption_method
        space = "2009/xmlenc11" if method.endswith("gcm") else "2001/04/xmlenc"
        uri = f"http://www.w3.org/{space}#{method}"
        return Encryption(uri, theirs if is_ours else self._ours.encryption)


def _of_partner(ours: str, certificate: str, *, weak: bool) -> str:
    """By what the partner is to sign: the hash is ours, unless that is SHA-1 and not allowed."""
    bits = ours.partition("-")[2]
    if ALGORITHMS[ours].is_weak and not weak:
        bits = "sha256"
    is_ec = any(kind_of(one) == "EC" for one in certificates_of(certificate))
    return f"ecdsa-{bits}" if is_ec and bits != "sha1" else f"rsa-{bits}"


_ALWAYS = {True: Presence.ALWAYS.value, False: Presence.NEVER.value}
_TEN_YEARS = timedelta(days=3_652)


def _first(pems: str) -> str:
    """A CPA has one certificate at a place, an agreement the successor, too."""
    end = "-----END CERTIFICATE-----"
    first, found, _ = pems.partition(end)
    return (first + found).strip()
