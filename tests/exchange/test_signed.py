"""Signed messages and Acknowledgments: between two real MSHs, and with a peer that lies."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from pytest_django import DjangoDbBlocker

from msh.flows.sending.submit import submit
from msh.models import History, InboundMessage, Incident, OutboundMessage, Signal
from msh.pem import SigningKey, Trusted
from msh.protocol.ebms.message import ReceivedMessage
from msh.protocol.ebms.signature import SignatureTerms, SignedReference
from msh.protocol.message import Payload
from msh.protocol.vocabulary import DeliverySemantics
from msh.store.operations.operator_actions import open_links
from msh.wire import stored_document
from msh.wire.ebms2.envelope import parse
from msh.wire.ebms2.signature import references_of, sign, verified
from msh.wire.ebms2.writer import signed_reference
from partners.models import Agreement, Credential, Partner, digest_of
from partners.models.partner import OutgoingKind
from tests.exchange.machine import Machine
from tests.exchange.running import two_machines
from tests.exchange.test_ebms2 import Ebms2Partner
from tests.keys import environment, new_key, pem_of
from tests.leaks import leaks
from tests.peer import Peer, Received
from tests.peer.ebms2 import acknowledgment, acknowledgment_block
from tests.peer.sending import Request
from tests.waiting import wait_until

A, B, NEXT_A, PEER = (new_key(name, end=400) for name in ("a", "b", "next a", "peer"))
PAYLOADS = [Payload(b"<order/>", "application/xml"), Payload(bytes(range(256)) * 40)]
WITHIN = 90.0  # seconds


@dataclass
class Signing:
    """An MSH that signs, with the folder of its key."""

    msh: Machine
    keys: Path


@pytest.fixture(scope="module")
def both(
    tmp_path_factory: pytest.TempPathFactory, django_db_blocker: DjangoDbBlocker
) -> Iterator[tuple[Signing, Signing]]:
    with django_db_blocker.unblock(), two("signed", tmp_path_factory, client_environment) as (a, b):
        agree(a, b, "b", [B], signature_method="rsa-sha512")
        agree(b, a, "a", [A, NEXT_A])
        yield a, b


@contextmanager
def two(
    name: str,
    tmp_path_factory: pytest.TempPathFactory,
    more: Callable[[str, Path], Mapping[str, Any]] = lambda letter, folder: {},
) -> Iterator[tuple[Signing, Signing]]:
    """A and B, which sign, and have `more` settings, of their letter and the folder of keys."""
    keys = {letter: tmp_path_factory.mktemp(f"keys-{letter}") for letter in "ab"}

    def settings_of(letter: str) -> Mapping[str, Any]:
        own = keys[letter]
        return {**environment(own, [{"a": A, "b": B}[letter]]), **more(letter, own)}

    with two_machines(name, tmp_path_factory, settings_of) as (a, b):
        yield Signing(a, keys["a"]), Signing(b, keys["b"])


def agree(side: Signing, other: Signing, name: str, keys: list[SigningKey], **terms: Any) -> None:
    """With the other MSH, whose certificates these are."""
    signs = {"signed": True, "ack_signed": True, "certificate": "\n".join(map(pem_of, keys))}
    with side.msh.database():
        partner = Partner.objects.filter(name=name).first()
        if partner is None:
            partner = Partner(name=name, uri=other.msh.uri, address=other.msh.url)
            partner.show(OutgoingKind.BEARER, f"token-of-{side.msh.uri}")
            partner.save()
            shown = digest_of(f"token-of-{other.msh.uri}")
            Credential.objects.create(partner=partner, sha256=shown)
        ours, theirs = ("1", "2") if name == "b" else ("2", "1")
        agreement = Agreement(
            partner=partner,
            dialect="ebms2",
            our_party=ours,
            their_party=theirs,
            our_party_context="DUNS",
            their_party_context="DUNS",
            retry_interval=2,
            retries=20,
            **{"tpa_id": "cpa", **signs, **terms},
        )
        agreement.full_clean()
        agreement.save()
        open_links(partner)


def submits(
    side: Signing, count: int, semantics: DeliverySemantics | None = None, tpa_id: str = "cpa"
) -> list[str]:
    with side.msh.database():
        agreement = Agreement.objects.get(tpa_id=tpa_id)
        return [
            submit(agreement, "urn:orders", "New", PAYLOADS, semantics=semantics).message_id
            for _ in range(count)
        ]


def until(side: Signing, model: Any, message_ids: list[str], **state: Any) -> None:
    with side.msh.database():
        rows = model.objects.filter(message_id__in=message_ids, **state)
        wait_until(lambda: rows.count() == len(message_ids), seconds=WITHIN)


def values(references: Iterable[SignedReference]) -> list[tuple[str, str]]:
    return [(one.uri, one.value) for one in references]


@pytest.mark.requirement("EB-098", "EB-099", "EB-165", "EB-168", "EB-179")
def test_two_msh_exchange_signed_messages_and_signed_acknowledgments(
    both: tuple[Signing, Signing],
) -> None:
    """A signs by another method than B."""
    for here, there in (both, both[::-1]):
        bits = {True: "512", False: "256"}
        sent = submits(here, 5)
        once = submits(here, 1, DeliverySemantics.BEST_EFFORT)
        until(here, OutboundMessage, sent, state="acknowledged")
        until(there, InboundMessage, [*sent, *once])
        with here.msh.database():
            written = {one.message_id: envelope_of(one) for one in OutboundMessage.objects.all()}
            assert {method_of(one) for one in written.values()} == {bits[here is both[0]]}
            assert not Incident.objects.exists()
        with there.msh.database():
            for one in InboundMessage.objects.filter(message_id__in=sent):
                assert bytes(one.header) == written[one.message_id]
                contents = [bytes(part.content) for part in one.payloads.order_by("position")]
                assert contents == [payload.content for payload in PAYLOADS]
                answer = bytes(Signal.objects.get(ref_to_message_id=one.message_id).body or b"")
                (block,) = parse("text/xml", answer).message.acknowledgments
                assert values(block.digests) == values(references_of(written[one.message_id]))
                assert len(block.digests) == 1 + len(PAYLOADS)
                assert values(references_of(answer))
                assert method_of(answer) == bits[there is both[0]]


def method_of(envelope: bytes) -> str:
    """The hash by which it is signed."""
    (method,) = re.findall(rb'SignatureMethod Algorithm="[^"]+#rsa-sha([0-9]+)"', envelope)
    return str(method.decode())


def envelope_of(message: OutboundMessage) -> bytes:
    return stored_document(bytes(message.head or b""), message.boundary)


@pytest.fixture
def peer(both: tuple[Signing, Signing]) -> Iterator[Ebms2Partner]:
    """A scripted partner of A, which signs too."""
    here = both[0].msh
    with here.database(), Peer(here.url) as peer:
        partner = Ebms2Partner(here, peer)
        terms = {"signed": True, "ack_signed": True, "certificate": pem_of(PEER)}
        for name, value in {**terms, "retry_interval": 2, "retries": 30}.items():
            setattr(partner.agreement, name, value)
        partner.agreement.save()
        open_links(Partner.objects.get(pk=partner.agreement.partner_id))
        yield partner


def first_copy(peer: Ebms2Partner, submitted: OutboundMessage) -> Received:
    def is_copy(one: Received) -> bool:
        return submitted.message_id.encode() in one.body

    return peer.peer.received.wait_for_count(1, is_copy, timeout=WITHIN)[0]


def proven(came: Received, *keys: SigningKey) -> ReceivedMessage:
    trusted = [Trusted(one.certificate) for one in keys]
    message = parse(came.headers["Content-Type"], came.body)
    return verified(message, trusted, SignatureTerms(), datetime.now(UTC))


def acknowledge(
    peer: Ebms2Partner, of: str, digests: Iterable[SignedReference], key: SigningKey | None
) -> None:
    end = "</eb:Acknowledgment>"
    block = acknowledgment_block(of).replace(end, "".join(map(signed_reference, digests)) + end)
    plain = acknowledgment(of, cpa_id=peer.agreement.tpa_id).but(extra=block)
    body = plain.envelope.encode() if key is None else sign(plain.envelope.encode(), {}, key)
    kind = {"Content-Type": "text/xml", "Authorization": f"Bearer {peer.token}"}
    assert Request(peer.msh.url, headers=kind, body=body).send().status == 204


@pytest.mark.requirement("EB-098", "EB-099", "EB-178", "EB-179")
def test_acknowledgment_that_lies_is_none(peer: Ebms2Partner) -> None:
    message = submit(peer.agreement, "urn:orders", "New", PAYLOADS)
    came = proven(first_copy(peer, message), A, NEXT_A)
    assert [asked.signed for asked in came.message.ack_requested] == [True]
    digests = came.signed_by_partner
    assert [one.content for one in came.payloads] == [one.content for one in PAYLOADS]
    lies = (digests[0], replace(digests[1], value="A" + digests[1].value[1:]), digests[2])
    wrong: list[tuple[Any, SigningKey | None, str]] = [
        (digests, None, "is not signed, which the agreement wants"),
        (lies, PEER, "has digests of another message"),
        (digests[:2], PEER, "has digests of another message"),
        ((), PEER, "has no digests of the message"),
        (digests, B, "names a certificate that is none of the agreement's"),
    ]

    for said, key, reason in wrong:
        acknowledge(peer, message.message_id, said, key)
        refused = History.objects.of_message(message.message_id)
        assert refused.filter(
            event="PartnerAcknowledgmentRefused", detail__contains=reason
        ).exists()
    message.refresh_from_db()
    assert message.state == "flying"
    (incident,) = Incident.objects.filter(partner=peer.agreement.partner_id)
    assert incident.kind == "answer_refused"

    acknowledge(peer, message.message_id, digests, PEER)
    wait_until(partial(is_acknowledged, message), seconds=WITHIN)


def is_acknowledged(message: OutboundMessage) -> bool:
    return OutboundMessage.objects.get(pk=message.pk).state == "acknowledged"


@pytest.mark.requirement("EB-178")
def test_every_copy_has_the_signature_of_the_first_also_after_a_change_of_our_key(
    both: tuple[Signing, Signing], peer: Ebms2Partner
) -> None:
    before = submit(peer.agreement, "urn:orders", "New", PAYLOADS)
    first = first_copy(peer, before)
    environment(both[0].keys, [NEXT_A])
    after = submit(peer.agreement, "urn:orders", "New", PAYLOADS)
    proven(first_copy(peer, after), NEXT_A)

    copies = peer.peer.received.wait_for_count(
        2, lambda one: before.message_id.encode() in one.body, timeout=WITHIN
    )
    assert {one.body for one in copies} == {first.body}
    for one in (before, after):
        of = next(copy for copy in peer.peer.received.all() if one.message_id.encode() in copy.body)
        references = proven(of, A, NEXT_A).signed_by_partner
        acknowledge(peer, one.message_id, references, PEER)
        wait_until(partial(is_acknowledged, one), seconds=WITHIN)
    sent = submits(both[0], 3)
    until(both[0], OutboundMessage, sent, state="acknowledged")


def client_environment(_letter: str, folder: Path) -> dict[str, str]:
    """The settings of an MSH that shows partners a certificate over TLS."""
    client = new_key("client", end=400)
    (folder / "client.key").write_bytes(client.private)
    (folder / "client.crt").write_text(pem_of(client))
    return {
        "MSH_CLIENT_CERTIFICATE": str(folder / "client.crt"),
        "MSH_CLIENT_KEY": str(folder / "client.key"),
    }


@pytest.mark.requirement("EB-178")
def test_no_key_is_in_a_row_or_a_log(both: tuple[Signing, Signing]) -> None:
    for side in both:
        submits(side, 1)
    assert_no_key_is_kept(both)


def assert_no_key_is_kept(both: tuple[Signing, Signing]) -> None:
    """Neither in a row nor in a log. Pages and all else: tests/production/test_private_keys.py."""
    for side in both:
        keys = [file.read_bytes() for file in side.keys.glob("*.key")]
        logs = [file.read_bytes() for file in side.msh.folder.rglob("*.log")]
        assert keys
        assert logs
        assert not [log for log in logs if leaks(log, *keys)]
        with side.msh.database(), connection.cursor() as cursor:
            cursor.execute(
                "SELECT quote_ident(table_name) FROM information_schema.tables"
                " WHERE table_schema = 'public'"
            )
            for (table,) in cursor.fetchall():
                cursor.execute(f"SELECT row::text FROM {table} row")
                rows = "".join(text for (text,) in cursor.fetchall())
                assert not leaks(rows, *keys), table
