"""PostgreSQL ends sessions of two real MSHs while they exchange messages, as when it is restarted.

Every message is delivered, once, and soon afterwards: no process keeps a session that is lost.
"""

import random
import time

import pytest
from django.db import connection

from tests.exchange.sides import Side

BATCHES = 24
AT_ONCE = 3
BETWEEN = 0.4  # seconds at most between two batches


@pytest.mark.requirement("000-005")
def test_sessions_are_lost_under_traffic(sides: tuple[Side, Side]) -> None:
    a, b = sides
    submitted: list[str] = []
    ended = 0
    for _ in range(BATCHES):
        submitted += a.submits(AT_ONCE)
        time.sleep(random.random() * BETWEEN)
        ended += _end_half(a) + _end_half(b)
    assert ended
    a.until_acknowledged(submitted)
    b.until_taken_once(submitted)
    assert b.accepted() == submitted


def _end_half(side: Side) -> int:
    """End each session with its database with a probability of one half; how many those were."""
    with connection._nodb_cursor() as cursor:
        cursor.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = %s AND random() < 0.5",
            [side.msh._database],
        )
        return len(cursor.fetchall())
