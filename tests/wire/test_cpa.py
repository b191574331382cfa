"""A CPA 2.0, as each of its parties reads it."""

import re
from datetime import UTC, datetime

import pytest

from msh.protocol.ebms.cpa import (
    Channel,
    Cpa,
    CpaParty,
    Encryption,
    Signing,
    channels,
    why_not_in_force,
)
from msh.protocol.ebms.message import PartyId
from msh.protocol.errors import Unreadable
from msh.wire.cpa import LIMIT, parties, read
from tests.wire.cpas import CERTIFICATE, ENCRYPTED, SIGNED, cpa

NOW = datetime(2026, 11, 27, tzinfo=UTC)
ACME, GLOBEX = (CpaParty(name, (PartyId(f"{name}-1", "urn:duns"),)) for name in ("acme", "globex"))


def as_acme(document: bytes) -> Cpa:
    return read(document, ACME)


@pytest.mark.requirement("EB-196")
def test_both_parties_are_named() -> None:
    assert parties(cpa()) == (ACME, GLOBEX)


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
        CERTIFICATE + b"acme",
    )
    assert channel.encryption == Encryption(
        "http://www.w3.org/2009/xmlenc11#aes256-gcm", CERTIFICATE + b"globex"
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
    assert "begins" not in why_not_in_force(found, now, not_yet=True)


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
    ],
)
def test_what_cannot_be_used_is_refused_as_a_whole(
    place: bytes, change: bytes, reason: str
) -> None:
    document = re.sub(place, change, cpa())
    assert document != cpa()
    with pytest.raises(Unreadable, match=re.escape(reason)):
        as_acme(document)


def test_a_party_of_another_cpa_is_none_of_this_one() -> None:
    with pytest.raises(Unreadable, match="initech is none of its parties"):
        read(cpa(), CpaParty("initech", ()))


def test_a_certificate_that_is_no_base64_is_named() -> None:
    document = re.sub(rb"(?s)<ds:X509Certificate>.*?<", b"<ds:X509Certificate>=x<", cpa(SIGNED))
    with pytest.raises(Unreadable, match="Certificate 'acme-key' cannot be read"):
        as_acme(document)


def test_a_cpa_has_a_bound() -> None:
    with pytest.raises(Unreadable, match="at most"):
        parties(b" " * (LIMIT + 1))


@pytest.mark.requirement("EB-198")
def test_what_cannot_be_done_here_is_said() -> None:
    document = cpa().replace(b'tp:syncReplyMode="none"', b'tp:syncReplyMode="responseOnly"')
    assert as_acme(document).notes == (
        "syncReplyMode responseOnly: no Acknowledgment on the connection.",
    )


def test_services_of_the_mshs_are_no_actions() -> None:
    document = cpa().replace(b">Orders<", b">urn:oasis:names:tc:ebxml-msg:service<")
    with pytest.raises(Unreadable, match="no party can send"):
        as_acme(document)


def test_what_a_cpa_leaves_open_is_per_message_and_without_certificates() -> None:
    document = re.sub(rb"(?s)<tp:MessagingCharacteristics.*?/>", b"", cpa(SIGNED + ENCRYPTED))
    document = re.sub(rb"<tp:(Signing|Encryption)CertificateRef[^>]*>", b"", document)
    channel = as_acme(document).actions[0].channel
    assert (channel.ack, channel.eliminates, channel.sync_reply) == (
        *("perMessage", "perMessage"),
        "none",
    )
    assert channel.signing
    assert channel.encryption
    assert (channel.signing.certificate, channel.encryption.certificate) == (b"", b"")
