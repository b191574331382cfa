"""Keys and certificates that are changed while signed messages are under way."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pytest_django import DjangoDbBlocker

from msh.models import History, InboundMessage, Incident, OutboundMessage, Signal
from msh.pem import SigningKey
from partners.models import Agreement
from tests.exchange.test_signed import NEXT_A, WITHIN, A, B, Signing, agree, submits, two, until
from tests.keys import environment, new_key, pem_of
from tests.waiting import wait_until

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
    sent: list[str] = []

    def pin_both() -> None:
        pin(b, A, NEXT_A)
        pin(a, B, NEXT_B)

    steps: tuple[Callable[[], object], ...] = (
        pin_both,
        lambda: environment(a.keys, [NEXT_A]),
        lambda: environment(b.keys, [NEXT_B]),
    )
    for step in steps:
        before = len(sent)
        sent += submits(a, LOT)
        begun(a, sent, before)
        step()
    until(a, OutboundMessage, sent, state="acknowledged")
    pin(b, NEXT_A)
    pin(a, NEXT_B)
    sent += submits(a, LOT)
    until(a, OutboundMessage, sent, state="acknowledged")
    until(b, InboundMessage, sent)

    for side in sides:
        with side.msh.database():
            assert not Incident.objects.exists()
            assert not History.objects.filter(event__contains="Refused").exists()
    with b.msh.database():
        assert InboundMessage.objects.count() == len(sent)
        messages = [one.header for one in InboundMessage.objects.all()]
        answers = [one.body for one in Signal.objects.exclude(body=None)]
    for bodies, old, new in ((messages, A, NEXT_A), (answers, B, NEXT_B)):
        counts = signed_with(old, bodies), signed_with(new, bodies)
        assert min(counts) >= LOT // 2, counts
        assert sum(counts) == len(bodies)
