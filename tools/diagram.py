"""The tables of the protocol as pictures: `python -m tools.diagram` prints them, `--write` puts
them into the pages that show them, between `<!-- sender:begin -->` and `<!-- sender:end -->`, and
so on.
"""

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from enum import StrEnum
from itertools import product
from pathlib import Path
from typing import Any

from msh.protocol import delivery, flight, receiver, sender
from msh.protocol.delivery import events as on
from msh.protocol.delivery.events import DeliveryEvent
from msh.protocol.errors import IllegalTransition
from msh.protocol.flight import conversation, gate, numbering
from msh.protocol.kinds import DeliveryState, OnFailure
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
    """Every arrow that leaves its state, with the events that take it."""
    return _drawn(
        {state: {target: _events(table[state], target) for target in table} for state in table}
    )


def _events(row: Mapping[type, Cell[Any] | None], target: StrEnum) -> list[str]:
    return [event.__name__ for event, cell in row.items() if cell and target in cell.targets]


def _drawn(arrows: Mapping[Any, Mapping[Any, Sequence[str]]]) -> str:
    """A mermaid state diagram, which begins with the first state. Arrows that return to their own
    state are left out."""
    lines = [
        f"    {state} --> {target}: {', '.join(events)}"
        for state, targets in arrows.items()
        for target, events in targets.items()
        if target is not state and events
    ]
    start = f"    [*] --> {next(iter(arrows))}"
    return "\n".join(["```mermaid", "stateDiagram-v2", start, *lines, "```"])


_HAPPENS: tuple[DeliveryEvent, ...] = (
    on.DeliveryPolled(),
    on.AttemptSucceeded(1),
    on.AttemptRejected(1, ""),
    on.AttemptFailed(1, ""),
    on.OutcomeLost(1, ""),
    on.OutcomeKept(),
    *(on.ResolverAnswered(1, verdict) for verdict in on.ResolverVerdict),
    on.RunAgainRequested(),
    on.CompletionMarked(),
    on.RejectionMarked(),
    on.ParkRequested(),
    on.ResolverRequested(),
)
_POLICIES = [
    on.Policy(doubtful, 60, attempts, 60, on_failure, has_resolver)
    for doubtful in (False, True)
    for attempts in (1, 9)  # spent, or not
    for on_failure in OnFailure
    for has_resolver in (False, True)
]
_NOW = datetime(2000, 1, 1, tzinfo=UTC)


def delivery_diagram() -> str:
    """Its cells do not say where they lead: each event is tried in each state, by every policy."""
    arrows: dict[Any, dict[Any, list[str]]] = {
        one: {to: [] for to in DeliveryState} for one in DeliveryState
    }
    for state, policy, event in product(DeliveryState, _POLICIES, _HAPPENS):
        with suppress(IllegalTransition):
            before = on.Delivery(state, 1, due=_NOW)
            after, _ = delivery.step(before, event, policy, now=_NOW)
            events = arrows[state][after.state]
            if type(event).__name__ not in events:
                events.append(type(event).__name__)
    return _drawn(arrows)


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
    "docs/states.md": {
        "sender": sender_diagram,
        "receiver": receiver_table,
        "flight": flight_diagram,
        "gate": gate_diagram,
        "numbering": numbering_diagram,
        "conversation": conversation_table,
        "delivery": delivery_diagram,
    },
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
        every = dict.fromkeys(draw for drawings in PAGES.values() for draw in drawings.values())
        sys.stdout.write("\n\n".join(draw() for draw in every) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
