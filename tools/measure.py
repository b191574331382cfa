"""Figures about the source: sizes by room, SQL, names, comments, types. Standard library only.

    python tools/measure.py [FOLDER]      FOLDER is a checkout; default: this one

Every figure is a count over the syntax trees of the product (`msh`, `partners`, `spark_bridge`,
without migrations), so two versions can be compared. Counting rules stand beside each figure.
"""

import ast
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PACKAGES = ("msh", "partners", "spark_bridge")
# A string is SQL if it begins like a statement. Fragments (column lists, joins) are not counted.
SQL = re.compile(r"\s*(SELECT|INSERT INTO|UPDATE|DELETE FROM|WITH|COPY)\b")
HISTORY = re.compile(r"INSERT INTO msh_history")
POSITIONAL = re.compile(r"(?<!%)%s")
# Documented, though they begin with an underscore: of Django's models, of named tuples, of the
# standard library, lxml's class of elements, the types of WSGI, a factory of aiosmtpd.
DOCUMENTED = frozenset(
    {
        *("_meta", "_state", "_default_manager", "_base_manager"),
        *("_asdict", "_fields", "_replace", "_exit", "_current_frames", "_Element", "_typeshed"),
        "_create_envelope",
    }
)
# Past participles by their form, without verbs, adjectives and nouns of the domain that look alike.
PARTICIPLE = re.compile(r"^_?[a-z]*(ed|ent|old|ept|iven|aken|hown|ought)(_|$)")
NOT_PARTICIPLES = re.compile(
    r"^_?(need|feed|seed|event|content|sent_at|threshold|embedded|speed|accept|hold|proceed)"
)


@dataclass(frozen=True)
class Module:
    """A source file with its syntax tree."""

    path: Path
    name: str
    text: str
    tree: ast.Module

    @property
    def lines(self) -> int:
        return self.text.count("\n")

    @property
    def room(self) -> str:
        return "/".join(self.path.parts[:2]) if len(self.path.parts) > 2 else self.path.parts[0]


def modules(root: Path) -> list[Module]:
    """The product's modules."""
    files = (file for name in PACKAGES for file in sorted((root / name).rglob("*.py")))
    return [_module(root, file) for file in files if "migrations" not in file.parts]


def _module(root: Path, file: Path) -> Module:
    path = file.relative_to(root)
    name = ".".join(path.with_suffix("").parts).removesuffix(".__init__")
    text = file.read_text(encoding="utf-8")
    return Module(path, name, text, ast.parse(text))


