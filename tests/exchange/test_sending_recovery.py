"""The Sender's recovery, as a partner sees it on the wire (000 §2.1.4).

Times are those of the peer's clock at the arrival of copies: never early, and at most LATE seconds
late. An arrival is noted before it is answered, so a wait that began with the answer ends later.
"""

import pytest

from msh.models import OutboundMessage
from msh.protocol.lane import LaneState
from tests.exchange.pair import LATE, Pair, PairFactory


def assert_waited(pair: Pair, message: OutboundMessage, *waits: float) -> None:
    """The copies that came: one more than `waits`, each that many seconds after the one before."""
    gaps = pair.peer.received.gaps(message.message_id)
    assert len(gaps) == len(waits)
    for gap, wait in zip(gaps, waits, strict=True):
        assert wait <= gap <= wait + LATE, f"{gaps} is not {waits}"


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
