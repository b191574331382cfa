"""What the generated pages are written with."""

from typing import Any


def table(columns: list[str], rows: list[list[Any]]) -> str:
    """A table of Markdown. Cells may hold anything: line ends and bars are kept apart from it."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join("| " + " | ".join(map(_cell, line)) + " |" for line in lines) + "\n"


def _cell(value: object) -> str:
    return " ".join(str(value).split()).replace("|", "\\|").replace("<", "&lt;")
