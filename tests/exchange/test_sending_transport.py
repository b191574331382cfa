"""Attempts that fail on the way: which wait, which budget (000 §2.5.4, D8, D35)."""

import threading
from collections.abc import Callable
from datetime import timedelta

import pytest

from msh.models import Attempt, History, Incident
from msh.protocol.lane import LaneState
from tests.exchange.pair import LATE, WAITS, Pair, PairFactory, assert_waited, let_sweeps_pass
from tests.peer import Answer, Received, hang_up, reset, silence, status


@pytest.mark.requirement("000-065", "000-066")
def test_failed_attempt_is_repeated_after_retry_interval(pair: PairFactory) -> None:
    """Not at once and not after Timeout; it spends a retry. A status, or none; every status of D35:
    tests/protocol/test_attempt.py."""
    answers = [status(429), status(503), reset(), hang_up()]
    failing: dict[Pair, int | None] = {}
    for answer in answers:
        partner = pair(timeout=30, retries=3, retry_interval=2)
        partner.peer.script(answer)
        failing[partner] = None if answer.hangs_up else answer.status
    sent = {partner: partner.submit() for partner in failing}
    for partner, message in sent.items():
        first, second = partner.wait_for_copies(message, 2)
        assert_waited(partner, message, 2)
        assert first.body == second.body
        assert partner.link.retries_spent == 1
        partner.peer.acknowledge(second)
        partner.wait_for_state(message)
        ended = partner.wait_for_attempts(message, 2)
        assert ended == [("failed", failing[partner]), ("transmitted", 204)]


@pytest.mark.requirement("000-065")
def test_refused_connection_is_tried_again_after_retry_interval(pair: PairFactory) -> None:
    partner = pair(timeout=30, retries=3, retry_interval=2)
    partner.peer.go_down()
    message = partner.submit()
    assert partner.wait_for_attempts(message, 1) == [("failed", None)]
    partner.peer.come_up()
    partner.wait_for_copies(message, 1)
    first, second = Attempt.objects.filter(message=message).order_by("number")
    assert first.ended_at is not None
    waited = second.claimed_at - first.ended_at
    assert timedelta(seconds=2) <= waited <= timedelta(seconds=2 + LATE)
    assert first.body_sent is False


@pytest.mark.requirement("000-031", "000-067")
def test_partner_that_cannot_be_reached_is_suspended(pair: PairFactory) -> None:
    """As many times as after a missing Ack: 1 + Retries."""
    partner = pair(timeout=30, retries=2, retry_interval=1)
    partner.peer.go_down()
    message = partner.submit()
    partner.wait_for_link(LaneState.SUSPENDED)
    assert partner.attempts(message) == [("failed", None)] * 3
    assert partner.incidents() == ["retries_spent"]
    assert partner.events(message) == ["suspended"]


@pytest.mark.requirement("000-065")
def test_silence_ends_the_attempt_before_timeout(pair: PairFactory) -> None:
    """The HTTP deadline is nine tenths of Timeout (D11), then comes RetryInterval (D8)."""
    partner = pair(timeout=2, retries=3, retry_interval=2)
    partner.peer.script(silence())
    message = partner.submit()
    partner.wait_for_copies(message, 2)
    assert_waited(partner, message, 1.8 + 2)
    assert partner.attempts(message)[0] == ("failed", None)


@pytest.mark.requirement("000-064")
def test_reconnect_spends_nothing(pair: PairFactory) -> None:
    """A kept connection that the peer has closed: the transport's own recovery, one attempt."""
    partner = pair(timeout=60, acknowledges=True)
    for _ in range(5):
        message = partner.submit()
        partner.wait_for_state(message)
        partner.peer.drop_idle()
        assert partner.wait_for_attempts(message, 1) == [("transmitted", 204)]
    assert len(partner.peer.received) == 5
    assert partner.peer.connections > 1


@pytest.mark.requirement("000-068")
def test_each_error_has_its_own_recovery(pair: PairFactory) -> None:
    """A reset, a 503, a TransientError, an Ack: four copies, the same bytes, two retries spent."""
    partner = pair(timeout=60, retries=2, retry_interval=1)
    partner.peer.script(reset(), status(503))
    message = partner.submit()
    *_, third = partner.wait_for_copies(message, 3)
    partner.peer.refuse(third, "TransientError", min_retry_secs=2)
    copies = partner.wait_for_copies(message, 4)
    assert_waited(partner, message, 1, 1, 2)
    assert len({copy.body for copy in copies}) == 1
    assert partner.link.retries_spent == 2
    partner.peer.acknowledge(copies[3])
    partner.wait_for_state(message)


