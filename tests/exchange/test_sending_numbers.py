"""SequenceNumbers, as a partner sees them (000 §2.2.2)."""

import pytest
from django.db import transaction

from msh.models import OutboundMessage
from tests.exchange.machine import Machine
from tests.exchange.pair import WAITS, Pair, PairFactory
from tests.waiting import wait_until


def numbers(pair: Pair) -> list[int | None]:
    """In the order of their arrival."""
    return [received.message.sequence_number for received in pair.peer.received.normals()]


@pytest.mark.requirement("000-042", "000-043", "000-045")
def test_numbers_have_no_gap(pair: PairFactory, msh: Machine) -> None:
    """Two submitting processes of four threads, each of which rolls back half of its work."""
    partner = pair(timeout=60, acknowledges=True)
    submitters = [
        msh.start_python("-m", "tests.exchange.submitter", str(partner.agreement.pk), "4", "5")
        for _ in range(2)
    ]
    assert [submitter.communicate()[0].split() for submitter in submitters] == [[b"20"]] * 2
    wait_until(lambda: partner.acknowledged() == 40, seconds=WAITS)

    assert numbers(partner) == list(range(1, 41))
    assert {received.message.action for received in partner.peer.received} == {"New"}


@pytest.mark.requirement("000-043", "003-01")
def test_rolled_back_submit_leaves_nothing(pair: PairFactory) -> None:
    """The message is the application's transaction, which may change its mind."""
    partner = pair(acknowledges=True)

    def change_mind() -> None:
        with transaction.atomic():
            partner.submit()
            raise LookupError

    with pytest.raises(LookupError):
        change_mind()
    assert not OutboundMessage.objects.filter(agreement=partner.agreement).exists()
    with transaction.atomic():
        message = partner.submit()
        assert len(partner.peer.received) == 0
    partner.wait_for_state(message)
    assert numbers(partner) == [1]
