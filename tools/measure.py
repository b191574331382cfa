"""Figures by which two versions are compared: sizes, journeys, imports. Nothing is run.

    python tools/measure.py [FOLDER ...]              a column for each; default: this checkout
    python tools/measure.py [FOLDER] --journey NAME   the functions that are counted, by file

Own code: lines of `msh`, `partners`, `msh_client` and `spark_bridge` without migrations. The core:
what a message passes through, that is CORE without FEATURES. Tests: lines of Python and TOML below
`tests/`.

A journey begins at the functions that `tools/journeys.toml` names under `starts`, and follows every
call that the source shows (`tools/calls.py` says how). What stands under `aside`, which an ordinary
message does not enter, is neither counted nor followed; nor are methods without a body, of
protocols and abstract classes. A function of `msh/wire` that others call counts as one, whatever it
calls. Files are those of the functions.

Circles: groups of modules that import each other; imports inside functions and for type checkers
count too. Arrows up: rooms are the folders in a package, and each module beside them; where rooms
import each other in a circle, the fewest imports without which they would not.
"""

import argparse
import ast
import re
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import translate
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tools.calls import Function, Graph
from tools.source import Module, imported, importers, modules

# What a message passes through on its way, and what is asked on it.
CORE = (
    *("msh/protocol/", "msh/wire/", "msh/transport/", "msh/models/", "partners/"),
    *("msh/store/", "msh/flows/", "msh/endpoint/", "msh/smtpd/", "msh/api/", "msh/tasks.py"),
)
# A folder or module of such a name is a feature that the core does without.
FEATURES = re.compile(
    r"/(operations|operators|statistics|alerts?|four_eyes|many|search|business_keys?|moving"
    r"|act_request|bulk_\w+|stuck\w*|escalation|window)(/|\.py$)"
)
# Documented, though they begin with an underscore: of Django's models, of named tuples, of the
# standard library, lxml's class of elements, the types of WSGI, a factory of aiosmtpd.
DOCUMENTED = frozenset(
    {
        *("_meta", "_state", "_default_manager", "_base_manager"),
        *("_asdict", "_fields", "_replace", "_exit", "_current_frames", "_Element", "_typeshed"),
        "_create_envelope",
    }
)
JOURNEYS = Path(__file__).with_name("journeys.toml")


# --- sizes ----------------------------------------------------------------------------------------
def is_core(module: Module) -> bool:
    path = module.path.as_posix()
    return path.startswith(CORE) and not FEATURES.search(path)


def lines_of(source: Iterable[Module]) -> int:
    return sum(module.lines for module in source)


def lines_of_tests(root: Path) -> int:
    files = (file for end in ("py", "toml") for file in (root / "tests").rglob(f"*.{end}"))
    return sum(file.read_text(encoding="utf-8").count("\n") for file in files)


def comments(source: list[Module]) -> str:
    """Whole-line comments in 1,000 lines."""
    found = sum(
        line.lstrip().startswith("#") for module in source for line in module.text.splitlines()
    )
    return f"{1000 * found / lines_of(source):.0f}"


def spans(source: list[Module]) -> str:
    """Lines of functions: median, 90 %, longest."""
    found = sorted(
        node.end_lineno - node.lineno + 1
        for module in source
        for node in ast.walk(module.tree)
        if isinstance(node, Function) and node.end_lineno
    )
    return f"{found[len(found) // 2]}, {found[len(found) * 9 // 10]}, {found[-1]}"


# --- journeys -------------------------------------------------------------------------------------
class Journey(NamedTuple):
    """See the top of `journeys.toml`."""

    title: str
    starts: tuple[str, ...]
    before: tuple[str, ...]
    aside: tuple[str, ...]
    aside_before: tuple[str, ...]


def journeys(path: Path = JOURNEYS) -> dict[str, Journey]:
    """The journeys by name."""
    data = tomllib.loads(path.read_text(encoding="utf-8"))
    common = data.pop("aside")
    return {
        name: Journey(
            one["title"],
            tuple(one["starts"]),
            tuple(one.get("before", ())),
            (*common, *one.get("aside", ())),
            (*common, *one.get("aside_before", one.get("aside", ()))),
        )
        for name, one in data.items()
    }


