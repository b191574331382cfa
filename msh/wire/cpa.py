"""A CPA 2.0 to values, seen from one of its two parties (EB-195 to EB-201)."""

import re
from base64 import b64decode
from collections.abc import Iterator, Mapping
from datetime import datetime

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from lxml.etree import _Element

from msh.protocol.ebms.cpa import Action, Channel, Cpa, CpaParty, Encryption, Signing
from msh.protocol.ebms.encryption import XENC
from msh.protocol.ebms.message import PartyId
from msh.protocol.ebms.vocabulary import SERVICE
from msh.protocol.errors import Unreadable
from msh.wire import document
from msh.wire.cpa_structure import CPPA, attribute_of, problem_of
from msh.wire.ebms2.instants import read_instant
from msh.wire.ebms2.names import DS, EB, SOAP, XLINK, ds
from msh.wire.text import shown, trimmed
from msh.wire.values import Problem

LIMIT = 4 * 1024 * 1024  # bytes
_DURATION = re.compile(
    r"P(?:(?P<years>\d+)Y)?(?:(?P<months>\d+)M)?(?:(?P<d>\d+)D)?"
    r"(?:T(?:(?P<h>\d+)H)?(?:(?P<m>\d+)M)?(?:(?P<s>\d+)(?:\.\d+)?S)?)?"
)
_SECONDS = {"d": 86_400, "h": 3_600, "m": 60, "s": 1}
_SCHEMES = ("http", "https", "mailto")
_ERROR, _ANY = "error", ("request", "allPurpose")
_NOT_ON_CONNECTION = {
    "responseOnly": "no Acknowledgment on the connection.",
    "signalsAndResponse": "an application's answer goes by a POST of its own.",
}
"""What an answer of ours on the connection does not have of a syncReplyMode (EB-077)."""
_OF_ENVELOPES = (EB.rpartition("/")[0], SOAP, XLINK, DS, XENC)
"""Namespaces of what envelopes have here. Some CPAs write the folder of ebXML's schema."""


class CpaRefused(Unreadable):
    """A document that is no CPA, or one that cannot be used as a whole (EB-199)."""


def parties(cpa: bytes) -> tuple[CpaParty, CpaParty]:
    """The two parties, in the order of the CPA. Raises CpaRefused."""
    first, second = (_party(one) for one in _infos(_root(cpa)))
    return first, second


def read(cpa: bytes, ours: CpaParty) -> Cpa:
    """The CPA as `ours`, one of `parties`, sees it. Raises CpaRefused, naming what is wrong."""
    root = _root(cpa)
    infos = _infos(root)
    us = next((one for one in infos if _party(one) == ours), None)
    if us is None:
        raise CpaRefused(f"{ours.name} is none of its parties")
    them = next(one for one in infos if one is not us)
    return _Reader(root, us, them).read()


def _root(cpa: bytes) -> _Element:
    if len(cpa) > LIMIT:
        raise CpaRefused(f"the CPA has {len(cpa)} bytes: at most {LIMIT}")
    utf_8, _ = document.in_utf_8(cpa)
    root = document.parse(utf_8)
    if root.tag != _name("CollaborationProtocolAgreement"):
        raise CpaRefused(
            f"the document element is {shown(str(root.tag))}: a CPA 2.0 begins with"
            f" CollaborationProtocolAgreement in {CPPA}"
        )
    return root


def _infos(root: _Element) -> list[_Element]:
    infos = root.findall(_name("PartyInfo"))
    if len(infos) != 2:
        raise CpaRefused(f"a CPA has two PartyInfo: this one has {len(infos)}")
    return infos


def _party(info: _Element) -> CpaParty:
    ids = tuple(
        PartyId(trimmed(one.text or ""), _attribute(one, "type"))
        for one in info.findall(_name("PartyId"))
    )
    return CpaParty(_attribute(info, "partyName"), ids)


