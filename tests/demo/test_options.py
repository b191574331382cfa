"""How long a run may take, and when it is given up."""

from dataclasses import replace

import pytest

from demo.faults import Rates
from demo.options import Patience, Work, time_limit
from demo.pairs import Timing, timing_for

WORK = Work(messages=640, pairs=64)
TIMING = timing_for(64)
NONE = Rates(**dict.fromkeys(Rates.names(), 0.0))


@pytest.mark.parametrize(
    "more",
    [
        replace(WORK, messages=1280),
        replace(WORK, pairs=32),  # longer queues
        replace(WORK, messages=2000, pairs=200),
        replace(WORK, hops=2),
        replace(WORK, kill=True),
    ],
)
def test_the_limit_follows_the_work(more: Work) -> None:
    assert time_limit(more, Rates(), TIMING) > time_limit(WORK, Rates(), TIMING)


def test_the_limit_follows_the_faults_and_what_a_fault_costs() -> None:
    usual = time_limit(WORK, Rates(), TIMING)
    assert time_limit(WORK, NONE, TIMING) < usual
    assert time_limit(WORK, Rates(reset=0.3), TIMING) > usual
    assert time_limit(WORK, Rates(), Timing(timeout=60)) > usual


def test_many_pairs_are_given_longer_timeouts() -> None:
    assert [timing_for(pairs).timeout for pairs in (1, 2, 16, 64, 200)] == [2, 2, 3, 6, 14]


def test_a_run_is_given_up_at_its_limit() -> None:
    patience = Patience(limit=100, grace=30)
    assert not patience.over(1000, 0)
    assert not patience.over(1099, 0)
    assert patience.over(1100, 0)


def test_a_run_that_still_delivers_goes_on_to_twice_its_limit() -> None:
    patience = Patience(limit=100, grace=30)
    looks = [(1000.0, 0), (1090.0, 5), (1110.0, 5), (1119.0, 6), (1148.0, 6)]
    assert not any(patience.over(now, delivered) for now, delivered in looks)
    assert patience.over(1149, 6)
    assert not patience.over(1150, 7)
    assert patience.over(1200, 8)
