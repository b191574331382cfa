"""The arithmetic of an agreement's terms (D6, D11)."""

from dataclasses import replace
from typing import Any

import pytest

from msh.protocol.agreement import Terms, UnreadableTerms
from msh.protocol.errors import UnreadableTermsError
from msh.protocol.lane import InFlight


@pytest.mark.parametrize(
    ("timeout", "retries", "retry_interval", "horizon"),
    [(10, 0, 60, 10), (10, 1, 60, 70), (5, 3, 7, 26)],
)
def test_retry_horizon_gives_the_last_retry_its_full_wait(
    timeout: int, retries: int, retry_interval: int, horizon: int
) -> None:
    assert Terms(timeout, retries, retry_interval).retry_horizon == horizon


@pytest.mark.parametrize("timeout", [1, 2, 30, 86_400])
def test_http_deadline_is_shorter_than_timeout_and_within_the_cap(timeout: int) -> None:
    deadline = Terms(timeout, 3, 10).http_deadline(30.0)
    assert 0 < deadline < timeout
    assert deadline <= 30.0


def test_limits_of_transient_errors_by_default() -> None:
    """The ceilings of D10, where the agreement says nothing else."""
    terms = Terms(timeout=10, retries=3, retry_interval=5)
    ceilings = (
        terms.transient_count_limit,
        terms.transient_time_limit,
        terms.transient_wait_limit,
    )
    assert ceilings == (100, 24 * 3600, 3600)


def test_terms_that_cannot_be_read_are_an_error_for_who_needs_them_only() -> None:
    unreadable = UnreadableTerms("timeout is no whole number")
    flying = InFlight("m-1", 1, unreadable)

    assert replace(flying, attempt=2).terms == unreadable
    assert not flying.probing
    assert flying != InFlight("m-1", 1, Terms(60, 3, 60))
    assert "UnreadableTerms" in repr(flying)
    assert len({unreadable}) == 1
    for ask in (
        lambda: flying.wait,
        lambda: unreadable.retry_horizon,
        lambda: replace(flying, retries_spent=1).probing,
    ):
        with pytest.raises(UnreadableTermsError, match="timeout is no whole number"):
            ask()


STORED = {"timeout": 60, "retries": 3, "retry_interval": 30}


def test_stored_terms_are_read_and_names_of_a_later_version_are_left_out() -> None:
    assert Terms.of_stored(STORED | {"added_later": 1}) == Terms(60, 3, 30)


@pytest.mark.parametrize(
    ("stored", "why"),
    [
        ([60, 3, 30], "stored terms are not an object but a list"),
        (STORED | {"timeout": "soon"}, "timeout of the stored terms is not an integer: 'soon'"),
        (STORED | {"retries": True}, "retries of the stored terms is not an integer: True"),
        ({"timeout": 60}, "stored terms are incomplete: .*retries"),
    ],
)
def test_stored_terms_that_are_none_are_an_error(stored: Any, why: str) -> None:
    with pytest.raises(UnreadableTermsError, match=why):
        Terms.of_stored(stored)
