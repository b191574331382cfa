"""The tables of the protocol as pictures: `python -m tools.diagram` prints them, `--write` puts
them into the pages that show them, between `<!-- sender:begin -->` and `<!-- sender:end -->`, and
so on.
"""

import sys
from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any

from msh.protocol import flight, receiver, sender
from msh.protocol.flight import conversation, gate, numbering
from msh.protocol.receiver import Known
from msh.protocol.table import Cell

ROOT = Path(__file__).parents[1]


def sender_diagram() -> str:
    return _diagram(sender.TRANSITIONS)


def flight_diagram() -> str:
    return _diagram(flight.TRANSITIONS)


def gate_diagram() -> str:
    return _diagram(gate.TRANSITIONS)


def numbering_diagram() -> str:
    return _diagram(numbering.TRANSITIONS)


def _diagram(table: Mapping[Any, Mapping[type, Cell[Any] | None]]) -> str:
    """A mermaid state diagram: every arrow that leaves its state, with the events that take it.
    The first state is where it begins."""
    arrows = [
        f"    {state} --> {target}: {', '.join(events)}"
        for state in table
        for target in table
        if target is not state and (events := _events(table[state], target))
    ]
    lines = ["```mermaid", "stateDiagram-v2", f"    [*] --> {next(iter(table))}", *arrows, "```"]
    return "\n".join(lines)


def _events(row: Mapping[type, Cell[Any] | None], target: StrEnum) -> list[str]:
    return [event.__name__ for event, cell in row.items() if cell and target in cell.targets]


def receiver_table() -> str:
    return _number_table("SequenceNumber", receiver.TABLE, receiver.Position)


def conversation_table() -> str:
    return _number_table("MessageOrder", conversation.TABLE, conversation.Position)


def _number_table(
    title: str, table: Mapping[Known, Mapping[Any, StrEnum]], positions: Iterable[StrEnum]
) -> str:
    """A table: where the number stands, against what is known of the MessageId."""
    rows: list[list[str]] = [
        [title, *(f"MessageId known: {known}" for known in Known)],
        ["---"] * (1 + len(Known)),
        *([str(where), *(str(table[known][where]) for known in Known)] for where in positions),
    ]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


PAGES: dict[str, dict[str, Callable[[], str]]] = {
    "ARCHITECTURE.md": {"sender": sender_diagram, "receiver": receiver_table},
    "docs/ebms2-flight.md": {
        "flight": flight_diagram,
        "gate": gate_diagram,
        "numbering": numbering_diagram,
        "conversation": conversation_table,
    },
}
"""Page → marker → what is drawn between them."""


def drawn_into(text: str, drawings: Mapping[str, Callable[[], str]]) -> str:
    """`text` with what stands between the markers drawn anew. ValueError if a marker is missing."""
    for name, draw in drawings.items():
        text = _between(text, name, draw())
    return text


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
        for page, drawings in PAGES.items():
            path = ROOT / page
            path.write_text(drawn_into(path.read_text("utf-8"), drawings), "utf-8")
    elif arguments:
        sys.stderr.write("usage: python -m tools.diagram [--write]\n")
        return 2
    else:
        drawn = (draw() for drawings in PAGES.values() for draw in drawings.values())
        sys.stdout.write("\n\n".join(drawn) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
