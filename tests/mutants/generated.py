"""The mutants that are generated, and the reasons for which some of them stay."""

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path

from . import decisions, sql
from .trees import ROOT, Mutant

STAYS = "stays"
SOURCES = ("msh/protocol", *sql.TESTS)
SURVIVORS = Path(__file__).parent / "survivors.toml"

Change = tuple[str, str, str]
"""A file, what was in the lines that differ, what is in them now."""
Reasons = Mapping[Change, str]


@dataclass(frozen=True, slots=True)
class Generated(Mutant):
    """`find` and `replace` are the whole file; `change` is what differs."""

    change: Change


def load_reasons() -> Reasons:
    entries = tomllib.loads(SURVIVORS.read_text())["survivor"]
    return {(one["file"], one["was"], one["became"]): one["why"] for one in entries}


def load(paths: Sequence[str]) -> list[Generated]:
    """Those of each file or folder. Raises ValueError if one has none."""
    return [mutant for path in paths for mutant in _of_path(path)]


def _of_path(path: str) -> list[Generated]:
    files = [one for one in (ROOT / path, *sorted((ROOT / path).rglob("*.py"))) if one.is_file()]
    found = [one for file in files for one in _of_file(str(file.relative_to(ROOT)))]
    if not found:
        raise ValueError(f"nothing is generated of {path}: name a part of {', '.join(SOURCES)}")
    return found


def _of_file(file: str) -> Iterator[Generated]:
    if file.startswith("msh/protocol/"):
        texts, tests = decisions.mutations, decisions.tests_of(file)
    elif file in sql.TESTS:
        texts, tests = sql.mutations, sql.TESTS[file]
    else:
        return
    source = (ROOT / file).read_text()
    for text in filter(_is_python, dict.fromkeys(texts(source))):
        line, was, became = _difference(source, text)
        if was.startswith("@dataclass"):  # that a value is frozen decides nothing
            continue
        rule = f"{file}:{line}  {was}  ->  {became}"
        yield Generated(rule, file, source, text, tests, (file, was, became))


def _is_python(text: str) -> bool:
    try:
        compile(text, "mutant", "exec")
    except SyntaxError:
        return False
    return True


def _difference(before: str, after: str) -> tuple[int, str, str]:
    """The number of the first line that differs, and the lines that differ, each as one line."""
    old, new = before.splitlines(), after.splitlines()
    first = _equal(old, new)
    last = _equal(old[:first:-1], new[:first:-1])
    was, became = (text[first : len(text) - last] for text in (old, new))
    return first + 1, " ".join(map(str.strip, was)), " ".join(map(str.strip, became))


def _equal(one: Sequence[str], other: Sequence[str]) -> int:
    """How many lines are the same at the beginning of both."""
    pairs = zip(one, other, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
