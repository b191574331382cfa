"""What to install of constraints.txt, by hash:   python tools/locked.py embedded test | pip install
--no-deps --require-hashes --requirement /dev/stdin

Named extras of pyproject.toml, `project` for its own dependencies, `build` for what builds it. pip
checks hashes only of requirements that name a version, so all of them are listed, with what they
need in turn: constraints.txt says for each package which others need it. Only the standard library
is used: nothing is installed yet.
"""

import re
import sys
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
_NAME = re.compile(r"[A-Za-z0-9._-]+")
_VIA = re.compile(r"^    #(?: via|  ) +(\S+)", re.MULTILINE)


@dataclass(frozen=True)
class Locked:
    """`text` as it stands in constraints.txt. `needed_by`: names of packages."""

    text: str
    needed_by: frozenset[str]


def normalised(requirement: str) -> str:
    """The name of a package as the index compares it."""
    found = _NAME.match(requirement)
    if found is None:
        raise ValueError(f"{requirement!r} names no package")
    return re.sub(r"[-_.]+", "-", found.group()).lower()


def read(text: str) -> Mapping[str, Locked]:
    found = {}
    for block in re.split(r"^(?=[A-Za-z0-9])", text, flags=re.MULTILINE)[1:]:
        needed_by = frozenset(map(normalised, _VIA.findall(block)))
        lines = [line for line in block.splitlines() if not line.lstrip().startswith("#")]
        found[normalised(block)] = Locked("\n".join(lines), needed_by)
    return found


def wanted(project: Mapping[str, object], groups: Iterable[str]) -> set[str]:
    """Names of the packages that these groups of pyproject.toml ask for. KeyError: no such one."""
    of_project: dict[str, list[str]] = dict(project["project"]["optional-dependencies"])  # type: ignore[index]
    of_project["project"] = project["project"]["dependencies"]  # type: ignore[index]
    of_project["build"] = project["build-system"]["requires"]  # type: ignore[index]
    return {normalised(one) for group in groups for one in of_project[group]}


def with_what_they_need(names: Iterable[str], locked: Mapping[str, Locked]) -> list[str]:
    found = set(names)
    while more := {
        name for name, one in locked.items() if name not in found and one.needed_by & found
    }:
        found |= more
    if missing := sorted(found - locked.keys()):
        raise KeyError(f"constraints.txt has no {', '.join(missing)}: make lock")
    return sorted(found)


def main(groups: list[str]) -> int:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    locked = read((ROOT / "constraints.txt").read_text())
    for name in with_what_they_need(wanted(project, groups), locked):
        print(locked[name].text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
