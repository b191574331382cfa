"""A CPA 2.0, as each of its parties reads it."""

import re
from datetime import UTC, datetime

import pytest

from msh.protocol.ebms.cpa import (
    Channel,
    Cpa,
    CpaParty,
    Encryption,
    NotOne,
    Signing,
    channels,
    who_is_us,
    why_not_in_force,
)
from msh.protocol.ebms.message import PartyId
from msh.protocol.errors import Unreadable
from msh.wire.cpa import LIMIT, parties, read
from tests.wire.cpas import ENCRYPTED, SIGNED, certificate_of, cpa

NOW = datetime(2026, 11, 27, tzinfo=UTC)
ACME, GLOBEX = (CpaParty(name, (PartyId(f"{name}-1", "urn:duns"),)) for name in ("acme", "globex"))


END, CLOSED = b"</tp:DeliveryChannel>", b"</tp:Composite>"


def as_acme(document: bytes) -> Cpa:
    return read(document, ACME)


@pytest.mark.requirement("EB-196")
def test_both_parties_are_named() -> None:
    assert parties(cpa()) == (ACME, GLOBEX)


@pytest.mark.requirement("EB-196")
@pytest.mark.parametrize(
    ("ours", "we", "us"),
    [
        ([PartyId("acme-1", "urn:duns")], "", "acme"),
        ([PartyId("globex-1", "")], "", "globex"),
        ([PartyId("acme-1", "urn:duns")], "globex-1", "globex"),
    ],
)
def test_one_party_is_us(ours: list[PartyId], we: str, us: str) -> None:
    assert who_is_us((ACME, GLOBEX), ours, we).name == us


@pytest.mark.requirement("EB-196")
@pytest.mark.parametrize(
    ("ours", "we", "why"),
    [
        ([], "", "our agreements have PartyIds of neither acme (acme-1) nor globex (globex-1)"),
        ([PartyId("acme-1", "urn:other")], "", "neither acme (acme-1) nor globex (globex-1)"),
        ([PartyId("acme-1"), PartyId("globex-1")], "", "both acme (acme-1) and globex (globex-1)"),
        ([PartyId("acme-1")], "initech", "PartyId initech is of neither acme (acme-1) nor"),
    ],
)
def test_none_or_both_are_refused_with_their_names(ours: list[PartyId], we: str, why: str) -> None:
    with pytest.raises(NotOne, match=re.escape(why)):
        who_is_us((ACME, GLOBEX), ours, we)


@pytest.mark.requirement("EB-195", "EB-201")
def test_what_one_sends_the_other_takes() -> None:
    ours, theirs = as_acme(cpa()), read(cpa(), GLOBEX)
    assert [(one.is_ours, one.action) for one in ours.actions] == [(True, "New"), (False, "Reply")]
    assert [(one.is_ours, one.action) for one in theirs.actions] == [
        (True, "Reply"),
        (False, "New"),
    ]
    new, reply = ours.actions
    assert (new.service, new.service_type) == ("Orders", "string")
    assert (new.from_role, new.to_role) == ("role of acme", "role of globex")
    assert (reply.from_role, reply.to_role) == ("role of globex", "role of acme")
    assert (ours.cpa_id, ours.version, ours.theirs) == ("cpa-1", "2.0b", GLOBEX)


@pytest.mark.requirement("EB-201")
def test_a_channel_is_the_promise_of_its_sender_and_the_address_of_its_receiver() -> None:
    business = as_acme(cpa()).actions[0].channel
    assert business == Channel(
        ack="always",
        ack_signed="never",
        eliminates="always",
        ack_actor="toPartyMSH",
        sync_reply="none",
        address="https://globex.example/msh",
        error_address="https://globex.example/errors",
        retries=4,
        retry_interval=5_400,
        ordered=True,
        persist_duration=172_800,
    )
    signals = as_acme(cpa()).signals_out
    assert (signals.ack, signals.retries, signals.address) == ("never", None, business.address)


