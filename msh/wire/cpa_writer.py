"""A CPA 2.0 from values, such as the gateways of partners load it (EB-200)."""

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from xml.sax.saxutils import escape, quoteattr

from msh.protocol.ebms.cpa import Action, Channel, Cpa, CpaParty, Signing
from msh.wire.cpa_structure import ACTOR, CPPA

_HEADERS = re.compile(r"-----[A-Z ]+-----|\s")
_XMLDSIG = "http://www.w3.org/2000/09/xmldsig#"
_LINK = {"xlink:type": "simple"}
_PACKAGE = "message"


def compose(cpa: Cpa) -> bytes:
    """What `msh.wire.cpa.read` reads as the same values, but for its notes. Each action has a
    channel of its own at both parties, and signals have one; where they are received follows from
    the values."""
    out = [one for one in cpa.actions if one.is_ours]
    back = [one for one in cpa.actions if not one.is_ours]
    us, them = _Side("us", cpa.ours), _Side("them", cpa.theirs)
    for sender, receiver, actions in ((us, them, out), (them, us, back)):
        for number, action in enumerate(actions, 1):
            _add(sender, receiver, f"{sender.key}-{number}", action)
    us.default(cpa.signals_out, takes=cpa.signals_in)
    them.default(cpa.signals_in, takes=cpa.signals_out)
    for number, (signal, channel) in enumerate(cpa.overrides.items(), 1):
        them.override(f"them-override-{number}", signal, channel)
    content = [
        _element("Status", {"value": cpa.status}),
        _element("Start", {}, _time(cpa.start)),
        _element("End", {}, _time(cpa.end)),
        us.element(),
        them.element(),
        *_PACKAGING,
    ]
    names = {
        "xmlns:tp": CPPA,
        "xmlns:ds": _XMLDSIG,
        "xmlns:xlink": "http://www.w3.org/1999/xlink",
        "cpaid": cpa.cpa_id,
        "version": cpa.version,
    }
    root = _element("CollaborationProtocolAgreement", names, *content)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{root}\n'.encode()


class _Xml(str):
    """Text that is XML already."""

    __slots__ = ()


class _Side:
    """One party, as it grows."""

    def __init__(self, key: str, party: CpaParty) -> None:
        self.key, self._party = key, party
        self._roles: dict[tuple[str, str, str], dict[str, list[str]]] = {}
        self._certificates: dict[str, str] = {}
        self._transports: dict[tuple[str, str], str] = {}
        self._channels: list[str] = []
        self._exchanges: list[str] = []
        self._overrides: list[str] = []

    def binding(self, way: str, key: str, other: str, action: Action, role: str) -> None:
        this = _element(
            "ThisPartyActionBinding",
            {"id": f"{key}-{self.key}", "action": action.action, "packageId": _PACKAGE},
            _element("BusinessTransactionCharacteristics"),
            _element("ChannelId", {}, f"{key}-{self.key}-channel"),
        )
        pair = (this, _element("OtherPartyActionBinding", {}, f"{key}-{other}"))
        of_service = (role, action.service, action.service_type)
        ways = self._roles.setdefault(of_service, {"CanSend": [], "CanReceive": []})
        ways[way].append(_element(way, {}, *pair))

    def channel(self, key: str, said: Channel, address: tuple[str, str], *exchange: str) -> None:
        transport = self._transports.setdefault(address, f"{self.key}-{len(self._transports)}")
        names = {"transportId": transport, "docExchangeId": f"{key}-exchange"}
        characteristics = {
            "syncReplyMode": said.sync_reply,
            "ackRequested": said.ack,
            "ackSignatureRequested": said.ack_signed,
            "duplicateElimination": said.eliminates,
            **({"actor": f"{ACTOR}{said.ack_actor}"} if said.ack_actor else {}),
        }
        inner = _element("MessagingCharacteristics", characteristics)
        self._channels.append(_element("DeliveryChannel", {"channelId": key, **names}, inner))
        named = {"docExchangeId": f"{key}-exchange"}
        self._exchanges.append(_element("DocExchange", named, *exchange))

    def default(self, sends: Channel, takes: Channel) -> None:
        """Of signals: where this party takes those of the other one, and how it sends its own."""
        both = (_sends(self, sends), _takes(self, takes))
        self.channel(f"{self.key}-signals", sends, (takes.address, takes.error_address), *both)

    def override(self, key: str, action: str, takes: Channel) -> None:
        self.channel(key, takes, (takes.address, takes.error_address), _takes(self, takes))
        names = {"action": action, "channelId": key}
        self._overrides.append(_element("OverrideMshActionBinding", names))

    def certificate(self, pem: str) -> str:
        """The id of a certificate; with an empty one, of the name of a key."""
        return self._certificates.setdefault(pem, f"{self.key}-key-{len(self._certificates)}")

    def element(self) -> str:
        names = {
            "partyName": self._party.name,
            "defaultMshChannelId": f"{self.key}-signals",
            "defaultMshPackageId": _PACKAGE,
        }
        ids = (
            _element("PartyId", {"type": one.type} if one.type else {}, one.value)
            for one in self._party.party_ids
        )
        reference = _element("PartyRef", {**_LINK, "xlink:href": f"urn:{self.key}"})
        roles = (self._role(key, ways) for key, ways in self._roles.items())
        certificates = (_certificate(*one) for one in self._certificates.items())
        transports = (_transport(*one) for one in self._transports.items())
        parts = (*ids, reference, *roles, *certificates, *self._channels, *transports)
        return _element("PartyInfo", names, *parts, *self._exchanges, *self._overrides)

    def _role(self, of: tuple[str, str, str], ways: Mapping[str, list[str]]) -> str:
        role, service, service_type = of
        typed = {"type": service_type} if service_type else {}
        bindings = (*ways["CanSend"], *ways["CanReceive"])
        process = {"name": service, "version": "1", **_LINK, "xlink:href": "urn:process"}
        return _element(
            "CollaborationRole",
            {},
            _element("ProcessSpecification", process),
            _element("Role", {"name": role, **_LINK, "xlink:href": "urn:process#role"}),
            _element("ServiceBinding", {}, _element("Service", typed, service), *bindings),
        )


