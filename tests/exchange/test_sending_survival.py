"""What we promised to send is sent, whatever ends or is lost on our side (000 §2.1.3)."""

import time
from datetime import timedelta
from itertools import pairwise

import pytest
from django.conf import settings
from django.db import OperationalError, connection, connections
from django.utils import timezone

from msh.models import OutboundLink, OutboundMessage
from msh.protocol.lane import LaneState
from partners.models import Partner
from tests.exchange.machine import Machine
from tests.exchange.pair import LATE, WAITS, Pair, PairFactory, assert_waited
from tests.peer import status
from tests.waiting import wait_until


def numbers(pair: Pair) -> list[int | None]:
    """Of the first copies, in the order of their arrival."""
    came = [received.message.sequence_number for received in pair.peer.received.normals()]
    return list(dict.fromkeys(came))


@pytest.mark.requirement("000-005", "000-009", "000-015", "000-027", "000-031", "000-043")
def test_power_cut(pair: PairFactory, msh: Machine) -> None:
    """Every process killed: what is in flight, spent, suspended, queued, told to wait stays so."""
    suspended = pair(timeout=1, retries=0)
    spent = pair(timeout=1, retries=1, retry_interval=3)
    flying = pair(timeout=1, retries=99, retry_interval=2)
    held = pair(timeout=60)
    overdue = pair(timeout=60, retry_interval=60)
    fresh = pair(acknowledges=True, timeout=30)
    # On a busy machine its Acknowledgements come later than its Timeout.
    Partner.objects.filter(pk=suspended.partner.pk).update(resume_on_late_ack=True)

    stopped, *behind = [suspended.submit() for _ in range(3)]
    suspended.wait_for_link(LaneState.SUSPENDED)
    waiting = held.submit()
    prompt = overdue.submit()
    last_try = spent.submit()
    message, *queue = [flying.submit(b"\x00\xff") for _ in range(3)]
    flying.wait_for_copies(message, 2)
    refusal = held.peer.refuse(held.wait_for_copies(waiting, 1)[0], min_retry_secs=8)
    # An attempt whose end was not noted holds its message for the HTTP deadline.
    overdue.wait_for_attempts(prompt, 1)
    spent.wait_for_attempts(last_try, 2)
    msh.cut_power()
    before = len(flying.peer.received)
    OutboundLink.objects.filter(pk=overdue.link.pk).update(due=timezone.now() - timedelta(hours=1))
    overdue.peer.acknowledges = True
    new = fresh.submit()  # the application's process lives on
    assert len(fresh.peer.received) == 0
    msh.start()

    fresh.wait_for_state(new)
    overdue.wait_for_state(prompt)  # the copy at the start is acknowledged: web was there first
    assert len(overdue.peer.received.copies_of(prompt.message_id)) == 2
    assert held.wait_for_copies(waiting, 2)[1].at >= refusal.began_at + 8
    spent.wait_for_link(LaneState.SUSPENDED)
    assert len(spent.peer.received) == 2
    # It may have been cut during an attempt.
    copies = flying.wait_for_copies(message, before + 2, settings.MSH_HTTP_DEADLINE + WAITS)
    assert len({(copy.headers["Content-Type"], copy.body) for copy in copies}) == 1
    assert all(later.at - earlier.at >= 2 for earlier, later in pairwise(copies[1:]))  # no burst

    flying.peer.acknowledges = suspended.peer.acknowledges = True
    suspended.resume()
    for partner, ordered in ((flying, [message, *queue]), (suspended, [stopped, *behind])):
        for one in ordered:
            partner.wait_for_state(one)
        assert numbers(partner) == [1, 2, 3]
    first, again, *_ = suspended.peer.received
    assert first.body == again.body


@pytest.mark.requirement("000-005", "000-009")
def test_submit_without_database_fails_to_its_caller(pair: PairFactory) -> None:
    partner = pair()
    here = connection.settings_dict["NAME"]
    connections.close_all()
    connection.settings_dict["NAME"] = "no_such_database"
    try:
        with pytest.raises(OperationalError):
            partner.submit()
    finally:
        connection.settings_dict["NAME"] = here
    assert not OutboundMessage.objects.filter(agreement=partner.agreement).exists()


@pytest.mark.requirement("000-005", "000-043")
def test_processes_are_killed_while_messages_flow(pair: PairFactory, msh: Machine) -> None:
    """Web, worker and beat: every message comes, in order, and each of their numbers once."""
    terms = {"timeout": 2, "retries": 1000, "retry_interval": 1}
    partners = [pair(acknowledges=True, **terms) for _ in range(4)]
    messages = []
    for victims in (("worker",), ("web", "beat"), ("worker", "web")):
        batch = [(partner, partner.submit()) for _ in range(4) for partner in partners]
        partner, message = batch[0]
        partner.wait_for_copies(message, 1)
        msh.kill(*victims)
        messages += batch
    for partner, message in messages:
        partner.wait_for_state(message)
    for partner in partners:
        assert numbers(partner) == list(range(1, 13))


def test_redis_is_wiped_while_messages_are_in_flight(pair: PairFactory, msh: Machine) -> None:
    """Nothing is lost, and the sweep has it all within its time."""
    silent, partner = pair(timeout=2, retries=2, retry_interval=2), pair(acknowledges=True)
    message = silent.submit()
    msh.wipe_redis()
    for count in (1, 2, 3):
        silent.wait_for_copies(message, count)
        msh.wipe_redis()
        flowing = [partner.submit() for _ in range(3)]
        msh.wipe_redis()
        wiped_at = time.monotonic()
        (came,) = partner.wait_for_copies(flowing[0], 1)
        assert came.at <= wiped_at + LATE
        for one in flowing:
            partner.wait_for_state(one)
    silent.wait_for_link(LaneState.SUSPENDED)
    assert_waited(silent, message, 2, 2)
    assert numbers(partner) == list(range(1, 10))
    wait_until(lambda: msh.journal(message.message_id) == ["suspended"], seconds=WAITS)


def test_slow_partners_slow_no_other(pair: PairFactory) -> None:
    """Six take 30 s for every answer and hold all the POSTs they can: ten messages to another
    and one from it are through before the first of these answers."""
    slow = [pair(timeout=60) for _ in range(6)]
    quick = pair(timeout=60, acknowledges=True)
    for partner in slow:
        partner.peer.always(status(204, delay=30))
        partner.submit()
        for _ in range(5):
            partner.submit(semantics="BestEffort")
    for partner in slow:
        partner.peer.received.wait_for_count(4, timeout=WAITS)

    for message in [quick.submit() for _ in range(10)]:
        quick.wait_for_state(message)
    quick.receive()
    held = [received for partner in slow for received in partner.peer.received]
    assert [received.answered_at for received in held] == [None] * 24  # at most 4 a partner