@pytest.mark.requirement("EB-195")
def test_the_sender_signs_and_the_receiver_can_decrypt() -> None:
    channel = as_acme(cpa(SIGNED + ENCRYPTED)).actions[0].channel
    assert channel.signing == Signing(
        "http://www.w3.org/2001/04/xmldsig-more#rsa-sha256",
        "http://www.w3.org/2001/04/xmlenc#sha256",
        certificate_of("acme"),
    )
    assert channel.encryption == Encryption(
        "http://www.w3.org/2009/xmlenc11#aes256-gcm", certificate_of("globex")
    )
    assert [one.signing is None for one in channels(as_acme(cpa(SIGNED)))] == [
        *(True, True),
        *(False, False),
    ]


@pytest.mark.requirement("EB-197")
@pytest.mark.parametrize(
    ("status", "now", "why"),
    [
        ("agreed", NOW, ""),
        ("signed", NOW, ""),
        ("proposed", NOW, "Its Status is proposed: only agreed or signed may be used."),
        ("agreed", datetime(2025, 12, 31, tzinfo=UTC), "It begins on 2026-01-01."),
        ("agreed", datetime(2028, 1, 1, tzinfo=UTC), "It has ended on 2028-01-01."),
    ],
)
def test_a_cpa_is_in_force_from_its_start_to_its_end(status: str, now: datetime, why: str) -> None:
    found = as_acme(cpa(status=status))
    assert why_not_in_force(found, now) == why
    allowed = why_not_in_force(found, now, not_yet=True)
    assert allowed == (why if "ended" in why else "")


@pytest.mark.requirement("EB-199")
@pytest.mark.parametrize(
    ("place", "change", "reason"),
    [
        (b'tp:cpaid="cpa-1"', b"", "has no attribute cpaid"),
        (b"tp:CollaborationProtocolAgreement", b"tp:Other", "begins with CollaborationProtocol"),
        (b'tp:channelId="globex-business"', b'tp:channelId="x"', "'globex-business' is referred"),
        (b'Exchange tp:docExchangeId="acme', b'Exchange tp:docExchangeId="x', "'acme-reliable' is"),
        (b'tp:transportId="globex-http">', b'tp:transportId="x">', "'globex-http' is referred to"),
        (b'tp:id="globex-New"', b'tp:id="x"', "'globex-New' is referred to, and is not there"),
        (b"https://globex.example/[a-z]+", b"ftp://x/", "has no endpoint of http, https, mailto"),
        (b"PT1H30M", b"P1Y", "has years or months: say it in days"),
        (b"PT1H30M", b"soon", "is not a duration such as PT5M"),
        (b"PT1H30M", b"P", "is not a duration such as PT5M"),
        (b">4<", b">four<", "Retries 'four' is not a number"),
        (b"2026-01-01T00:00:00Z", b"today", "Start 'today' is not a time"),
        (b'(?s)<tp:PartyInfo tp:partyName="globex".*</tp:PartyInfo>', b"", "this one has 1"),
        (b"<tp:Retries>[^<]*", b"<tp:Retries>-1", "Retries '-1' is not a number"),
        (b"(<tp:CanSend>)<tp:This.*?</tp:This[^>]*>", rb"\1", "has no ThisPartyActionBinding"),
        (b"(<tp:CanSend>).*?(</tp:CanSend>)", rb"\1\2", "has no ThisPartyActionBinding"),
        (b"tp:CanSend", b"tp:CanDo", "no party can send what the other can receive"),
        (b"<tp:Status[^>]*>", b"", "CollaborationProtocolAgreement has Start, End, PartyInfo"),
        (b"<tp:CompositeList>(?s:.)*</tp:CompositeList>", b"", "its parts are ProcessingCap"),
        (b"<tp:Pro[a-z]+Capabilities[^>]*>|<tp:Comp(?s:.)*List>", b"", "Packaging is empty: its"),
        (b' tp:mimetype="text/xml"', b"", "SimplePart has no attribute mimetype"),
        (b'tp:idref="payload"', b'tp:idref="gone"', "Constituent refers to 'gone', which is not"),
        (b'tp:packageId="package"', b'tp:packageId="gone"', "ThisPartyActionBinding refers to"),
        (b">acme-Reply<", b">gone<", "'gone' is referred to, and is not"),
        (b'tp:id="payload"', b'tp:id="package"', "two elements are named 'package'"),
        (b'Requested="never"', b'Requested="perhaps"', "is none of always, never, perMessage"),
    ],
)
def test_what_cannot_be_used_is_refused_as_a_whole(
    place: bytes, change: bytes, reason: str
) -> None:
    document = re.sub(place, change, cpa())
    assert document != cpa()
    with pytest.raises(Unreadable, match=re.escape(reason)):
        as_acme(document)


