"""Encrypted messages between two real MSHs: with signatures and without, over restarts, and while
keys are changed."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from django.db.models import Count
from pytest_django import DjangoDbBlocker

from msh.flows.operations.inspection.raw_message import body_of
from msh.models import InboundMessage, Incident, OutboundMessage, OutboundPayload
from msh.protocol.vocabulary import DeliverySemantics
from partners.models import Agreement
from tests.exchange.test_signed import (
    NEXT_A,
    PAYLOADS,
    WITHIN,
    A,
    B,
    Signing,
    agree,
    assert_no_key_is_kept,
    submits,
    two,
    until,
)
from tests.keys import decrypting, new_key, pem_of
from tests.waiting import wait_until

OLD_B, NEXT_B = new_key("old b", end=400), new_key("next b", begin=0, end=400)
OF_B = new_key("b decrypts", end=400)
PLAIN, UNSIGNED = "cpa", "cpa-unsigned"


def keys_of(letter: str, folder: Path) -> dict[str, Any]:
    return decrypting(folder, [A] if letter == "a" else [OLD_B, OF_B])


@pytest.fixture(scope="module")
def both(
    tmp_path_factory: pytest.TempPathFactory, django_db_blocker: DjangoDbBlocker
) -> Iterator[tuple[Signing, Signing]]:
    """For A that what it signs by is encrypted, for B another certificate."""
    with (
        django_db_blocker.unblock(),
        two("encrypted", tmp_path_factory, keys_of) as (a, b),
    ):
        of_b = {"encrypted": True, "encryption_certificate": pem_of(OF_B)}
        unsigned = {"tpa_id": UNSIGNED, "signed": False, "ack_signed": False}
        agree(a, b, "b", [B], **of_b)
        agree(b, a, "a", [A, NEXT_A], encrypted=True, encryption_certificate=pem_of(A))
        agree(a, b, "b", [B], **of_b, **unsigned)
        agree(b, a, "a", [A], encrypted=True, encryption_method="aes128-gcm", **unsigned)
        yield a, b


def assert_taken_once(here: Signing, there: Signing, sent: list[str]) -> None:
    """Plain on both sides, encrypted between them; nobody has complained."""
    until(here, OutboundMessage, sent, state="acknowledged")
    until(there, InboundMessage, sent, state="delivered")
    with here.msh.database():
        messages = OutboundMessage.objects.filter(message_id__in=sent)
        for one in messages:
            body = body_of(one).content
            assert not any(payload.content in body for payload in PAYLOADS)
            assert body.count(b"EncryptedData>") == len(PAYLOADS)
        parts = OutboundPayload.objects.filter(message__in=messages)
        assert parts.filter(encrypted=None).count() == 0
        assert not Incident.objects.exists()
    with there.msh.database():
        for received in InboundMessage.objects.filter(message_id__in=sent):
            found = [
                (one.content_type, bytes(one.content))
                for one in received.payloads.order_by("position")
            ]
            assert found == [(one.content_type, one.content) for one in PAYLOADS]
        assert not Incident.objects.exists()


@pytest.mark.requirement("EB-010", "EB-176", "EB-185")
@pytest.mark.parametrize("tpa_id", [PLAIN, UNSIGNED])
def test_two_msh_exchange_encrypted_messages(both: tuple[Signing, Signing], tpa_id: str) -> None:
    for here, there in (both, both[::-1]):
        sent = submits(here, 5, tpa_id=tpa_id)
        once = submits(here, 1, DeliverySemantics.BEST_EFFORT, tpa_id=tpa_id)
        until(there, InboundMessage, once, state="delivered")
        assert_taken_once(here, there, sent)


@pytest.mark.requirement("EB-178", "EB-185")
def test_copies_are_the_same_after_a_restart(both: tuple[Signing, Signing]) -> None:
    """B is away; A loses its power, and then sends what it has stored."""
    a, b = both
    b.msh.stop()
    try:
        sent = submits(a, 3) + submits(a, 3, tpa_id=UNSIGNED)
        with a.msh.database():
            messages = OutboundMessage.objects.filter(message_id__in=sent)
            tried = messages.annotate(tries=Count("attempts")).filter(tries__gte=1)
            wait_until(lambda: tried.count() > 0, seconds=WITHIN)
            composed = {one.message_id: body_of(one).content for one in tried}
        a.msh.cut_power()
        a.msh.start()
    finally:
        b.msh.start()
    until(a, OutboundMessage, sent, state="acknowledged")
    with a.msh.database():
        for message_id, body in composed.items():
            assert body_of(OutboundMessage.objects.get(message_id=message_id)).content == body
        Incident.objects.all().delete()  # B was away
    assert_taken_once(a, b, sent)


@pytest.mark.requirement("EB-178", "EB-185")
def test_no_message_is_lost_while_a_key_is_changed(both: tuple[Signing, Signing]) -> None:
    """B reads its new key beside the old one, then A encrypts for it, then the old one goes."""
    a, b = both
    sent = submits(a, 10)
    decrypting(b.keys, [NEXT_B, OF_B])
    sent += submits(a, 10)
    change(a, encryption_certificate=f"{pem_of(OF_B)}\n{pem_of(NEXT_B)}")
    sent += submits(a, 10)
    until(a, OutboundMessage, sent, state="acknowledged")
    decrypting(b.keys, [NEXT_B, OLD_B])
    sent += submits(a, 10)
    assert_taken_once(a, b, sent)
    with a.msh.database():
        bodies = map(body_of, OutboundMessage.objects.filter(message_id__in=sent[-10:]))
        der = "".join(pem_of(NEXT_B).splitlines()[1:-1]).encode()
        assert all(der in one.content for one in bodies)


def change(side: Signing, **terms: Any) -> None:
    with side.msh.database():
        agreement = Agreement.objects.get(tpa_id=PLAIN)
        for name, value in terms.items():
            setattr(agreement, name, value)
        agreement.full_clean()
        agreement.save()


@pytest.mark.requirement("EB-187")
def test_what_is_encrypted_for_somebody_else_is_refused_and_said_on_both_sides(
    both: tuple[Signing, Signing],
) -> None:
    a, b = both
    change(a, encryption_certificate=pem_of(new_key("stranger", end=400)))
    (sent,) = submits(a, 1)
    until(a, OutboundMessage, [sent], state="failed")
    with b.msh.database():
        found = partial(Incident.objects.filter, kind="signature_refused", message_id=sent)
        wait_until(lambda: found().exists(), seconds=WITHIN)
        assert "cannot be decrypted by a key of ours" in found().get().detail
        assert not InboundMessage.objects.filter(message_id=sent).exists()
    change(a, encryption_certificate=pem_of(NEXT_B))


@pytest.mark.requirement("EB-178")
def test_no_key_is_in_a_row_or_a_log(both: tuple[Signing, Signing]) -> None:
    assert_no_key_is_kept(both)
