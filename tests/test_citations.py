"""Every requirement, decision, section, page and file that the repository cites exists in it."""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.conformance.page import EBMS2_PAGE, PAGE, ebms2_page, page, read_requirements

ROOT = Path(__file__).resolve().parent.parent
SPEC = ROOT / "docs/spec"
FOLDERS = ("msh", "partners", "msh_client", "spark_bridge", "demo", "benchmarks", "tests", "docs")
SUFFIXES = {".py", ".md", ".html", ".dtd", ".css", ".js", ".toml"}

DECISION = re.compile(r"\bD\d{1,3}\b")
REQUIREMENT = re.compile(r"\b(?:00[0-4]-\d{2,3}|EB-\d{3})\b")
MARK = re.compile(r"\bpytest\.mark\.requirement\(([^)]*)\)")
SECTION = re.compile(r"(?<!\S)(?P<source>\S*)\s§\s?(?P<number>\d[\d.]*\d|\d)")
FILE = re.compile(
    r"(?<![\w/.-])(?:docs|msh|partners|tests|demo|benchmarks|msh_client|spark_bridge)/[\w./-]+\.(?:py|md|json|dtd)\b"
)
MODULE = re.compile(
    r"`(?P<path>(?:msh|partners|tests|tools|demo|benchmarks|msh_client|spark_bridge)"
    r"(?!\.(?:[EW]\d|json\b))(?:\.\w+)+)(?:\(\))?`"
)
DEFINITION = r"^\s*(?:async )?(?:def|class) {0}\b|^{0}\b.* ="
MADE_UP = {"000-999", "EB-999", "demo/verdict.json"}  # unknown numbers in tests; a file of the demo
LINK = re.compile(r"\]\((?!https?:|mailto:)(?P<path>[^)#\s]*)(?:#(?P<anchor>[^)\s]+))?\)")
ANCHOR = re.compile(r'<a id="([^"]+)">')
OUTSIDE = re.compile(r"\bDESIGN \d|(?<![\w/(])(?:tables|wire)\.md \d")


def _texts() -> Iterator[tuple[Path, str]]:
    inside = (path for folder in FOLDERS for path in (ROOT / folder).rglob("*"))
    for path in (*ROOT.glob("*.md"), ROOT / "pyproject.toml", *inside):
        if path.suffix in SUFFIXES and path.is_file() and path != Path(__file__):
            yield path, path.read_text(encoding="utf-8")


def _found(pattern: re.Pattern[str]) -> Iterator[tuple[str, re.Match[str]]]:
    for path, text in _texts():
        for match in pattern.finditer(text):
            line = text.count("\n", 0, match.start()) + 1
            yield f"{path.relative_to(ROOT)}:{line}", match


@cache
def _anchors(page: Path) -> set[str]:
    text = page.read_text(encoding="utf-8")
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {*ANCHOR.findall(text), *map(_slug, headings)}


def _slug(heading: str) -> str:
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def test_every_cited_decision_is_in_the_table() -> None:
    decisions = _anchors(SPEC / "decisions.md")
    dead = [(at, found[0]) for at, found in _found(DECISION) if found[0].lower() not in decisions]
    assert dead == []


def test_every_cited_requirement_is_in_the_list() -> None:
    requirements = read_requirements() | read_requirements("ebms2")
    dead = [
        (at, found[0])
        for at, found in _found(REQUIREMENT)
        if found[0] not in {*requirements, *MADE_UP}
    ]
    assert dead == []


def test_every_requirement_is_named_by_a_test() -> None:
    """By the mark of a test, or of all tests of its file: what the mark is given in another way is
    not seen here, and what the tests prove `make conformance` says."""
    requirements = read_requirements() | read_requirements("ebms2")
    named = set()
    for path in (ROOT / "tests").rglob("*.py"):
        for mark in MARK.findall(path.read_text(encoding="utf-8")):
            named.update(REQUIREMENT.findall(mark))
    assert [number for number in requirements if number not in named] == []


def test_every_cited_section_is_one_of_the_draft() -> None:
    sections = _anchors(SPEC / "README.md")
    dead = [
        (at, found[0])
        for at, found in _found(SECTION)
        if not found["source"].isdecimal() or found["source"] == "000"
        if f"s{found['number']}" not in sections
    ]
    assert dead == []


def test_the_journeys_in_architecture_md_name_what_is_in_the_files() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    journeys = text.partition("## Journeys")[2].partition("\n## ")[0]
    steps = re.split(r"^\d+\. |\n\n", journeys, flags=re.MULTILINE)
    assert len(steps) > 20
    dead = []
    for step in steps:
        source = "".join((ROOT / file).read_text(encoding="utf-8") for file in FILE.findall(step))
        names = re.findall(r"`(\w+)`", step)
        dead += [
            name for name in names if not re.search(DEFINITION.format(name), source, re.MULTILINE)
        ]
    assert dead == []


def test_every_file_named_in_the_repository_is_in_it() -> None:
    dead = [
        (at, found[0])
        for at, found in _found(FILE)
        if not (ROOT / found[0]).exists() and found[0] not in MADE_UP
    ]
    assert dead == []


def test_every_module_named_in_the_repository_is_in_it() -> None:
    dead = [(at, found["path"]) for at, found in _found(MODULE) if not _is_module(found["path"])]
    assert dead == []


def _is_module(path: str) -> bool:
    """Or what one defines."""
    *folders, name = path.split(".")
    inside, module = ROOT.joinpath(*folders, name), ROOT.joinpath(*folders)
    files = (module.with_suffix(".py"), module / "__init__.py")
    source = "".join(file.read_text(encoding="utf-8") for file in files if file.is_file())
    defined = re.search(DEFINITION.format(name), source, re.MULTILINE)
    return bool(defined) or inside.is_dir() or inside.with_suffix(".py").is_file()


def test_every_link_between_pages_leads_somewhere() -> None:
    dead = []
    for at, found in _found(LINK):
        here = ROOT / at.rsplit(":", 1)[0]
        if here.suffix != ".md":
            continue
        target = (here.parent / found["path"]).resolve() if found["path"] else here
        anchor = found["anchor"]
        if not target.exists() or (anchor and anchor not in _anchors(target)):
            dead.append((at, found[0]))
    assert dead == []


def test_nothing_cites_a_page_outside_the_repository() -> None:
    assert [(at, found[0]) for at, found in _found(OUTSIDE)] == []


def test_the_pages_of_requirements_are_up_to_date() -> None:
    assert PAGE.read_text() == page(read_requirements())
    assert EBMS2_PAGE.read_text() == ebms2_page(read_requirements("ebms2"))


@pytest.mark.parametrize("number", ["D1", "D63"])
def test_the_decisions_are_found_by_their_numbers(number: str) -> None:
    assert number.lower() in _anchors(SPEC / "decisions.md")
