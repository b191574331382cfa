"""What `make scale-out ARGS="--move"` looks at beyond the judge of the demo."""

import json
from pathlib import Path

import pytest

from demo.sighting import sight
from tests.demo.link import LANE, message
from tests.scale_out.move import numbers_on_the_wire, wrong_numbers

LANES = [{" > ".join(LANE): "acme a>b"}]


@pytest.mark.parametrize(
    ("numbers", "found"),
    [
        ([("m1", 1), ("m2", 2), ("m1", 1), ("m3", 3)], []),
        ([("m1", 1), ("m2", 3)], ["acme a>b has the numbers [1, 3]"]),
        ([("m1", 1), ("m2", 1)], ["acme a>b has the numbers [1, 1]"]),
        ([("m2", 2)], ["acme a>b has the numbers [2]"]),
    ],
)
def test_numbers_go_on_without_a_hole(
    tmp_path: Path, numbers: list[tuple[str, int]], found: list[str]
) -> None:
    seen = [sight(message(message_id, number)) for message_id, number in numbers]
    log = tmp_path / "log"
    names = ("kind", "message_id", "sequence_number")
    lines = [{"pair": one.lane} | {name: getattr(one, name) for name in names} for one in seen]
    log.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    assert wrong_numbers(numbers_on_the_wire(log), LANES) == found