class _Side:
    """One party, with what others of its elements refer to."""

    def __init__(self, info: _Element) -> None:
        self.info = info
        self.channels = self._by("DeliveryChannel", "channelId")
        self.transports = self._by("Transport", "transportId")
        self.exchanges = self._by("DocExchange", "docExchangeId")
        self.certificates = self._by("Certificate", "certId")
        self.overrides = {
            _attribute(one, "action"): _attribute(one, "channelId")
            for one in info.findall(_name("OverrideMshActionBinding"))
        }
        self.bindings = {
            _attribute(one, "id"): one for one in info.iter(_name("ThisPartyActionBinding"))
        }

    def _by(self, name: str, attribute: str) -> Mapping[str, _Element]:
        return {_attribute(one, attribute): one for one in self.info.findall(_name(name))}

    def channel_of(self, binding: _Element) -> _Element:
        """Of several the first, which is the one to be tried first."""
        channel = _text(binding, "ChannelId")
        return _referred(self.channels, channel, "DeliveryChannel")

    def exchange_of(self, channel: _Element) -> _Element:
        return _referred(self.exchanges, _attribute(channel, "docExchangeId"), "DocExchange")

    def transport_of(self, channel: _Element) -> _Element:
        return _referred(self.transports, _attribute(channel, "transportId"), "Transport")

    def certificate(self, reference: _Element | None) -> str:
        """In PEM, the first of its chain; empty if the CPA has none, but only its name."""
        if reference is None:
            return ""
        wanted = _attribute(reference, "certId")
        held = _referred(self.certificates, wanted, "Certificate")
        text = trimmed(held.findtext(f".//{ds('X509Certificate')}", ""))
        if not text:
            return ""
        try:
            certificate = x509.load_der_x509_certificate(b64decode(text))
        except ValueError:
            raise CpaRefused(f"Certificate {shown(wanted)} cannot be read") from None
        return certificate.public_bytes(Encoding.PEM).decode().strip()


def _referred(known: Mapping[str, _Element], key: str, what: str) -> _Element:
    found = known.get(key)
    if found is None:
        raise CpaRefused(f"{what} {shown(key)} is referred to, and is not there")
    return found