def _add(sender: _Side, receiver: _Side, key: str, action: Action) -> None:
    said = action.channel
    sender.binding("CanSend", key, receiver.key, action, action.from_role)
    receiver.binding("CanReceive", key, sender.key, action, action.to_role)
    # Nothing is received by the sender's channel, but it has to have an endpoint.
    nowhere = (said.address, said.error_address)
    sender.channel(f"{key}-{sender.key}-channel", said, nowhere, _sends(sender, said))
    receiver.channel(f"{key}-{receiver.key}-channel", said, nowhere, _takes(receiver, said))


def _sends(side: _Side, said: Channel) -> str:
    parts = [*_reliable(said)]
    if said.signing is not None:
        certificate = {"certId": side.certificate(said.signing.certificate)}
        reference = _element("SigningCertificateRef", certificate)
        parts.append(_element("SenderNonRepudiation", {}, *_signed(said.signing), reference))
    if said.encryption is not None:
        parts.append(_element("SenderDigitalEnvelope", {}, *_enveloped(said.encryption.method)))
    return _element("ebXMLSenderBinding", {"version": "2.0"}, *parts)


def _takes(side: _Side, said: Channel) -> str:
    parts = [*_reliable(said)]
    if said.signing is not None:
        parts.append(_element("ReceiverNonRepudiation", {}, *_signed(said.signing)))
    if said.encryption is not None:
        certificate = {"certId": side.certificate(said.encryption.certificate)}
        reference = _element("EncryptionCertificateRef", certificate)
        inner = (*_enveloped(said.encryption.method), reference)
        parts.append(_element("ReceiverDigitalEnvelope", {}, *inner))
    return _element("ebXMLReceiverBinding", {"version": "2.0"}, *parts)


def _reliable(said: Channel) -> Iterable[str]:
    order = _element("MessageOrderSemantics", {}, "Guaranteed" if said.ordered else "NotGuaranteed")
    parts = []
    if said.retries is not None:
        parts.append(_element("Retries", {}, str(said.retries)))
    if said.retry_interval is not None:
        parts.append(_element("RetryInterval", {}, f"PT{said.retry_interval}S"))
    if parts or said.ordered:
        yield _element("ReliableMessaging", {}, *parts, order)
    if said.persist_duration is not None:
        yield _element("PersistDuration", {}, f"PT{said.persist_duration}S")


def _signed(signing: Signing) -> Iterable[str]:
    yield _element("NonRepudiationProtocol", {}, _XMLDSIG)
    yield _element("HashFunction", {}, signing.digest)
    yield _element("SignatureAlgorithm", {}, signing.method)


def _enveloped(method: str) -> Iterable[str]:
    yield _element("DigitalEnvelopeProtocol", {}, "http://www.w3.org/2001/04/xmlenc#")
    yield _element("EncryptionAlgorithm", {}, method)


def _certificate(pem: str, key: str) -> str:
    data = f"<ds:X509Data><ds:X509Certificate>{_HEADERS.sub('', pem)}</ds:X509Certificate>"
    inner = f"{data}</ds:X509Data>" if pem else f"<ds:KeyName>{key}</ds:KeyName>"
    return _element("Certificate", {"certId": key}, _Xml(f"<ds:KeyInfo>{inner}</ds:KeyInfo>"))


def _transport(address: tuple[str, str], key: str) -> str:
    uri, error = address
    protocol = "SMTP" if uri.startswith("mailto:") else "HTTP"
    kinds = [("allPurpose", uri), *([("error", error)] if error else [])]
    endpoints = (_element("Endpoint", {"uri": uri, "type": kind}) for kind, uri in kinds)
    named = _element("TransportProtocol", {"version": "1.1"}, protocol)
    parts = (
        _element("TransportSender", {}, named),
        _element("TransportReceiver", {}, named, *endpoints),
    )
    return _element("Transport", {"transportId": key}, *parts)


def _time(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


def _element(name: str, attributes: Mapping[str, str] = {}, *content: str) -> _Xml:
    """`content` that is not XML is text."""
    named = "".join(
        f" {key if ':' in key else f'tp:{key}'}={quoteattr(value)}"
        for key, value in attributes.items()
    )
    inner = "".join(one if isinstance(one, _Xml) else escape(one) for one in content)
    return _Xml(f"<tp:{name}{named}>{inner}</tp:{name}>")


_PACKAGING = (
    _element("SimplePart", {"id": "envelope", "mimetype": "text/xml"}),
    _element("SimplePart", {"id": "payload", "mimetype": "application/octet-stream"}),
    _element(
        "Packaging",
        {"id": _PACKAGE},
        _element("ProcessingCapabilities", {"parse": "true", "generate": "true"}),
        _element(
            "CompositeList",
            {},
            _element(
                "Composite",
                {"id": "whole", "mimetype": "multipart/related", "mimeparameters": "type=text/xml"},
                _element("Constituent", {"idref": "envelope"}),
                _element("Constituent", {"idref": "payload", "minOccurs": "0"}),
            ),
        ),
    ),
)