@pytest.mark.requirement("000-069")
def test_ack_overtakes_the_failure_of_its_post(pair: PairFactory) -> None:
    """The message is complete, whatever then becomes of the HTTP exchange that transmitted it; and
    the next one, in flight by now, has its wait and its retries untouched."""
    endings: dict[Pair, Answer] = {
        pair(timeout=30, retry_interval=1): answer for answer in (reset(), hang_up(), status(503))
    }
    next_one_waits = threading.Event()

    def acknowledge_first(partner: Pair, ending: Answer) -> Callable[[Received], Answer]:
        def answer(received: Received) -> Answer:
            if received.message.sequence_number != 1:
                return status(204)
            partner.peer.acknowledge(received)
            next_one_waits.wait(WAITS)
            return ending

        return answer

    for partner, ending in endings.items():
        partner.peer.always(acknowledge_first(partner, ending))
    sent = {partner: (partner.submit(), partner.submit()) for partner in endings}
    for partner, (_, following) in sent.items():
        assert partner.wait_for_attempts(following, 1) == [("transmitted", 204)]
    next_one_waits.set()
    for partner, (message, _) in sent.items():
        ((outcome, _),) = partner.wait_for_attempts(message, 1)
        assert outcome == "failed"
        assert partner.events(message) == ["acknowledged"]

    let_sweeps_pass(pair)
    for partner, (_, following) in sent.items():
        first, second = partner.peer.received
        assert [first.message.sequence_number, second.message.sequence_number] == [1, 2]
        assert partner.link.retries_spent == 0
        partner.peer.acknowledge(second)
        partner.wait_for_state(following)


def test_retry_after_is_honoured(pair: PairFactory) -> None:
    """The larger of it and RetryInterval, capped; nothing where it is no number (D54). One retry:
    the next would come a RetryInterval after it, while another partner is still waited for."""
    waits = {
        ("4", 1, 3600): 4,
        ("1", 3, 3600): 3,
        ("soon", 2, 3600): 2,
        ("-5", 2, 3600): 2,
        ("9999", 1, 3): 3,
    }
    asked = {}
    for (retry_after, retry_interval, limit), wait in waits.items():
        terms = {"retry_interval": retry_interval, "transient_wait_limit": limit}
        partner = pair(timeout=60, retries=1, **terms)
        partner.peer.script(status(503, retry_after=retry_after))
        asked[partner] = (partner.submit(), wait)
    for partner, (message, wait) in asked.items():
        partner.wait_for_copies(message, 2)
        assert_waited(partner, message, wait)


@pytest.mark.requirement("001-03", "001-04")
def test_status_that_says_never_suspends_at_once(pair: PairFactory) -> None:
    """These bytes can never be taken (D35)."""
    refusing = {code: pair(timeout=1, retries=3) for code in (400, 422)}
    sent = {}
    for code, partner in refusing.items():
        partner.peer.always(status(code, reason="not these bytes"))
        sent[partner] = partner.submit()
    for partner, message in sent.items():
        partner.wait_for_link(LaneState.SUSPENDED)
        assert partner.events(message) == ["suspended"]
    let_sweeps_pass(pair)
    for code, partner in refusing.items():
        assert len(partner.peer.received) == 1
        incident = Incident.objects.get(partner=partner.partner)
        assert incident.kind == "refused_by_peer"
        assert f"{code}" in incident.detail
        assert "not these bytes" in incident.detail


@pytest.mark.requirement("001-03")
def test_doubtful_status_spends_a_retry_and_warns(pair: PairFactory) -> None:
    """Also a redirect, which is not followed (D35)."""
    elsewhere = pair().peer
    doubtful = {code: pair(timeout=30, retries=1) for code in (401, 302)}
    sent = {}
    for code, partner in doubtful.items():
        partner.peer.always(status(code, headers={"Location": elsewhere.address}))
        sent[partner] = partner.submit()
    for code, partner in doubtful.items():
        message = sent[partner]
        partner.wait_for_link(LaneState.SUSPENDED)
        assert_waited(partner, message, 1)
        assert partner.attempts(message) == [("doubted", code)] * 2
        assert partner.incidents() == ["retries_spent"]
        warnings = History.objects.filter(message_id=message.message_id, code="early_warning")
        assert f"{code}" in warnings[0].detail
    assert len(elsewhere.received) == 0
