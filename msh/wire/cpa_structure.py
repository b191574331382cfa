"""What a CPA 2.0 has to consist of, as far as it is read here (EB-199).

The schema of OASIS is not part of this repository; tests compare with it where it is given.
"""

import re
from collections.abc import Iterator, Mapping

from lxml.etree import _Element

from msh.wire.text import shown

CPPA = "http://www.oasis-open.org/committees/ebxml-cppa/schema/cpp-cpa-2_0.xsd"

# Children, each with a space behind it, as a regular expression. What is not named may have any.
_CHILDREN: Mapping[str, str] = {
    "CollaborationProtocolAgreement": "Status Start End (ConversationConstraints )?(PartyInfo ){2}"
    "(SimplePart )+(Packaging )+(Signature )?(Comment )*",
    "PartyInfo": "(PartyId )+(PartyRef )+(CollaborationRole )+(Certificate )*(SecurityDetails )*"
    "(DeliveryChannel )+(Transport )+(DocExchange )+(OverrideMshActionBinding )*",
    "CollaborationRole": "ProcessSpecification Role (ApplicationCertificateRef )*"
    "(ApplicationSecurityDetailsRef )?ServiceBinding ",
    "ServiceBinding": "Service (CanSend )*(CanReceive )*",
    "CanSend": "ThisPartyActionBinding (OtherPartyActionBinding )?(CanReceive )*",
    "CanReceive": "ThisPartyActionBinding (OtherPartyActionBinding )?(CanSend )*",
    "ThisPartyActionBinding": "BusinessTransactionCharacteristics (ActionContext )?(ChannelId )+",
    "DeliveryChannel": "MessagingCharacteristics ",
    "Transport": "(TransportSender )?(TransportReceiver )?",
    "TransportSender": "TransportProtocol (AccessAuthentication )*(TransportClientSecurity )?",
    "TransportReceiver": "TransportProtocol (AccessAuthentication )*(Endpoint )+"
    "(TransportServerSecurity )?",
    "DocExchange": "(ebXMLSenderBinding )?(ebXMLReceiverBinding )?",
    "ebXMLSenderBinding": "(ReliableMessaging )?(PersistDuration )?(SenderNonRepudiation )?"
    "(SenderDigitalEnvelope )?(NamespaceSupported )*",
    "ebXMLReceiverBinding": "(ReliableMessaging )?(PersistDuration )?(ReceiverNonRepudiation )?"
    "(ReceiverDigitalEnvelope )?(NamespaceSupported )*",
    "ReliableMessaging": "(Retries )?(RetryInterval )?MessageOrderSemantics ",
    "SenderNonRepudiation": "NonRepudiationProtocol HashFunction (SignatureAlgorithm )+"
    "SigningCertificateRef ",
    "SenderDigitalEnvelope": "DigitalEnvelopeProtocol (EncryptionAlgorithm )+"
    "(EncryptionSecurityDetailsRef )?",
    "ReceiverDigitalEnvelope": "DigitalEnvelopeProtocol (EncryptionAlgorithm )+"
    "EncryptionCertificateRef ",
    "Packaging": "ProcessingCapabilities (CompositeList )+",
    "CompositeList": "((Encapsulation|Composite) )+",
}
_ATTRIBUTES: Mapping[str, tuple[str, ...]] = {
    "CollaborationProtocolAgreement": ("cpaid", "version"),
    "Status": ("value",),
    "PartyInfo": ("partyName", "defaultMshChannelId", "defaultMshPackageId"),
    "Role": ("name",),
    "ThisPartyActionBinding": ("id", "action", "packageId"),
    "Certificate": ("certId",),
    "SecurityDetails": ("securityId",),
    "DeliveryChannel": ("channelId", "transportId", "docExchangeId"),
    "Transport": ("transportId",),
    "Endpoint": ("uri",),
    "DocExchange": ("docExchangeId",),
    "ebXMLSenderBinding": ("version",),
    "ebXMLReceiverBinding": ("version",),
    "OverrideMshActionBinding": ("action", "channelId"),
    "SimplePart": ("id", "mimetype"),
    "Packaging": ("id",),
    "Composite": ("id", "mimetype"),
    "Encapsulation": ("id", "mimetype"),
    "Constituent": ("idref",),
}
_PER_MESSAGE = ("always", "never", "perMessage")
ACTOR = "urn:oasis:names:tc:ebxml-msg:actor:"
_VALUES: Mapping[tuple[str, str], tuple[str, ...]] = {
    ("Status", "value"): ("proposed", "agreed", "signed"),
    ("MessagingCharacteristics", "ackRequested"): _PER_MESSAGE,
    ("MessagingCharacteristics", "ackSignatureRequested"): _PER_MESSAGE,
    ("MessagingCharacteristics", "duplicateElimination"): _PER_MESSAGE,
    ("MessagingCharacteristics", "syncReplyMode"): (
        *("none", "mshSignalsOnly", "signalsOnly", "responseOnly"),
        "signalsAndResponse",
    ),
    ("MessagingCharacteristics", "actor"): (f"{ACTOR}nextMSH", f"{ACTOR}toPartyMSH"),
    ("Endpoint", "type"): ("login", "request", "response", "error", "allPurpose"),
}
_NAMED_BY = {
    "Certificate": "certId",
    "SecurityDetails": "securityId",
    "DeliveryChannel": "channelId",
    "Transport": "transportId",
    "DocExchange": "docExchangeId",
    **dict.fromkeys(("ThisPartyActionBinding", "SimplePart", "Packaging"), "id"),
    **dict.fromkeys(("Composite", "Encapsulation"), "id"),
}
_REFERENCES = (
    *("certId", "securityId", "channelId", "transportId", "docExchangeId", "idref"),
    *("packageId", "defaultMshChannelId", "defaultMshPackageId"),
)
_REFERRING_TEXTS = ("ChannelId", "OtherPartyActionBinding")


