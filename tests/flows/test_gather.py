"""How long the sending loop gathers work for one round."""

import pytest

from msh.flows.sending.sending_loop import GATHER, GATHER_MOST, RecentPartners


def _after(partners: int, at: float = 10.0) -> RecentPartners:
    recent = RecentPartners()
    for partner in range(partners):
        recent.note(partner, at)
    return recent


@pytest.mark.parametrize(
    ("partners", "seconds"),
    [(0, 0.0), (1, 0.0), (3, 0.0), (4, 4 * GATHER), (16, 16 * GATHER), (1000, GATHER_MOST)],
)
def test_the_more_partners_are_served_at_once_the_longer_up_to_a_limit(
    partners: int, seconds: float
) -> None:
    assert _after(partners).gather(10.0) == pytest.approx(seconds)


def test_partners_of_a_while_ago_do_not_count() -> None:
    recent = _after(16)
    later = 10.0 + 2 * RecentPartners.WITHIN
    recent.note(99, later)
    assert recent.gather(later) == 0.0