@pytest.mark.requirement("EB-199")
@pytest.mark.parametrize(
    ("place", "reason"),
    [
        (
            b"<tp:SigningCertificateRef[^>]*>",
            "SenderNonRepudiation has NonRepudiationProtocol, Hash",
        ),
        (
            b"(?s)<tp:MessagingCharacteristics.*?/>",
            "DeliveryChannel is empty: its parts are Messag",
        ),
        (b'tp:action="[A-Za-z]*"', "has no attribute action"),
    ],
)
def test_what_lacks_a_part_is_refused(place: bytes, reason: str) -> None:
    with pytest.raises(Unreadable, match=re.escape(reason)):
        as_acme(re.sub(place, b"", cpa(SIGNED)))


def test_a_party_of_another_cpa_is_none_of_this_one() -> None:
    with pytest.raises(Unreadable, match="initech is none of its parties"):
        read(cpa(), CpaParty("initech", ()))


def test_a_certificate_that_is_none_is_named() -> None:
    for text in (b"=x", b"AAAA"):
        wrong = b"<ds:X509Certificate>" + text + b"<"
        document = re.sub(rb"(?s)<ds:X509Certificate>.*?<", wrong, cpa(SIGNED))
        with pytest.raises(Unreadable, match="Certificate 'acme-key' cannot be read"):
            as_acme(document)


def test_a_certificate_may_be_named_only() -> None:
    document = re.sub(rb"(?s)<ds:X509Data>.*?</ds:X509Data>", b"", cpa(SIGNED))
    signing = as_acme(document).actions[0].channel.signing
    assert signing is not None
    assert signing.certificate == ""


def test_a_cpa_has_a_bound() -> None:
    with pytest.raises(Unreadable, match="at most"):
        parties(b" " * (LIMIT + 1))


@pytest.mark.requirement("EB-077", "EB-198")
@pytest.mark.parametrize(
    ("mode", "note"),
    [
        ("responseOnly", "no Acknowledgment on the connection."),
        ("signalsAndResponse", "an application's answer goes by a POST of its own."),
    ],
)
def test_what_cannot_be_done_here_is_said(mode: str, note: str) -> None:
    document = cpa().replace(b'tp:syncReplyMode="none"', f'tp:syncReplyMode="{mode}"'.encode())
    assert as_acme(document).notes == (f"syncReplyMode {mode}: {note}",)


@pytest.mark.requirement("EB-198")
@pytest.mark.parametrize(
    ("place", "more", "note"),
    [
        (b"", b'<ds:Signature xmlns:ds="http://www.w3.org/2000/09/xmldsig#"/>', "is not verified"),
        (b"<tp:PartyInfo", b"<tp:ConversationConstraints/>", "conversations are not counted."),
        (
            b"<tp:Endpoint",
            b"<tp:AccessAuthentication>basic</tp:AccessAuthentication>",
            "credential",
        ),
        (b"<tp:PartyRef", b'<tp:PartyId tp:type="urn:o">2</tp:PartyId>', "'acme' has several"),
        (
            b"</tp:ebXMLSenderBinding>",
            b"<tp:NamespaceSupported> urn:saml </tp:NamespaceSupported>",
            "NamespaceSupported 'urn:saml': no SOAP extension is made or read.",
        ),
        (b"</tp:ThisParty", b"<tp:ChannelId>acme-signals</tp:ChannelId>", "the first is used"),
        (
            b"</tp:CompositeList>",
            b'<tp:Composite tp:id="c" tp:mimetype="a/b"><tp:Constituent tp:idref="c"/>%s' % CLOSED,
            "Packaging 'package' is nested",
        ),
    ],
)
def test_each_thing_that_is_not_done_is_said(place: bytes, more: bytes, note: str) -> None:
    document = cpa()
    if place:
        assert place in document
        document = document.replace(place, more + place, 1)
    else:
        end = b"</tp:Packaging>"
        document = document.replace(end, end + b"<tp:Signature>" + more + b"</tp:Signature>")
    (found,) = read(document, parties(document)[0]).notes
    assert note in found