def problem_of(root: _Element) -> str:
    """What is wrong with its structure, or with what it refers to, as a sentence; empty if nothing
    is."""
    return next(_problems(root), "")


def attribute_of(element: _Element, name: str) -> str:
    """Attributes are in the namespace of the CPA; some products write them in none."""
    return (element.get(f"{{{CPPA}}}{name}") or element.get(name) or "").strip()


def _problems(root: _Element) -> Iterator[str]:
    ids: set[str] = set()
    for name, element in _elements(root):
        yield from _problems_of(name, element)
        if name in _NAMED_BY:
            key = attribute_of(element, _NAMED_BY[name])
            if key in ids:
                yield f"two elements are named {shown(key)}"
            ids.add(key)
    for name, element in _elements(root):
        yield from (
            f"{name} refers to {shown(key)}, which is not there"
            for key in _references(name, element)
            if key not in ids
        )


def _elements(root: _Element) -> Iterator[tuple[str, _Element]]:
    prefix = f"{{{CPPA}}}"
    for element in root.iter(f"{prefix}*"):
        yield str(element.tag).removeprefix(prefix), element


def _problems_of(name: str, element: _Element) -> Iterator[str]:
    for attribute in _ATTRIBUTES.get(name, ()):
        if not attribute_of(element, attribute):
            yield f"{name} has no attribute {attribute}"
    for (of, attribute), values in _VALUES.items():
        value = attribute_of(element, attribute) if of == name else ""
        if value and value not in values:
            yield f"{attribute} {shown(value)} of {name} is none of {', '.join(values)}"
    if name not in _CHILDREN:
        return
    children = [
        str(child.tag).removeprefix(f"{{{CPPA}}}") for child in element.iterchildren(f"{{{CPPA}}}*")
    ]
    if not re.fullmatch(_CHILDREN[name], "".join(f"{child} " for child in children)):
        has = f"has {', '.join(children)}" if children else "is empty"
        yield f"{name} {has}: its parts are {_in_words(_CHILDREN[name])}"


def _references(name: str, element: _Element) -> Iterator[str]:
    for attribute in _REFERENCES:
        if _NAMED_BY.get(name) != attribute and (key := attribute_of(element, attribute)):
            yield key
    if name in _REFERRING_TEXTS:
        yield (element.text or "").strip()


def _in_words(pattern: str) -> str:
    return ", ".join(re.findall(r"[A-Za-z]\w+", pattern))