def functions_of(journey: Journey, graph: Graph) -> list[str]:
    """The names of the functions of a journey, in the order of a reader. Raises ValueError if the
    source has not all of its starts."""
    now, before = (journey.starts, journey.aside), (journey.before, journey.aside_before)
    for starts, aside in (now, before):
        if starts and graph.functions.keys() >= set(starts):
            return graph.reached(starts, re.compile("|".join(map(translate, aside))).match)
    missing = ", ".join(name for name in journey.starts if name not in graph.functions)
    raise ValueError(f"{journey.title}: {JOURNEYS.name} names {missing}, which is not there")


def files_of(names: Iterable[str], graph: Graph) -> dict[str, list[str]]:
    """File → its functions among these."""
    found: dict[str, list[str]] = defaultdict(list)
    for name in names:
        module = graph.functions[name].module
        found[module.path.as_posix()].append(name.removeprefix(f"{module.name}."))
    return found


# --- imports --------------------------------------------------------------------------------------
def imports(source: list[Module]) -> dict[str, set[str]]:
    """Module → the modules that it imports, wherever in it."""
    found: dict[str, set[str]] = {module.name: set() for module in source}
    for name, by in importers(source).items():
        for one in by:
            found[one].add(name)
    return found


def circles(graph: Mapping[str, set[str]]) -> list[list[str]]:
    """The largest groups of which each member reaches each other one."""
    reach = {name: _reached(name, graph) for name in graph}
    groups = {
        tuple(sorted(other for other in reach[name] if name in reach[other])) for name in graph
    }
    return sorted(list(group) for group in groups if len(group) > 1)


def _reached(start: str, graph: Mapping[str, set[str]]) -> set[str]:
    found: set[str] = set()
    waiting = [start]
    while waiting:
        for name in graph.get(waiting.pop(), set()) - found:
            found.add(name)
            waiting.append(name)
    return found


def arrows_up(source: list[Module]) -> list[str]:
    """The fewest imports between rooms without which no rooms were in a circle."""
    rooms = {module.name: _room(module) for module in source}
    arrows: dict[str, set[str]] = defaultdict(set)
    for name, used in imports(source).items():
        arrows[rooms[name]] |= {rooms[one] for one in used} - {rooms[name]}
    return [arrow for circle in circles(arrows) for arrow in _fewest(circle, arrows)]


def _room(module: Module) -> str:
    """Its folder in the package, or itself beside these folders."""
    folders = module.path.parts[:-1]
    return ".".join(folders[:2]) if len(folders) > 1 else module.name


def _fewest(circle: list[str], arrows: Mapping[str, set[str]]) -> list[str]:
    inside = [(one, other) for one in circle for other in sorted(arrows[one] & set(circle))]
    for count in range(1, len(inside)):
        for gone in combinations(inside, count):
            left = {
                one: {b for a, b in inside if a == one and (a, b) not in gone} for one in circle
            }
            if not circles(left):
                return [f"{one} → {other}" for one, other in gone]
    return []


def imports_inside_functions(source: list[Module]) -> list[str]:
    """Their lines, as `path: line`."""
    found = {
        (module.path, node.lineno): module.text.splitlines()[node.end_lineno - 1].strip()
        for module in source
        for function in ast.walk(module.tree)
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        for node in ast.walk(function)
        if isinstance(node, ast.Import | ast.ImportFrom) and node.end_lineno
    }
    return [f"{path}: {line}" for (path, _), line in sorted(found.items())]


# --- private names --------------------------------------------------------------------------------
def private_names(source: list[Module]) -> list[str]:
    """Names of libraries that are not public, as `path: name`.

    An imported module that has a part with an underscore before it, or named `internal`; and an
    attribute with one that neither the module nor one of ours that it imports defines. A name of a
    library that a class of ours overrides is not seen here (`tests/test_public_faces.py` sees it).
    """
    ours = {module.name.partition(".")[0] for module in source}
    uses: dict[str, set[str]] = defaultdict(set)
    for used, by in importers(source).items():
        for name in by:
            uses[name].add(used)
    defined = {module.name: set(_defined(module)) for module in source}
    found = set()
    for module in source:
        known = DOCUMENTED.union(
            defined[module.name], *(defined[name] for name in uses[module.name])
        )
        for node in ast.walk(module.tree):
            found |= {f"{module.path}: {name}" for name in _private(node, ours, known)}
    return sorted(found)


