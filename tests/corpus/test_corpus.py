"""Messages of other products, as their SOURCES.md describes them. Nothing of them is in here."""

from pathlib import Path

import pytest

from .page import PAGE, table_in
from .reading import Outcome, read_corpus, surprises, table


@pytest.fixture(scope="module")
def outcomes(corpus: Path) -> list[Outcome]:
    return list(read_corpus(corpus))


# Read or composed here, decided by a flow: EB-061, EB-067, EB-161.
@pytest.mark.requirement(
    "EB-003",
    "EB-004",
    "EB-005",
    "EB-008",
    "EB-012",
    "EB-016",
    "EB-017",
    "EB-021",
    "EB-022",
    "EB-023",
    "EB-025",
    "EB-032",
    "EB-037",
    "EB-041",
    "EB-042",
    "EB-044",
    "EB-047",
    "EB-049",
    "EB-050",
    "EB-052",
    "EB-158",
    "EB-186",
)
def test_every_message_is_read_as_described_or_refused_for_the_reason_given(
    outcomes: list[Outcome],
) -> None:
    assert surprises(outcomes) == []
    assert len(outcomes) > 180


def test_the_table_in_the_documentation_is_that_of_the_corpus(outcomes: list[Outcome]) -> None:
    assert table_in(PAGE.read_text()) == table(outcomes)