class _Reader:
    def __init__(self, root: _Element, us: _Element, them: _Element) -> None:
        self._root = root
        self._us, self._them = _Side(us), _Side(them)
        self._notes: list[str] = []

    def read(self) -> Cpa:
        root, status = self._root, self._root.find(_name("Status"))
        out = list(self._actions(self._us, self._them, is_ours=True))
        back = list(self._actions(self._them, self._us, is_ours=False))
        if not (out or back):
            raise CpaRefused("no party can send what the other can receive")
        signals = self._signals(self._us, self._them), self._signals(self._them, self._us)
        overrides = self._overrides()
        if problem := problem_of(root):
            raise CpaRefused(problem)
        self._note_what_is_not_done()
        return Cpa(
            _required(root, "cpaid"),
            _attribute(root, "version"),
            "" if status is None else _attribute(status, "value"),
            _moment(root, "Start"),
            _moment(root, "End"),
            _party(self._us.info),
            _party(self._them.info),
            (*out, *back),
            *signals,
            overrides,
            tuple(dict.fromkeys(self._notes)),
        )

    def _actions(self, sender: _Side, receiver: _Side, *, is_ours: bool) -> Iterator[Action]:
        for role in sender.info.findall(_name("CollaborationRole")):
            for bound in role.findall(_name("ServiceBinding")):
                service = bound.find(_name("Service"))
                if service is None or trimmed(service.text or "") == SERVICE:
                    continue
                for can_send in bound.iter(_name("CanSend")):
                    binding = can_send.find(_name("ThisPartyActionBinding"))
                    if binding is None:
                        raise CpaRefused("a CanSend has no ThisPartyActionBinding")
                    other = self._other(can_send, receiver)
                    yield Action(
                        is_ours,
                        trimmed(service.text or ""),
                        _attribute(service, "type"),
                        _required(binding, "action"),
                        _role_of(binding),
                        _role_of(other),
                        self._channel(
                            (sender, sender.channel_of(binding)),
                            (receiver, receiver.channel_of(other)),
                        ),
                    )

    def _other(self, can_send: _Element, receiver: _Side) -> _Element:
        key = _text(can_send, "OtherPartyActionBinding")
        return _referred(receiver.bindings, key, "ThisPartyActionBinding")

    def _overrides(self) -> Mapping[str, Channel]:
        """Of signals that we send where the other one takes them elsewhere (EB-201)."""
        of_us = _referred(self._us.channels, _default(self._us.info), "DeliveryChannel")
        return {
            action: self._channel(
                (self._us, of_us),
                (self._them, _referred(self._them.channels, channel, "DeliveryChannel")),
            )
            for action, channel in self._them.overrides.items()
        }

    def _note_what_is_not_done(self) -> None:
        """EB-198."""
        root = self._root
        if root.find(f".//{ds('Signature')}") is not None:
            self._notes.append("It has a Signature, which is not verified.")
        if root.find(_name("ConversationConstraints")) is not None:
            self._notes.append("ConversationConstraints: conversations are not counted.")
        self._notes += [
            f"NamespaceSupported {shown(one)}: no SOAP extension is made or read."
            for one in _extensions(root)
        ]
        for name, text in _NOT_DONE:
            self._notes += [text for _ in root.iter(_name(name))]
        for side in (self._us, self._them):
            ids = [trimmed(one.text or "") for one in side.info.findall(_name("PartyId"))]
            if ids[1:]:
                who = shown(_attribute(side.info, "partyName"))
                self._notes.append(f"{who} has several PartyIds: {ids[0]} is used.")
            several = (one for one in side.bindings.values() if len(_all(one, "ChannelId")) > 1)
            for one in several:
                action = shown(_attribute(one, "action"))
                self._notes.append(f"Action {action} has several channels: the first is used.")
        for packaging in root.findall(_name("Packaging")):
            if len(list(packaging.iter(_name("Composite")))) > 1:
                key = shown(_attribute(packaging, "id"))
                self._notes.append(f"Packaging {key} is nested: parts stand beside each other.")

    def _signals(self, sender: _Side, receiver: _Side) -> Channel:
        of_sender, of_receiver = (
            _referred(side.channels, _default(side.info), "DeliveryChannel")
            for side in (sender, receiver)
        )
        return self._channel((sender, of_sender), (receiver, of_receiver))

    def _channel(
        self, sending: tuple[_Side, _Element], receiving: tuple[_Side, _Element]
    ) -> Channel:
        (sender, channel), (receiver, other) = sending, receiving
        said = channel.find(_name("MessagingCharacteristics"))
        binding = _binding(sender.exchange_of(channel), "ebXMLSenderBinding")
        reliable = None if binding is None else binding.find(_name("ReliableMessaging"))
        addresses = self._addresses(receiver.transport_of(other))
        sync_reply = _attribute(said, "syncReplyMode", "none")
        if lacking := _NOT_ON_CONNECTION.get(sync_reply):
            self._notes.append(f"syncReplyMode {sync_reply}: {lacking}")
        actor = _attribute(said, "actor").rpartition(":")[2]
        if actor == "nextMSH":
            self._notes.append("actor nextMSH: the MSH acknowledges, but passes nothing on.")
        return Channel(
            ack=_attribute(said, "ackRequested", "perMessage"),
            ack_signed=_attribute(said, "ackSignatureRequested", "perMessage"),
            eliminates=_attribute(said, "duplicateElimination", "perMessage"),
            ack_actor=actor,
            sync_reply=sync_reply,
            address=_address(addresses, _ANY),
            error_address=_address(addresses, (_ERROR,)),
            retries=_number(reliable, "Retries"),
            retry_interval=_duration(reliable, "RetryInterval"),
            ordered=_text(reliable, "MessageOrderSemantics") == "Guaranteed",
            persist_duration=_duration(binding, "PersistDuration"),
            signing=_signing(sender, binding),
            encryption=self._encryption(receiver, binding, other),
        )

    def _addresses(self, transport: _Element) -> Mapping[str, str]:
        """By the type of the endpoint. Raises CpaRefused without one that we can send to."""
        found = {
            _attribute(one, "type", "allPurpose"): _uri(_required(one, "uri"))
            for one in transport.iter(_name("Endpoint"))
        }
        usable = {
            kind: uri for kind, uri in found.items() if uri.partition(":")[0].lower() in _SCHEMES
        }
        if not usable:
            name = shown(_attribute(transport, "transportId"))
            raise CpaRefused(f"Transport {name} has no endpoint of {', '.join(_SCHEMES)}")
        return usable

    def _encryption(
        self, receiver: _Side, binding: _Element | None, channel: _Element
    ) -> Encryption | None:
        envelope = None if binding is None else binding.find(_name("SenderDigitalEnvelope"))
        if envelope is None:
            return None
        taken = _binding(receiver.exchange_of(channel), "ebXMLReceiverBinding")
        wanted = None if taken is None else taken.find(f".//{_name('EncryptionCertificateRef')}")
        method = _text(envelope, "EncryptionAlgorithm")
        return Encryption(method, receiver.certificate(wanted))


