"""A CPA 2.0 of two parties by hand."""

from collections.abc import Sequence

from msh.wire.cpa_structure import CPPA
from tests.keys import new_key, pem_of


def certificate_of(side: str) -> str:
    """In PEM."""
    return pem_of(new_key(side))


SIGNED = """
<tp:SenderNonRepudiation>
  <tp:NonRepudiationProtocol>http://www.w3.org/2000/09/xmldsig#</tp:NonRepudiationProtocol>
  <tp:HashFunction>http://www.w3.org/2001/04/xmlenc#sha256</tp:HashFunction>
  <tp:SignatureAlgorithm>http://www.w3.org/2001/04/xmldsig-more#rsa-sha256</tp:SignatureAlgorithm>
  <tp:SigningCertificateRef tp:certId="{side}-key"/>
</tp:SenderNonRepudiation>"""
ENCRYPTED = """
<tp:SenderDigitalEnvelope>
  <tp:DigitalEnvelopeProtocol tp:version="1.0">XMLENC</tp:DigitalEnvelopeProtocol>
  <tp:EncryptionAlgorithm>http://www.w3.org/2009/xmlenc11#aes256-gcm</tp:EncryptionAlgorithm>
</tp:SenderDigitalEnvelope>"""
_LINK = 'xmlns:xlink="http://www.w3.org/1999/xlink" xlink:type="simple"'
Types = Sequence[str]
_ENVELOPE = "".join(ENCRYPTED.strip().splitlines()[1:3])


def party(
    side: str, other: str, *, sends: str, receives: str, more: str = "", types: Types = ("string",)
) -> str:
    """`side` sends Action `sends` and takes `receives`, by a Service of each of these types."""
    services = "".join(
        _service(side, other, sends, receives, kind, str(number) if number else "")
        for number, kind in enumerate(types)
    )
    return f"""
<tp:PartyInfo tp:partyName="{side}" tp:defaultMshChannelId="{side}-signals"
    tp:defaultMshPackageId="package">
  <tp:PartyId tp:type="urn:duns">{side}-1</tp:PartyId>
  <tp:PartyRef {_LINK} xlink:href="http://{side}.example/"/>
  {services}
  <tp:Certificate tp:certId="{side}-key">
    <ds:KeyInfo xmlns:ds="http://www.w3.org/2000/09/xmldsig#"><ds:X509Data><ds:X509Certificate>
      {"".join(certificate_of(side).splitlines()[1:-1])}
    </ds:X509Certificate></ds:X509Data></ds:KeyInfo>
  </tp:Certificate>
  <tp:DeliveryChannel tp:channelId="{side}-business" tp:transportId="{side}-http"
      tp:docExchangeId="{side}-reliable">
    <tp:MessagingCharacteristics tp:syncReplyMode="none" tp:ackRequested="always"
        tp:ackSignatureRequested="never" tp:duplicateElimination="always"
        tp:actor="urn:oasis:names:tc:ebxml-msg:actor:toPartyMSH"/>
  </tp:DeliveryChannel>
  <tp:DeliveryChannel tp:channelId="{side}-signals" tp:transportId="{side}-http"
      tp:docExchangeId="{side}-plain">
    <tp:MessagingCharacteristics tp:syncReplyMode="none" tp:ackRequested="never"
        tp:ackSignatureRequested="never" tp:duplicateElimination="never"/>
  </tp:DeliveryChannel>
  <tp:Transport tp:transportId="{side}-http">
    <tp:TransportReceiver>
      <tp:TransportProtocol tp:version="1.1">HTTP</tp:TransportProtocol>
      <tp:Endpoint tp:uri="https://{side}.example/msh" tp:type="allPurpose"/>
      <tp:Endpoint tp:uri="https://{side}.example/errors" tp:type="error"/>
    </tp:TransportReceiver>
  </tp:Transport>
  <tp:DocExchange tp:docExchangeId="{side}-reliable">
    <tp:ebXMLSenderBinding tp:version="2.0">
      <tp:ReliableMessaging>
        <tp:Retries>4</tp:Retries><tp:RetryInterval>PT1H30M</tp:RetryInterval>
        <tp:MessageOrderSemantics>Guaranteed</tp:MessageOrderSemantics>
      </tp:ReliableMessaging>
      <tp:PersistDuration>P2D</tp:PersistDuration>{more.format(side=side)}
    </tp:ebXMLSenderBinding>
    <tp:ebXMLReceiverBinding tp:version="2.0">
      <tp:ReceiverDigitalEnvelope>
        {_ENVELOPE}
        <tp:EncryptionCertificateRef tp:certId="{side}-key"/>
      </tp:ReceiverDigitalEnvelope>
    </tp:ebXMLReceiverBinding>
  </tp:DocExchange>
  <tp:DocExchange tp:docExchangeId="{side}-plain">
    <tp:ebXMLSenderBinding tp:version="2.0"/>
  </tp:DocExchange>
</tp:PartyInfo>"""


def _service(side: str, other: str, sends: str, receives: str, kind: str, number: str) -> str:
    binding = (
        '<tp:{way}><tp:ThisPartyActionBinding tp:id="{side}-{action}{number}"'
        ' tp:action="{action}" tp:packageId="package"><tp:BusinessTransactionCharacteristics/>'
        "<tp:ChannelId>{side}-business</tp:ChannelId></tp:ThisPartyActionBinding>"
        "<tp:OtherPartyActionBinding>{other}-{action}{number}</tp:OtherPartyActionBinding></tp:{way}>"
    )
    names = {"side": side, "other": other, "number": number}
    out = binding.format(way="CanSend", action=sends, **names)
    back = binding.format(way="CanReceive", action=receives, **names)
    typed = f' tp:type="{kind}"' if kind else ""
    return f"""<tp:CollaborationRole>
    <tp:ProcessSpecification tp:name="orders" tp:version="1" {_LINK} xlink:href="urn:orders"/>
    <tp:Role tp:name="role of {side}" {_LINK} xlink:href="urn:orders#{side}"/>
    <tp:ServiceBinding>
      <tp:Service{typed}>Orders</tp:Service>
      {out}{back}
    </tp:ServiceBinding>
  </tp:CollaborationRole>"""


def cpa(more: str = "", status: str = "agreed", types: Types = ("string",)) -> bytes:
    """`more`: of what senders promise."""
    acme = party("acme", "globex", sends="New", receives="Reply", more=more, types=types)
    globex = party("globex", "acme", sends="Reply", receives="New", more=more, types=types)
    return f"""<?xml version="1.0" encoding="UTF-8"?>
<tp:CollaborationProtocolAgreement xmlns:tp="{CPPA}" tp:cpaid="cpa-1" tp:version="2.0b">
<tp:Status tp:value="{status}"/>
<tp:Start>2026-01-01T00:00:00Z</tp:Start><tp:End>2028-01-01T00:00:00Z</tp:End>
{acme}{globex}
<tp:SimplePart tp:id="envelope" tp:mimetype="text/xml"/>
<tp:SimplePart tp:id="payload" tp:mimetype="application/xml"/>
<tp:Packaging tp:id="package">
  <tp:ProcessingCapabilities tp:parse="true" tp:generate="true"/>
  <tp:CompositeList><tp:Composite tp:id="whole" tp:mimetype="multipart/related">
    <tp:Constituent tp:idref="envelope"/><tp:Constituent tp:idref="payload"/>
  </tp:Composite></tp:CompositeList>
</tp:Packaging>
</tp:CollaborationProtocolAgreement>""".encode()
