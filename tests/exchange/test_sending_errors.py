"""Error Messages that come back for what we sent (000 §2.1.4.2, §4.2, docs/spec/tables.md)."""

import pytest

from msh.models import Incident
from msh.protocol.lane import LaneState
from msh.protocol.vocabulary import RESYNCHRONISE
from tests.exchange.pair import LATE, WAITS, PairFactory, let_sweeps_pass
from tests.peer import Received, Response
from tests.waiting import wait_until


def assert_waited_since(refusal: Response, copy: Received, seconds: float) -> None:
    """`copy` came so many seconds after `told`: the wait began while that was answered."""
    assert copy.at >= refusal.began_at + seconds
    assert copy.at <= refusal.ended_at + seconds + LATE


@pytest.mark.requirement("000-029")
def test_hard_error_suspends_and_tells(pair: PairFactory) -> None:
    """No more copies, an operator decides. Every code: tests/flows/test_bad_errors.py."""
    codes = ("SequenceGap", "NotSupported", "OwnCode")
    refused = {code: pair(timeout=60) for code in codes}
    sent = {code: (partner.submit(), partner.submit()) for code, partner in refused.items()}
    for code, partner in refused.items():
        (copy,) = partner.wait_for_copies(sent[code][0], 1)
        assert partner.peer.refuse(copy, code, description="No such crate.").status == 204
    let_sweeps_pass(pair)
    for code, partner in refused.items():
        message, queued = sent[code]
        assert partner.link.state == LaneState.SUSPENDED
        assert partner.events(message) == ["suspended"]
        assert partner.state_of(queued) == "queued"
        assert len(partner.peer.received) == 1  # an Error is not answered either
        incident = Incident.objects.get(partner=partner.partner)
        assert incident.kind == ("resynchronise" if code in RESYNCHRONISE else "error_received")
        assert incident.detail == f"{code}: No such crate."


@pytest.mark.requirement("000-029", "000-034")
def test_refused_message_is_the_first_after_resume(pair: PairFactory) -> None:
    partner = pair(timeout=60)
    message, queued = partner.submit(), partner.submit()
    (copy,) = partner.wait_for_copies(message, 1)
    partner.peer.refuse(copy, "SequenceGap")
    partner.wait_for_link(LaneState.SUSPENDED)

    partner.peer.acknowledges = True
    partner.resume()
    partner.wait_for_state(queued)
    first, again, following = partner.peer.received
    assert first.body == again.body  # never renumbered by itself
    assert following.message.sequence_number == 2


@pytest.mark.requirement("000-029", "000-079", "000-080", "000-081", "000-082", "000-083")
@pytest.mark.requirement("000-085")
def test_transient_errors_hold_the_pair(pair: PairFactory) -> None:
    """For MinRetrySecs, or RetryInterval if there is none; it spends no retry. An Ack meanwhile
    completes, and the next message waits until the time is over (D28)."""
    partner = pair(timeout=60, retries=0, retry_interval=1)
    message, queued = partner.submit(), partner.submit()

    (copy,) = partner.wait_for_copies(message, 1)
    refusal = partner.peer.refuse(copy, min_retry_secs=3)
    best_effort = partner.submit(semantics="BestEffort")
    _, second = partner.wait_for_copies(message, 2)
    assert_waited_since(refusal, second, 3)
    (passing,) = partner.wait_for_copies(best_effort, 1)
    assert passing.at >= refusal.began_at + 3  # D15

    refusal = partner.peer.refuse(second)
    *_, third = partner.wait_for_copies(message, 3)
    assert_waited_since(refusal, third, 1)
    assert partner.link.retries_spent == 0

    refusal = partner.peer.refuse(third, min_retry_secs=2)
    partner.peer.acknowledge(third)
    partner.wait_for_state(message)
    (following,) = partner.wait_for_copies(queued, 1)
    assert_waited_since(refusal, following, 2)
    copies = partner.peer.received.copies_of(message.message_id)
    assert [copy.body for copy in copies] == [copies[0].body] * 3


@pytest.mark.requirement("000-084")
def test_transient_error_then_another(pair: PairFactory) -> None:
    """The other error's own recovery; and too many TransientErrors suspend as well (D10)."""
    partner, limited = pair(timeout=60), pair(timeout=60, transient_count_limit=1)
    message, held = partner.submit(), limited.submit()
    (copy,) = partner.wait_for_copies(message, 1)
    partner.peer.refuse(copy, min_retry_secs=60)
    assert partner.link.state == LaneState.TRANSIENT
    partner.peer.refuse(copy, "NotSupported")
    assert partner.link.state == LaneState.SUSPENDED
    assert partner.incidents() == ["error_received"]

    for count in (1, 2):
        copies = limited.wait_for_copies(held, count)
        limited.peer.refuse(copies[-1], min_retry_secs=1)
    wait_until(lambda: limited.incidents() == ["transient_limit"], seconds=WAITS)
    assert limited.link.state == LaneState.SUSPENDED
    assert limited.events(held) == ["suspended"]