def _signing(sender: _Side, binding: _Element | None) -> Signing | None:
    said = None if binding is None else binding.find(_name("SenderNonRepudiation"))
    if said is None:
        return None
    method, digest = _text(said, "SignatureAlgorithm"), _text(said, "HashFunction")
    return Signing(method, digest, sender.certificate(said.find(_name("SigningCertificateRef"))))


_NOT_DONE = (
    ("AccessAuthentication", "AccessAuthentication: give our credential to the partner's page."),
    ("ClientCertificateRef", "ClientCertificateRef: TLS is set up apart from the CPA."),
    ("ApplicationCertificateRef", "ApplicationCertificateRef is for applications: not used."),
    (
        "Encapsulation",
        "Packaging has an Encapsulation, such as S/MIME: payloads are sent as given.",
    ),
)
"""Elements of a CPA, and what is not done here for them."""


def _extensions(root: _Element) -> Iterator[str]:
    """Namespaces that its envelopes may have, and that mean nothing here. A SimplePart has those of
    payloads."""
    for binding in root.iter(_name("ebXMLSenderBinding"), _name("ebXMLReceiverBinding")):
        for one in _all(binding, "NamespaceSupported"):
            namespace = trimmed(one.text or "")
            if not namespace.startswith(_OF_ENVELOPES):
                yield namespace


def _uri(uri: str) -> str:
    """Some write a mail address with slashes."""
    scheme, _, rest = uri.partition(":")
    return f"{scheme}:{rest.removeprefix('//')}" if scheme.lower() == "mailto" else uri


def _all(element: _Element, name: str) -> list[_Element]:
    return element.findall(_name(name))


def _binding(exchange: _Element, name: str) -> _Element | None:
    return exchange.find(_name(name))


def _address(addresses: Mapping[str, str], kinds: tuple[str, ...]) -> str:
    """Return that of the first kind there is; of an error none, if it is the other."""
    named = next((addresses[kind] for kind in kinds if kind in addresses), "")
    return named or ("" if kinds == (_ERROR,) else next(iter(addresses.values())))


def _default(info: _Element) -> str:
    return _attribute(info, "defaultMshChannelId")


def _role_of(binding: _Element) -> str:
    roles = binding.iterancestors(_name("CollaborationRole"))
    role = next(roles).find(_name("Role"))
    return "" if role is None else _attribute(role, "name")


def _name(local: str) -> str:
    return f"{{{CPPA}}}{local}"


def _attribute(element: _Element | None, name: str, default: str = "") -> str:
    """Attributes are in the namespace of the CPA; some products write them in none."""
    if element is None:
        return default
    return trimmed(attribute_of(element, name)) or default


def _required(element: _Element, name: str) -> str:
    value = _attribute(element, name)
    if not value:
        raise CpaRefused(f"{shown(str(element.tag))} has no attribute {name}")
    return value


def _text(parent: _Element | None, name: str) -> str:
    return "" if parent is None else trimmed(parent.findtext(_name(name), ""))


def _moment(root: _Element, name: str) -> datetime:
    text = _text(root, name)
    try:
        return read_instant(text)[0]
    except Problem:
        raise CpaRefused(f"{name} {shown(text)} is not a time") from None


def _number(parent: _Element | None, name: str) -> int | None:
    text = _text(parent, name)
    if not text:
        return None
    if not (text.isascii() and text.isdecimal()):
        raise CpaRefused(f"{name} {shown(text)} is not a number")
    return int(text)


def _duration(parent: _Element | None, name: str) -> int | None:
    text = _text(parent, name)
    if not text:
        return None
    found = _DURATION.fullmatch(text)
    if not found or not any(found.groups()):
        raise CpaRefused(f"{name} {shown(text)} is not a duration such as PT5M")
    if found["years"] or found["months"]:
        raise CpaRefused(f"{name} {shown(text)} has years or months: say it in days")
    return sum(int(found[unit] or 0) * seconds for unit, seconds in _SECONDS.items())
