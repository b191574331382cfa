"""How long the sending loop gathers work for one round."""

import pytest

from msh.flows.sending.outcomes import GATHER, GATHER_MOST, Served


def _after(partners: int, at: float = 10.0) -> Served:
    served = Served()
    for partner in range(partners):
        served.note(partner, at)
    return served


@pytest.mark.parametrize(
    ("partners", "seconds"),
    [(0, 0.0), (1, 0.0), (3, 0.0), (4, 4 * GATHER), (16, 16 * GATHER), (1000, GATHER_MOST)],
)
def test_the_more_partners_are_served_at_once_the_longer_up_to_a_limit(
    partners: int, seconds: float
) -> None:
    assert _after(partners).gather(10.0) == pytest.approx(seconds)


def test_partners_of_a_while_ago_do_not_count() -> None:
    served = _after(16)
    later = 10.0 + 2 * Served.WITHIN
    served.note(99, later)
    assert served.gather(later) == 0.0


@pytest.mark.parametrize(("messages", "seconds"), [(1, 0.0), (3, 0.0), (16, 16 * GATHER)])
def test_several_messages_of_one_partner_count_as_several(messages: int, seconds: float) -> None:
    served = Served()
    served.note(1, 9.99, 2)
    served.note(1, 10.0, messages)
    assert served.gather(10.0) == pytest.approx(seconds)