def functions(
    source: list[Module],
) -> Iterator[tuple[Module, ast.FunctionDef | ast.AsyncFunctionDef]]:
    for module in source:
        for node in ast.walk(module.tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield module, node


def strings(module: Module) -> Iterator[str]:
    """String constants, those in f-strings too; docstrings left out."""
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(module.tree):
        if (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and id(node) not in docstrings
        ):
            yield node.value


def importers(source: list[Module]) -> dict[str, set[str]]:
    """Module → the modules that import it."""
    known = {module.name for module in source}
    found: dict[str, set[str]] = defaultdict(set)
    for module in source:
        package = (
            module.name if module.path.name == "__init__.py" else module.name.rpartition(".")[0]
        )
        for node in ast.walk(module.tree):
            for imported in _imported(node, package):
                if (name := _longest_known(imported, known)) not in ("", module.name):
                    found[name].add(module.name)
    return found


def _longest_known(name: str, known: set[str]) -> str:
    while name and name not in known:
        name = name.rpartition(".")[0]
    return name


def _imported(node: ast.AST, package: str) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if not isinstance(node, ast.ImportFrom):
        return []
    base = node.module or ""
    if node.level:
        parts = package.split(".")[: len(package.split(".")) - node.level + 1]
        base = ".".join([*parts, base]) if base else ".".join(parts)
    return [f"{base}.{alias.name}" for alias in node.names]


def private_names(source: list[Module]) -> list[str]:
    """Names of libraries that are not public, as `path: name`.

    An imported module that has a part with an underscore before it, or named `internal`; and an
    attribute with one that neither the module nor one of ours that it imports defines. A name of a
    library that a class of ours overrides is not seen here (`tests/test_public_faces.py` sees it).
    """
    ours = {module.name.partition(".")[0] for module in source}
    uses: dict[str, set[str]] = defaultdict(set)
    for imported, by in importers(source).items():
        for name in by:
            uses[name].add(imported)
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
        for name in _imported(node, ""):
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


def faces(source: list[Module]) -> None:
    found = private_names(source)
    show("private names of libraries", len(found), found)


def by_room(source: list[Module]) -> None:
    rooms: dict[str, list[int]] = defaultdict(list)
    for module in source:
        rooms[module.room].append(module.lines)
    for room, lines in sorted(rooms.items()):
        print(f"  {room:32} {len(lines):4} modules {sum(lines):6} lines, longest {max(lines)}")


def sizes(source: list[Module]) -> None:
    folders = Counter(module.path.parent for module in source)
    folder, count = folders.most_common(1)[0]
    show("fullest folder (modules)", f"{count}  {folder}")
    spans = sorted(
        node.end_lineno - node.lineno + 1 for _, node in functions(source) if node.end_lineno
    )
    show("functions", len(spans))
    show(
        "function lines: median, 90 %, longest",
        f"{spans[len(spans) // 2]}, {spans[len(spans) * 9 // 10]}, {spans[-1]}",
    )
    small = importers(source)
    few = [
        m
        for m in source
        if m.lines < 30 and len(small[m.name]) == 1 and m.path.name != "__init__.py"
    ]
    show("modules under 30 lines with one importer", len(few), [str(m.path) for m in few])


def sql(source: list[Module]) -> None:
    homes: Counter[str] = Counter()
    history: Counter[str] = Counter()
    positional = 0
    for module in source:
        for text in strings(module):
            if SQL.match(text):
                homes[module.room] += 1
                positional += len(POSITIONAL.findall(text))
            history[str(module.path)] += len(HISTORY.findall(text))
        history[str(module.path)] += module.text.count("History.objects.create")
    history += Counter()
    show(
        "rooms with SQL statements",
        len(homes),
        [f"{name} ({n})" for name, n in homes.most_common()],
    )
    show("positional placeholders in statements", positional)
    show("places that insert into the history", sum(history.values()), list(history))


def names(source: list[Module]) -> None:
    participles = sorted(
        f"{module.name}.{node.name}"
        for module, node in functions(source)
        if PARTICIPLE.match(node.name) and not NOT_PARTICIPLES.match(node.name) and _writes(node)
    )
    show(
        "participle-named functions that return nothing or call a writer",
        len(participles),
        participles,
    )


def _writes(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether it acts: it returns nothing, or runs a statement."""
    returns_nothing = isinstance(node.returns, ast.Constant) and node.returns.value is None
    calls = {ast.unparse(each.func) for each in ast.walk(node) if isinstance(each, ast.Call)}
    return returns_nothing or any(
        re.search(r"\b(run|execute\w*|create|update|save|add)$", c) for c in calls
    )


def words(source: list[Module]) -> None:
    defined = [node for _, node in functions(source)]
    documented = sum(ast.get_docstring(node) is not None for node in defined)
    show("functions with a docstring", f"{100 * documented / len(defined):.0f} %")
    lines = sum(module.lines for module in source)
    comments = sum(
        line.lstrip().startswith("#") for module in source for line in module.text.splitlines()
    )
    show("whole-line comments in 1,000 lines", f"{1000 * comments / lines:.0f}")
    anys = 0
    for node in defined:
        arguments = node.args
        every = (
            *arguments.posonlyargs,
            *arguments.args,
            *arguments.kwonlyargs,
            arguments.vararg,
            arguments.kwarg,
        )
        notes = [each.annotation for each in every if each and each.annotation] + [node.returns]
        anys += sum(bool(re.search(r"\bAny\b", ast.unparse(note))) for note in notes if note)
    show("`Any` in signatures", anys)


def show(what: str, figure: object, where: list[str] | None = None) -> None:
    print(f"{what:66} {figure}")
    for line in where or []:
        print(f"    {line}")


def main() -> None:
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent.parent
    source = modules(root)
    show("modules, lines", f"{len(source)}, {sum(module.lines for module in source)}")
    for part in (by_room, sizes, sql, names, words, faces):
        part(source)


if __name__ == "__main__":
    main()