def _private(node: ast.AST, ours: set[str], known: frozenset[str]) -> Iterator[str]:
    if isinstance(node, ast.Attribute):
        if is_private(node.attr) and node.attr not in known:
            yield node.attr
    elif isinstance(node, ast.Import) or (isinstance(node, ast.ImportFrom) and not node.level):
        for name in imported(node, "").values():
            parts = name.split(".")
            if parts[0] in ours or parts[0] in sys.stdlib_module_names:
                continue
            if any(is_private(part) or part == "internal" for part in {*parts} - DOCUMENTED):
                yield name


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def _defined(module: Module) -> Iterator[str]:
    """Names of its functions, classes, variables, and attributes of `self`."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif (
            isinstance(node, ast.Attribute)
            and isinstance(node.ctx, ast.Store)
            and isinstance(node.value, ast.Name)
            and node.value.id == "self"
        ):
            yield node.attr


# --- what is printed ------------------------------------------------------------------------------
class Figure(NamedTuple):
    """`where`: what was counted, if it is to be listed."""

    value: object
    where: Iterable[str] = ()


def figures(root: Path) -> dict[str, Figure]:
    """The rows of the table for one checkout."""
    source = modules(root)
    groups, up, private = circles(imports(source)), arrows_up(source), private_names(source)
    inside = imports_inside_functions(source)
    graph = Graph(source)
    counted = {f"{one.title} ({name})": _count(one, graph) for name, one in journeys().items()}
    return {
        "own code, lines": Figure(lines_of(source)),
        "  of it the core": Figure(lines_of(filter(is_core, source))),
        "tests with mutants and data of tables, lines": Figure(lines_of_tests(root)),
        "functions / files:": Figure(""),
        **{f"  {what}": figure for what, figure in counted.items()},
        "circles of modules": Figure(len(groups), map(", ".join, groups)),
        "arrows up": Figure(len(up), up),
        "imports inside functions": Figure(len(inside), inside),
        "private names of libraries": Figure(len(private), private),
        "lines of a function: median, 90 %, longest": Figure(spans(source)),
        "whole-line comments in 1,000 lines": Figure(comments(source)),
        "lines in:": Figure(""),
        **{f"  {room}": Figure(lines) for room, lines in sorted(lines_by_room(source).items())},
    }


def _count(journey: Journey, graph: Graph) -> Figure:
    found = functions_of(journey, graph)
    return Figure(f"{len(found)} / {len(files_of(found, graph))}")


def lines_by_room(source: list[Module]) -> dict[str, int]:
    rooms: dict[str, int] = defaultdict(int)
    for module in source:
        rooms["/".join(module.path.parts[:-1][:2])] += module.lines
    return rooms


def print_table(tables: list[dict[str, Figure]]) -> None:
    """A column for each checkout. What was counted is listed for the last one."""
    for what in dict.fromkeys(row for table in tables for row in table):
        row = [table.get(what, Figure("-")) for table in tables]
        print(f"{what:64}", *(f"{figure.value!s:>12}" for figure in row))
        for line in row[-1].where:
            print(f"    {line}")


def print_journey(name: str, source: list[Module]) -> None:
    graph, known = Graph(source), journeys()
    if name not in known:
        sys.exit(f"There is no journey {name!r}; there are {', '.join(known)}.")
    for file, functions in files_of(functions_of(known[name], graph), graph).items():
        print(f"{file:64}", f"{len(functions):>12}")
        for function in functions:
            print(f"    {function}")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    here = Path(__file__).resolve().parent.parent
    parser.add_argument("folders", nargs="*", type=Path, default=[here])
    parser.add_argument("--journey", help="list its functions by file")
    options = parser.parse_args()
    if options.journey:
        print_journey(options.journey, modules(options.folders[-1]))
    else:
        print_table([figures(folder) for folder in options.folders])


if __name__ == "__main__":
    main()
