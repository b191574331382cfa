"""A server that vanishes without a reset is noticed, and what takes its place is used."""

import time

from django.db import connection, transaction

from tests.exchange.pair import PairFactory
from tests.hosts.conftest import Network
from tests.hosts.machine import Hosts
from tests.waiting import wait_until

SOON = 60.0
"""Seconds: half of that when the machine has nothing else to do. Without limits of time: 15 min."""

WAITING = """
    SELECT count(*) FROM pg_stat_activity
    WHERE datname = current_database() AND wait_event_type = 'Lock'
"""


def someone_waits() -> bool:
    with connection.cursor() as cursor:
        cursor.execute(WAITING)
        return bool(cursor.fetchone()[0])


def test_database_that_vanishes_is_used_at_its_other_address(
    pair: PairFactory, msh: Hosts, network: Network
) -> None:
    """Also by who waits for an answer: nothing is left to send, so only keepalives tell."""
    partner = pair(timeout=2, retries=99, retry_interval=1)
    message = partner.submit()
    partner.wait_for_copies(message, 1)
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET LOCAL idle_in_transaction_session_timeout = 0")
        cursor.execute("LOCK TABLE msh_outboundlink IN ACCESS EXCLUSIVE MODE")
        wait_until(someone_waits)
        network.first.vanish()
    vanished_at = time.monotonic()
    before = len(partner.peer.received)

    partner.peer.received.wait_for_count(before + 2, timeout=SOON)
    partner.peer.acknowledges = True
    partner.receive()
    partner.wait_for_state(message)
    wait_until(msh.is_ready, seconds=SOON)
    assert time.monotonic() - vanished_at < SOON


def test_redis_that_vanishes_is_used_where_it_comes_back(
    pair: PairFactory, msh: Hosts, network: Network
) -> None:
    partner = pair(timeout=2, retries=99, retry_interval=1)
    message = partner.submit()
    partner.wait_for_copies(message, 1)
    network.redis.vanish()
    wait_until(lambda: not msh.is_ready(), seconds=SOON)
    network.redis.take_over()
    back_at = time.monotonic()

    wait_until(msh.is_ready, seconds=SOON)
    before = len(partner.peer.received)
    partner.peer.received.wait_for_count(before + 2, timeout=SOON)
    partner.peer.acknowledges = True
    partner.receive()
    partner.wait_for_state(message)
    assert time.monotonic() - back_at < SOON
