"""A process kills itself at each named point: nothing is lost, duplicated or silently suspended."""

import signal
from collections.abc import Iterator

import pytest

from msh.faults import CrashPoint
from msh.models import InboundMessage, OutboundLink, OutboundMessage
from msh.protocol.lane import LaneState
from tests.exchange.machine import Machine
from tests.exchange.pair import WAITS, Pair, PairFactory, let_sweeps_pass
from tests.exchange.test_routing import FORWARDING
from tests.peer import Draft, normal
from tests.waiting import wait_until

# These need a consumer that is given a message before anything is committed: test_delivery.py.
CONSUMING = {point for point in CrashPoint if point.startswith("consumer-")} | {
    CrashPoint.DELIVER_AFTER_CLAIM
}
SUBMITTING = {CrashPoint.SUBMIT_BEFORE_COMMIT, CrashPoint.SUBMIT_AFTER_COMMIT}
BULK = {CrashPoint.BULK_BEFORE_COMMIT}  # test_bulk.py
ELSEWHERE = {*SUBMITTING, *FORWARDING, *CONSUMING, *BULK}


@pytest.fixture
def crash_file(msh: Machine) -> Iterator[Machine]:
    yield msh
    msh.crash_file.unlink(missing_ok=True)


@pytest.mark.requirement("000-002", "000-003", "000-005", "000-009", "001-02", "001-06")
@pytest.mark.parametrize("point", sorted(set(CrashPoint) - ELSEWHERE))
def test_process_dies_at(point: CrashPoint, pair: PairFactory, crash_file: Machine) -> None:
    msh = crash_file
    partner = pair(timeout=1, retries=100, retry_interval=1, acknowledges=True)
    msh.crash_file.write_text(point)

    sent = [partner.submit() for _ in range(3)]
    came = [normal(sequence_number=number) for number in (1, 2, 3)]
    for draft in came:
        insist(partner, draft)
    for message in sent:
        partner.wait_for_state(message)
    wait_until(lambda: not msh.crash_file.exists(), seconds=WAITS, what=f"a death at {point}")
    wait_until(
        lambda: all(partner.events(message) == ["acknowledged"] for message in sent), seconds=WAITS
    )

    assert first_copies(partner) == [message.message_id for message in sent]
    assert partner.incidents() == []
    kept = InboundMessage.objects.filter(link__partner=partner.partner).order_by("pk")
    assert list(kept.values_list("message_id", flat=True)) == [d.message_id for d in came]
    wait_until(lambda: all(msh.taken(draft.message_id) for draft in came), seconds=WAITS)
    let_sweeps_pass(pair)
    assert [msh.taken(draft.message_id) for draft in came] == [1, 1, 1]


@pytest.mark.requirement("000-003", "000-005")
def test_the_ack_of_a_process_that_died_comes_though_the_partner_is_silent(
    pair: PairFactory, crash_file: Machine
) -> None:
    """No further copy reminds us of it: the worker finds what was committed with the message."""
    partner = pair()
    for number in (1, 2, 3):  # from then on it is remembered by each web process
        insist(partner, normal(sequence_number=number))
    crash_file.crash_file.write_text(CrashPoint.RECEIVE_AFTER_COMMIT)

    message = normal(sequence_number=4)
    assert partner.peer.send(message).status == 0

    partner.peer.received.wait_for_acknowledgement(of=message, timeout=WAITS)
    assert not crash_file.crash_file.exists()
    let_sweeps_pass(pair)
    assert len(partner.peer.received.acknowledgements(message)) == 1


def promised_when_a_process_dies(
    point: CrashPoint, pair: PairFactory, crash_file: Machine
) -> tuple[Pair, OutboundMessage]:
    """A partner, and the message whose first copy was promised when the process died."""
    partner = pair(timeout=300, retries=0, acknowledges=True)
    for _ in range(4):  # from then on it is remembered by each web process, most likely
        partner.wait_for_state(partner.submit())
    partner.peer.acknowledges = False
    first, second = partner.submit(), partner.submit()
    (copy,) = partner.wait_for_copies(first, 1)
    partner.wait_for_attempts(first, 1)

    crash_file.crash_file.write_text(point)
    partner.peer.acknowledges = True
    partner.peer.acknowledge(copy)

    wait_until(lambda: not crash_file.crash_file.exists(), what="the process that dies")
    return partner, second


def has_begun(link: OutboundLink) -> bool:
    """Whether the first copy is no promise any more: then it counts until its Timeout."""
    return link.state == LaneState.WAITING and link.attempt == 1 and not link.promised


@pytest.mark.requirement("000-005", "000-021")
@pytest.mark.parametrize("point", [CrashPoint.ACK_AFTER_COMMIT, CrashPoint.POST_BEFORE_WRITE])
def test_promised_copy_of_a_process_that_died_is_sent_within_a_second(
    point: CrashPoint, pair: PairFactory, crash_file: Machine
) -> None:
    """Nobody knows whether it was sent: its attempt stays open, and the next one costs no retry.

    Nearly each Acknowledgement promises a copy. It does not in a web process that has not met the
    partner before; and a slow worker may write that the POST has begun before it dies."""
    promised = begun = 0
    for _ in range(3):
        partner, second = promised_when_a_process_dies(point, pair, crash_file)
        if point is CrashPoint.POST_BEFORE_WRITE and has_begun(partner.link):
            begun += 1
            continue
        partner.wait_for_state(second)
        assert not crash_file.crash_file.exists()
        assert len(partner.peer.received.copies_of(second.message_id)) == 1
        assert partner.link.retries_spent == 0
        attempts = list(second.attempts.values_list("number", "ended_at"))
        if len(attempts) > 1:
            assert attempts[0] == (1, None)
            assert len(attempts) == 2
            promised += 1
    assert promised >= max(1, 2 - begun)


@pytest.mark.requirement("000-009", "001-01", "003-01")
@pytest.mark.parametrize("point", sorted(SUBMITTING))
def test_application_dies_while_it_submits(
    point: CrashPoint, pair: PairFactory, crash_file: Machine
) -> None:
    msh = crash_file
    partner = pair(timeout=1, retries=100, retry_interval=1, acknowledges=True)
    msh.crash_file.write_text(point)

    submitter = ("-m", "tests.exchange.submitter", str(partner.agreement.pk), "1", "1")
    with msh.start_python(*submitter) as application:
        assert application.wait(WAITS) == -signal.SIGKILL

    committed = point is CrashPoint.SUBMIT_AFTER_COMMIT
    messages = OutboundMessage.objects.filter(agreement=partner.agreement)
    assert messages.count() == committed
    for message in messages:
        partner.wait_for_state(message)
    after = partner.submit()
    partner.wait_for_state(after)
    numbers = {r.message.sequence_number for r in partner.peer.received.normals()}
    assert numbers == set(range(1, committed + 2))


def insist(partner: Pair, draft: Draft) -> None:
    """What a partner does: the same message again until its Ack comes."""
    what = f"an Ack of number {draft['sequence_number']}"
    wait_until(lambda: is_acknowledged(partner, draft), seconds=WAITS, what=what)


def is_acknowledged(partner: Pair, draft: Draft) -> bool:
    """Send it once; whether an Ack came within two seconds."""
    try:
        partner.peer.send(draft)
        partner.peer.received.wait_for_acknowledgement(of=draft, timeout=2)
    except (AssertionError, OSError):
        return False
    return True


def first_copies(partner: Pair) -> list[str]:
    """MessageIds that came, in the order of their first copies."""
    came = (received.message.message_id for received in partner.peer.received.normals())
    return list(dict.fromkeys(came))
