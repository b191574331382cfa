"""SequenceNumbers, as a partner sees them (000 §2.2.2)."""

from datetime import timedelta

import pytest
from django.db import IntegrityError, transaction
from django.utils import timezone

from msh.models import OutboundMessage
from tests.exchange.machine import Machine
from tests.exchange.pair import WAITS, Pair, PairFactory
from tests.waiting import wait_until

YEAR = timedelta(days=365)


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


@pytest.mark.requirement("000-044", "000-046")
def test_numbers_wrap_around(pair: PairFactory) -> None:
    partner = pair(acknowledges=True)
    partner.start_link(last=999_999_997)
    for message in [partner.submit() for _ in range(4)]:
        partner.wait_for_state(message)
    texts = [one.message.text("RoutingHeader/SequenceNumber") for one in partner.peer.received]
    assert texts == ["999999998", "999999999", "1", "2"]


@pytest.mark.requirement("000-045", "000-092")
def test_numbers_belong_to_the_pair(pair: PairFactory) -> None:
    """Each pair counts from 1, and the database refuses a number twice."""
    partners = [pair(acknowledges=True) for _ in range(2)]
    for partner in partners:
        for message in [partner.submit(), partner.submit()]:
            partner.wait_for_state(message)
        assert numbers(partner) == [1, 2]
    second = OutboundMessage.objects.get(agreement=partners[0].agreement, sequence_number=2)
    second.sequence_number = 1
    with pytest.raises(IntegrityError, match="outbound_number_once"):
        second.save(update_fields=["sequence_number"])


@pytest.mark.requirement("000-048")
def test_numbers_are_not_forgotten_by_time(pair: PairFactory) -> None:
    """A year without a message changes nothing (D17)."""
    partner = pair(acknowledges=True)
    message = partner.submit()
    partner.wait_for_state(message)
    long_ago = timezone.now() - YEAR
    OutboundMessage.objects.filter(pk=message.pk).update(
        submitted_at=long_ago, first_sent_at=long_ago, completed_at=long_ago
    )
    partner.wait_for_state(partner.submit())
    assert numbers(partner) == [1, 2]
