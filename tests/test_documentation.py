"""The pages can be followed to the letter. `make docs` checks links and builds the reference."""

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.core.management import CommandError, get_commands, load_command_class

from msh.standalone.management.commands.setup import SECTIONS
from partners.setup import LISTS, OWN, apply
from tools import pictures
from tools.site import offline, sources, states

ROOT = Path(__file__).resolve().parents[1]
PAGES = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("msh/runbooks/*.md")]
_BLOCK = re.compile(r"^ *```(\w+)\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
_COMMAND = re.compile(
    r"(?:^|(?<!-A)[\s(])(?:msh|manage\.py) (?P<name>[a-z][a-z-]+)(?P<rest>[^\n]*)"
)
_END = re.compile(r" [|<>&]|[;)]")
DJANGO = {"check", "makemigrations", "axes_reset_username"}


def _blocks(language: str) -> Iterator[tuple[str, str]]:
    for page in PAGES:
        for found in _BLOCK.finditer(page.read_text(encoding="utf-8")):
            if found[1] == language:
                yield str(page.relative_to(ROOT)), found[2].replace("\\\n", " ")


def _commands() -> Iterator[tuple[str, str, list[str]]]:
    for page, block in _blocks("sh"):
        for found in _COMMAND.finditer(block):
            yield page, found["name"], shlex.split(_END.split(found["rest"])[0], comments=True)


def test_commands_of_the_pages_are_accepted() -> None:
    refused, tried = [], 0
    for page, name, words in _commands():
        if name in DJANGO:
            continue
        tried += 1
        try:
            parser = load_command_class(get_commands()[name], name).create_parser("msh", name)
            parser.parse_args(words)
        except (KeyError, CommandError) as problem:
            refused.append((page, name, words, str(problem)))
    assert refused == []
    assert tried > 60


@pytest.mark.django_db
def test_partners_of_the_pages_can_be_set_up() -> None:
    """Each document of an example; the quick start writes its two by the shell."""
    documents = [
        json.loads(block)
        for _, block in _blocks("json")
        if '"partners"' in block or '"webhooks"' in block
    ]
    for _, block in _blocks("sh"):
        documents += [
            json.loads(one) for one in re.findall(r"<<'END'\n(.*?)\nEND", block, re.DOTALL)
        ]
    for document in documents:
        apply(document, {name: one.take for name, one in SECTIONS.items()})
    assert len(documents) >= 7


def test_sections_of_the_document_for_setup_are_described() -> None:
    page = (ROOT / "docs/running.md").read_text()
    described = page.partition("\n## Partners from a document\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (`.*?) \|", described, re.MULTILINE)
    named = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    assert {*OWN, *LISTS, *SECTIONS} - named == set()


def test_links_between_pages_lead_within_the_site() -> None:
    text = "[a](../../docs/console.md#roles) [b](in-doubt.md) [c](../roles.py) [d](nothing.md)"
    assert sources.in_site(text, "msh/runbooks/gap.md") == (
        "[a](../console.md#roles) [b](in-doubt.md) `msh/roles.py` [d](nothing.md)"
    )


def test_state_diagrams_become_tables() -> None:
    text = "```mermaid\nstateDiagram-v2\n    [*] --> idle\n    idle --> waiting: Polled, Told\n```"
    assert states.as_tables(text).splitlines()[2:] == [
        "| *beginning* | `idle` |  |",
        "| `idle` | `waiting` | Polled, Told |",
    ]


@pytest.mark.parametrize(
    ("html", "loads"),
    [
        ('<script src="https://cdn.example/a.js">', True),
        ("<link rel=stylesheet href=//fonts.example/a.css>", True),
        ("<style>@import url('https://cdn.example/a.css')</style>", True),
        ('<a href="https://example.org/">', False),
        ('<script src="../assets/a.js">', False),
    ],
)
def test_page_that_loads_from_another_host_is_found(tmp_path: Path, html: str, loads: bool) -> None:
    (tmp_path / "page.html").write_text(html)
    assert bool(offline.loaded_from_elsewhere(tmp_path)) is loads


def test_pictures_of_the_console_are_shown_and_small() -> None:
    assert pictures.problems() == []
