"""Keys, certificates and CPAs that are changed while signed messages are under way."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest
from pytest_django import DjangoDbBlocker

from msh.flows.operations.cpas import Wanted, carry_out, plan
from msh.models import History, InboundMessage, Incident, OutboundMessage, Signal
from msh.pem import SigningKey
from msh.store.history import Actor
from partners.models import Agreement
from tests.exchange.test_signed import NEXT_A, WITHIN, A, B, Signing, agree, submits, two, until
from tests.keys import environment, new_key, pem_of
from tests.waiting import wait_until
from tests.wire.cpas import SIGNED, certificate_of, cpa

NEXT_B = new_key("next b", end=400)
LOT = 50
"""Messages that are submitted before each step; some of them are under way when it is done."""


@pytest.fixture
def sides(
    tmp_path_factory: pytest.TempPathFactory, django_db_blocker: DjangoDbBlocker
) -> Iterator[tuple[Signing, Signing]]:
    with django_db_blocker.unblock(), two("rollover", tmp_path_factory) as (a, b):
        agree(a, b, "b", [B])
        agree(b, a, "a", [A])
        yield a, b


def pin(side: Signing, *keys: SigningKey) -> None:
    """The certificates of the other one, in this order."""
    with side.msh.database():
        agreement = Agreement.objects.get()
        agreement.certificate = "\n".join(map(pem_of, keys))
        agreement.full_clean()
        agreement.save()


def begun(side: Signing, sent: list[str], before: int) -> None:
    """Some of what was submitted last are acknowledged; others are not."""
    with side.msh.database():
        acknowledged = OutboundMessage.objects.filter(state="acknowledged")
        wait_until(lambda: acknowledged.count() > before, seconds=WITHIN)
        assert acknowledged.count() < len(sent), "nothing was under way: submit more"


def signed_with(key: SigningKey, bodies: list[Any]) -> int:
    """Of so many of these the KeyInfo names its certificate."""
    lines = pem_of(key).encode().splitlines()[1:-1]
    return sum(lines[len(lines) // 2] in b"".join(bytes(one).split()) for one in bodies)


@pytest.mark.requirement("EB-178")
def test_a_change_of_both_keys_under_load_loses_doubles_and_refuses_nothing(
    sides: tuple[Signing, Signing],
) -> None:
    """As docs/ebms2.md says: the partner pins the next certificate, the key is changed, and the
    old certificate goes when nothing that it has signed is under way."""
    a, b = sides

    def pin_both() -> None:
        pin(b, A, NEXT_A)
        pin(a, B, NEXT_B)

    steps: tuple[Callable[[], object], ...] = (
        pin_both,
        lambda: environment(a.keys, [NEXT_A]),
        lambda: environment(b.keys, [NEXT_B]),
    )
    sent = under_load(a, "cpa", steps)
    until(a, OutboundMessage, sent, state="acknowledged")
    pin(b, NEXT_A)
    pin(a, NEXT_B)
    sent += submits(a, LOT)
    assert_taken_once(a, b, sent)


@pytest.mark.requirement("EB-178", "EB-195")
def test_a_change_of_a_cpa_under_load_loses_doubles_and_refuses_nothing(
    sides: tuple[Signing, Signing],
) -> None:
    """Both import the next CPA, of other certificates and a later Start, and then change keys."""
    a, b = sides
    first = agreed(a, b, A, B, "2026-01-01")
    following = agreed(a, b, NEXT_A, NEXT_B, "2026-02-01")

    def import_at_both(content: bytes) -> None:
        take(b, "a", "globex-1", content)
        take(a, "b", "acme-1", content)

    import_at_both(first)
    steps: tuple[Callable[[], object], ...] = (
        lambda: import_at_both(following),
        lambda: environment(a.keys, [NEXT_A]),
        lambda: environment(b.keys, [NEXT_B]),
    )
    sent = under_load(a, "cpa-1", steps)
    sent += submits(a, LOT, tpa_id="cpa-1")
    assert_taken_once(a, b, sent)


def agreed(a: Signing, b: Signing, of_a: SigningKey, of_b: SigningKey, start: str) -> bytes:
    """A CPA of both, who sign messages and Acknowledgments with these keys."""
    text = cpa(SIGNED).decode().replace("2026-01-01", start)
    for party, side, key in (("acme", a, of_a), ("globex", b, of_b)):
        text = text.replace(base64_of(certificate_of(party)), base64_of(pem_of(key)))
        for end in ("msh", "errors"):
            text = text.replace(f"https://{party}.example/{end}", side.msh.url)
    ack, of_business = "ackSignatureRequested=", ' tp:duplicateElimination="always"'
    for old, new in {
        f'{ack}"never"{of_business}': f'{ack}"always"{of_business}',
        ">Guaranteed<": ">NotGuaranteed<",
        ">Orders<": ">urn:orders<",
        ">4<": ">20<",
        "PT1H30M": "PT2S",
    }.items():
        assert old in text
        text = text.replace(old, new)
    return text.encode()


def base64_of(pem: str) -> str:
    return "".join(pem.splitlines()[1:-1])


def take(side: Signing, partner: str, we: str, content: bytes) -> None:
    with side.msh.database():
        carry_out(plan(content, Wanted(we, partner)), Actor("operator", "the next CPA"))


def under_load(side: Signing, tpa_id: str, steps: Iterable[Callable[[], object]]) -> list[str]:
    """What was submitted: a lot before each step, which is done while some of it is under way."""
    sent: list[str] = []
    for step in steps:
        before = len(sent)
        sent += submits(side, LOT, tpa_id=tpa_id)
        begun(side, sent, before)
        step()
    return sent


def assert_taken_once(a: Signing, b: Signing, sent: list[str]) -> None:
    """Nobody has complained, and each of the four keys has signed."""
    until(a, OutboundMessage, sent, state="acknowledged")
    until(b, InboundMessage, sent, state="delivered")

    for side in (a, b):
        with side.msh.database():
            assert not Incident.objects.exists()
            assert not History.objects.filter(event__contains="Refused").exists()
    with b.msh.database():
        assert InboundMessage.objects.count() == len(sent)
    assert sorted(b.msh.delivered(sent)) == sorted(sent)
    with b.msh.database():
        messages = [one.header for one in InboundMessage.objects.all()]
        answers = [one.body for one in Signal.objects.exclude(body=None)]
    for bodies, old, new in ((messages, A, NEXT_A), (answers, B, NEXT_B)):
        counts = signed_with(old, bodies), signed_with(new, bodies)
        assert min(counts) >= LOT // 2, counts
        assert sum(counts) == len(bodies)
