"""The Sender's recovery, as a partner sees it on the wire (000 §2.1.4)."""

import pytest

from msh.models import Incident, OutboundMessage
from msh.protocol.lane import LaneState
from tests.exchange.machine import Machine
from tests.exchange.pair import LATE, WAITS, Pair, PairFactory, assert_waited, let_sweeps_pass
from tests.waiting import wait_until


def assert_same_bytes(pair: Pair, message: OutboundMessage) -> None:
    copies = pair.peer.received.copies_of(message.message_id)
    assert len({(copy.headers["Content-Type"], copy.body) for copy in copies}) == 1


@pytest.mark.requirement("000-021", "000-022", "000-024", "000-026", "000-027", "000-028")
def test_copies_follow_timeout_then_retry_interval(pair: PairFactory) -> None:
    """Timeout before the first retry, RetryInterval before every other; each the same bytes."""
    waits = {
        pair(timeout=3, retries=2, retry_interval=1): (3, 1),
        pair(timeout=1, retries=3, retry_interval=2): (1, 2, 2),
        pair(timeout=2, retries=0, retry_interval=1): (),
    }
    sent = {silent: silent.submit(b"\x00\xff order") for silent in waits}
    for silent, message in sent.items():
        silent.wait_for_link(LaneState.SUSPENDED)
        assert_waited(silent, message, *waits[silent])
        assert_same_bytes(silent, message)


@pytest.mark.requirement("000-020", "000-099")
def test_changed_agreement_is_that_of_the_next_message(pair: PairFactory) -> None:
    """The message in flight keeps the terms that it was sent under."""
    silent = pair(timeout=1, retries=2, retry_interval=3)
    first, second = silent.submit(), silent.submit()
    silent.wait_for_attempts(first, 1)
    silent.agree(timeout=3, retry_interval=1)
    *_, copy = silent.wait_for_copies(first, 3)
    assert_waited(silent, first, 1, 3)
    silent.peer.acknowledge(copy)
    silent.wait_for_copies(second, 2)
    assert_waited(silent, second, 3)


@pytest.mark.requirement(
    "000-004", "000-023", "000-031", "000-032", "000-037", "000-086", "000-098"
)
def test_spent_retries_suspend_the_partner_and_notify_once(pair: PairFactory, msh: Machine) -> None:
    silent, other = pair(timeout=1, retries=1, retry_interval=1), pair(acknowledges=True)
    message, queued = silent.submit(), silent.submit()
    link = silent.wait_for_link(LaneState.SUSPENDED)

    last = message.attempts.last()
    assert last is not None
    assert last.ended_at is not None
    assert link.suspended_since is not None
    waited = (link.suspended_since - last.ended_at).total_seconds()
    assert 1 <= waited <= 1 + LATE  # the last retry gets a full wait (D6)

    for_others = other.submit()
    other.wait_for_state(for_others)
    let_sweeps_pass(pair)
    assert len(silent.peer.received) == 2
    assert silent.state_of(queued) == "queued"
    assert silent.link.state == LaneState.SUSPENDED
    incident = Incident.objects.get(partner=silent.partner)
    assert (incident.kind, incident.count) == ("retries_spent", 1)
    assert incident.message_id == message.message_id
    assert "2 attempts" in incident.detail
    assert silent.events(message) == ["suspended"]
    wait_until(lambda: msh.journal(message.message_id) == ["suspended"], seconds=WAITS)
    assert other.incidents() == []


@pytest.mark.requirement("000-025", "000-030")
def test_ack_during_recovery_completes(pair: PairFactory) -> None:
    slow = pair(timeout=1, retries=5, retry_interval=1)
    message = slow.submit()
    copies = slow.wait_for_copies(message, 3)
    link = slow.link
    assert (link.state, link.retries_spent) == (LaneState.WAITING, 2)  # shown as retry 2 of 5
    assert link.lane.flying.terms.retries == 5

    assert slow.peer.acknowledge(copies[2]).status == 204
    slow.wait_for_state(message)
    let_sweeps_pass(pair)
    assert len(slow.peer.received) == 3
    assert slow.events(message) == ["acknowledged"]
    assert slow.incidents() == []


@pytest.mark.requirement("000-030", "000-033")
def test_ack_after_suspension_completes_and_the_operator_resumes(pair: PairFactory) -> None:
    slow = pair(timeout=1, retries=0)
    message, queued = slow.submit(), slow.submit()
    slow.wait_for_link(LaneState.SUSPENDED)

    slow.peer.acknowledge(slow.peer.received.copies_of(message.message_id)[0])
    slow.wait_for_state(message)
    let_sweeps_pass(pair)
    link = slow.link
    assert (link.state, link.late_ack) == (LaneState.SUSPENDED, True)  # D12
    assert slow.events(message) == ["suspended", "acknowledged"]
    assert len(slow.peer.received) == 1

    slow.resume()
    (copy,) = slow.wait_for_copies(queued, 1)
    assert copy.message.sequence_number == 2
    assert slow.incidents() == []


@pytest.mark.requirement("000-033", "000-034")
def test_resumed_partner_gets_the_same_bytes_then_the_queue(pair: PairFactory) -> None:
    silent = pair(timeout=1, retries=1, retry_interval=1)
    message, *queue = [silent.submit() for _ in range(4)]
    silent.wait_for_link(LaneState.SUSPENDED)
    assert len(silent.peer.received) == 2

    silent.resume()
    silent.wait_for_copies(message, 4)
    silent.wait_for_link(LaneState.SUSPENDED)
    assert len(silent.peer.received) == 4  # 1 + Retries more

    silent.peer.acknowledges = True
    silent.resume()
    for one in (message, *queue):
        silent.wait_for_state(one)
    came = [received.message for received in silent.peer.received]
    ids = [one.message_id for one in (message, *queue)]
    assert [one.message_id for one in came] == [message.message_id] * 4 + ids
    assert [one.sequence_number for one in came] == [1, 1, 1, 1, 1, 2, 3, 4]
    assert_same_bytes(silent, message)
    incidents = Incident.objects.filter(partner=silent.partner)
    assert [one.resolved_by for one in incidents] == ["tester", "tester"]  # suspended twice


def test_operator_sends_now_and_grants_fresh_retries(pair: PairFactory) -> None:
    patient, tried = pair(timeout=60), pair(timeout=1, retries=1, retry_interval=2)
    waiting, message = patient.submit(), tried.submit()

    patient.wait_for_copies(waiting, 1)
    patient.send_now()
    patient.wait_for_copies(waiting, 2)
    assert patient.link.retries_spent == 0

    tried.wait_for_attempts(message, 2)
    tried.reset_retries()
    tried.wait_for_link(LaneState.SUSPENDED)
    assert_waited(tried, message, 1, 2)


def test_operator_suspends_normal_messages_and_no_signals(pair: PairFactory) -> None:
    """BestEffort waits too (D15); the message in flight stays in flight, its Ack completes it."""
    halted = pair(timeout=60)
    message = halted.submit()
    (copy,) = halted.wait_for_copies(message, 1)
    halted.suspend()
    best_effort = halted.submit(semantics="BestEffort")
    halted.receive()
    let_sweeps_pass(pair)
    assert len(halted.peer.received.normals()) == 1
    assert halted.state_of(message) == "in_flight"

    halted.peer.acknowledge(copy)
    halted.wait_for_state(message)
    halted.resume()
    halted.wait_for_copies(best_effort, 1)
    assert halted.events(message) == ["acknowledged"]