@pytest.mark.requirement("EB-198")
@pytest.mark.parametrize(
    "namespace",
    [
        "http://www.oasis-open.org/committees/ebxml-msg/schema/msg-header-2_0.xsd",
        "http://www.oasis-open.org/committees/ebxml-msg/schema",
        "http://www.w3.org/2000/09/xmldsig#",
        "http://www.w3.org/2001/04/xmlenc#",
    ],
)
def test_what_every_envelope_has_is_no_extension(namespace: str) -> None:
    end = b"</tp:ebXMLSenderBinding>"
    supported = f"<tp:NamespaceSupported>{namespace}</tp:NamespaceSupported>".encode()
    assert as_acme(cpa().replace(end, supported + end)).notes == ()


@pytest.mark.requirement("EB-198")
def test_the_namespace_of_a_payload_is_no_extension_of_the_envelope() -> None:
    part = b'<tp:SimplePart tp:id="more" tp:mimetype="application/xml">%s</tp:SimplePart>'
    supported = b"<tp:NamespaceSupported>urn:orders</tp:NamespaceSupported>"
    begin = b"<tp:Packaging "
    assert as_acme(cpa().replace(begin, part % supported + begin)).notes == ()


@pytest.mark.requirement("EB-198")
def test_a_hub_and_nested_responses_are_read() -> None:
    document = cpa().replace(b"actor:toPartyMSH", b"actor:nextMSH")
    found = as_acme(document)
    assert found.actions[0].channel.ack_actor == "nextMSH"
    assert found.notes == ("actor nextMSH: the MSH acknowledges, but passes nothing on.",)


@pytest.mark.requirement("EB-201")
def test_signals_may_go_by_another_channel() -> None:
    override = b'<tp:OverrideMshActionBinding tp:action="MessageError" tp:channelId="%s-business"/>'
    end = b"</tp:PartyInfo>"
    first, second, rest = cpa().split(end)
    document = first + override % b"acme" + end + second + override % b"globex" + end + rest
    found = as_acme(document)
    assert list(found.overrides) == ["MessageError"]
    assert found.overrides["MessageError"].address == "https://globex.example/msh"


def test_a_mail_address_may_have_slashes() -> None:
    document = cpa().replace(b"https://globex.example/msh", b"mailto://globex@globex.example")
    assert as_acme(document).actions[0].channel.address == "mailto:globex@globex.example"


def test_services_of_the_mshs_are_no_actions() -> None:
    document = cpa().replace(b">Orders<", b">urn:oasis:names:tc:ebxml-msg:service<")
    with pytest.raises(Unreadable, match="no party can send"):
        as_acme(document)


def test_what_a_cpa_leaves_open_is_per_message() -> None:
    document = re.sub(rb"(?s)<tp:MessagingCharacteristics.*?/>", b"", cpa(SIGNED + ENCRYPTED))
    document = document.replace(b"</tp:DeliveryChannel>", b"<tp:MessagingCharacteristics/>" + END)
    channel = as_acme(document).actions[0].channel
    assert (channel.ack, channel.eliminates, channel.sync_reply) == (
        *("perMessage", "perMessage"),
        "none",
    )
