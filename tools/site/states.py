"""State diagrams of the pages as tables: Mermaid would have to be loaded from another host."""

import re

_DIAGRAM = re.compile(r"```mermaid\nstateDiagram-v2\n(.*?)```", re.DOTALL)
_ARROW = re.compile(r"(\S+) --> (\S+?)(?:: (.+))?$")


def as_tables(text: str) -> str:
    return _DIAGRAM.sub(lambda found: _table(found[1]), text)


def _table(arrows: str) -> str:
    rows = ["| from | to | on |", "|---|---|---|"]
    for line in filter(None, map(str.strip, arrows.splitlines())):
        found = _ARROW.match(line)
        if found is None:
            raise ValueError(f"not an arrow of a state diagram: {line}")
        before, after, events = found.groups()
        origin = "*beginning*" if before == "[*]" else f"`{before}`"
        rows.append(f"| {origin} | `{after}` | {events or ''} |")
    return "\n".join([*rows, ""])
