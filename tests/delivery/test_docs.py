"""docs/delivery.md says what each kind of consumer may rely on: it names what there is."""

from pathlib import Path

import pytest

from msh.flows.operations.change_delivery import DECISIONS
from msh.protocol.kinds import DeliveryState

PAGE = Path(__file__).parents[2] / "docs" / "delivery.md"


@pytest.mark.requirement("003-10", "001-07")
def test_the_page_names_every_kind_state_and_decision() -> None:
    text = PAGE.read_text()
    columns = [line for line in text.splitlines() if line.startswith("| | in-process")]
    assert columns[0].split(" | ")[1:] == [
        "in-process",
        "in-process, history off",
        "HTTP or pull",
        "HTTP or pull, history off |",
    ]
    assert text.count("*Not promised*") == 3
    for word in (*DeliveryState, *DECISIONS):
        assert word.replace("_", " ") in text or word in text, word
    assert "## Lost disks" in text
