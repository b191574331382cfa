"""The tables of the Sender and of the Receiver as pictures: `python -m tools.diagram` prints them,
`--write` puts them into ARCHITECTURE.md, between `<!-- sender:begin -->` and `<!-- sender:end -->`,
and so on.
"""

import sys
from pathlib import Path

from msh.protocol.lane import LaneState
from msh.protocol.receiver import TABLE, Known, Position
from msh.protocol.sender import TRANSITIONS

ARCHITECTURE = Path(__file__).parents[1] / "ARCHITECTURE.md"


def sender_diagram() -> str:
    """A mermaid state diagram: every arrow that leaves its state, with the events that take it."""
    arrows = [
        f"    {state} --> {target}: {', '.join(events)}"
        for state in LaneState
        for target in LaneState
        if target is not state and (events := _events(state, target))
    ]
    lines = ["```mermaid", "stateDiagram-v2", f"    [*] --> {LaneState.IDLE}", *arrows, "```"]
    return "\n".join(lines)


def _events(state: LaneState, target: LaneState) -> list[str]:
    cells = TRANSITIONS[state].items()
    return [event.__name__ for event, cell in cells if cell and target in cell.targets]


def receiver_table() -> str:
    """A table: where the SequenceNumber stands, against what is known of the MessageId."""
    rows: list[list[str]] = [
        ["SequenceNumber", *(f"MessageId known: {known}" for known in Known)],
        ["---"] * (1 + len(Known)),
        *([str(where), *(str(TABLE[known][where]) for known in Known)] for where in Position),
    ]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def drawn_into(text: str) -> str:
    """`text` with what stands between the markers drawn anew. ValueError if a marker is missing."""
    return _between(_between(text, "sender", sender_diagram()), "receiver", receiver_table())


def _between(text: str, name: str, drawing: str) -> str:
    begin, end = f"<!-- {name}:begin -->", f"<!-- {name}:end -->"
    before, found_begin, rest = text.partition(begin)
    _, found_end, after = rest.partition(end)
    if not found_begin or not found_end:
        raise ValueError(f"no {begin} … {end} to draw into")
    return f"{before}{begin}\n{drawing}\n{end}{after}"


def main(arguments: list[str]) -> int:
    """Returns the exit status."""
    if arguments == ["--write"]:
        ARCHITECTURE.write_text(drawn_into(ARCHITECTURE.read_text("utf-8")), "utf-8")
    elif arguments:
        sys.stderr.write("usage: python -m tools.diagram [--write]\n")
        return 2
    else:
        sys.stdout.write(f"{sender_diagram()}\n\n{receiver_table()}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
