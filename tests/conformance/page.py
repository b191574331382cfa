"""`docs/spec/requirements.md`, written from `requirements.json`.

python -m tests.conformance.page --write
"""

import json
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

_REQUIREMENTS = Path(__file__).with_name("requirements.json")
PAGE = Path(__file__).resolve().parents[2] / "docs/spec/requirements.md"

_SOURCES = {
    "000": "000: the reliable messaging draft",
    "001": "001: store-and-forward (OSB)",
    "002": "002: document history (webMethods)",
    "003": "003: queued transactions (Mercury)",
    "004": "004: id map (SAP XI)",
}
_HEAD = """\
# Requirements

The 168 requirements, restated from the five [sources](README.md#sources), each with a test that
can be observed from outside. Tests name the requirement they prove
(`@pytest.mark.requirement("000-021")`); `make conformance` prints which tests prove which
requirement. Where a source contradicts another one, [decisions.md](decisions.md) decides; where
it differs from this page, it takes precedence.

This page is generated from `tests/conformance/requirements.json`: edit that file, then run
`python -m tests.conformance.page --write`.

In the tests, **A** is our sending MSH, **B** our receiving MSH, **P** a scripted peer that shares
no code with them, **W** a fault proxy between them, **app** the receiving application. In the
column *source*, SHALL and MAY are the words of the source; prose is a normative section without
such a word; P2 is phase 2 or 3 (section 4); NN is not normative (section 5); ED is an editor's
note; EX is an example or the DTD.
"""


def page(requirements: Mapping[str, Mapping[str, str]]) -> str:
    """The page as Markdown."""
    sections = (_section(source, title, requirements) for source, title in _SOURCES.items())
    return "\n".join((_HEAD, *sections))


def read_requirements() -> dict[str, dict[str, str]]:
    """Number → ref, text, test."""
    requirements: dict[str, dict[str, str]] = json.loads(_REQUIREMENTS.read_text())
    return requirements


def _section(source: str, title: str, requirements: Mapping[str, Mapping[str, str]]) -> str:
    numbers = (number for number in requirements if number.startswith(f"{source}-"))
    rows = (_row(number, requirements[number]) for number in numbers)
    return _table(f"## {title}", rows)


def _table(title: str, rows: Iterable[str]) -> str:
    head = ("| number | source | requirement | observable test |", "|---|---|---|---|")
    return "\n".join((title, "", *head, *rows, ""))


def _row(number: str, requirement: Mapping[str, str]) -> str:
    cells = (requirement[name].replace("|", "\\|") for name in ("ref", "text", "test"))
    return f'| <a id="{number}"></a>{" | ".join((number, *cells))} |'


if __name__ == "__main__":
    text = page(read_requirements())
    if "--write" in sys.argv[1:]:
        PAGE.write_text(text)
    else:
        sys.stdout.write(text)
