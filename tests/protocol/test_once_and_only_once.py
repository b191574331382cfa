"""Two pure cores, a link that may do anything, crashes, operators: once, only once, in order.

MSH_EXAMPLES=5000 in the environment looks further than the normal suite does.
"""

import os
import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from .world.flights import FlightWorld
from .world.lanes import LaneWorld
from .world.walk import Walk

EXAMPLES = int(os.environ.get("MSH_EXAMPLES", "0"))
DRAWS = st.randoms(use_true_random=False)


def search(examples: int) -> settings:
    return settings(
        max_examples=EXAMPLES or examples,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )


@pytest.mark.requirement("000-002", "000-008", "000-017", "000-027", "000-037", "000-070")
@search(150)
@given(DRAWS)
def test_never_lost_duplicated_out_of_order_overlapping_altered_or_stuck(
    draw: random.Random,
) -> None:
    Walk(LaneWorld.drawn(draw), draw).walk()


@search(100)
@given(DRAWS)
def test_at_most_once_in_order_within_the_window_and_never_stuck(draw: random.Random) -> None:
    """In order by conversation where that was agreed, never more copies or more messages under way
    than agreed: EB-080, EB-085, EB-087, EB-091, EB-110 to EB-112, EB-123, EB-124, EB-127, EB-132,
    EB-134."""
    Walk(FlightWorld.drawn(draw), draw).walk()
