"""The product's modules as syntax trees: what `measure.py` and `calls.py` count."""

import ast
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

PACKAGES = ("msh", "partners", "msh_client", "spark_bridge")


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

    @property
    def package(self) -> str:
        """Where its relative imports begin."""
        return self.name if self.path.name == "__init__.py" else self.name.rpartition(".")[0]


def modules(root: Path) -> list[Module]:
    """The product's modules, without migrations."""
    files = (file for name in PACKAGES for file in sorted((root / name).rglob("*.py")))
    return [_module(root, file) for file in files if "migrations" not in file.parts]


def _module(root: Path, file: Path) -> Module:
    path = file.relative_to(root)
    name = ".".join(path.with_suffix("").parts).removesuffix(".__init__")
    text = file.read_text(encoding="utf-8")
    return Module(path, name, text, ast.parse(text))


def imported(node: ast.AST, package: str) -> dict[str, str]:
    """What an import statement binds: name → the dotted name of what it stands for."""
    if isinstance(node, ast.Import):
        return {one.asname or one.name: one.name for one in node.names}
    if not isinstance(node, ast.ImportFrom):
        return {}
    base = node.module or ""
    if node.level:
        parts = package.split(".")[: len(package.split(".")) - node.level + 1]
        base = ".".join([*parts, base]) if base else ".".join(parts)
    return {one.asname or one.name: f"{base}.{one.name}" for one in node.names}


def importers(source: list[Module]) -> dict[str, set[str]]:
    """Module → the modules that import it."""
    known = {module.name for module in source}
    found: dict[str, set[str]] = defaultdict(set)
    for module in source:
        for node in ast.walk(module.tree):
            for name in imported(node, module.package).values():
                if (name := longest_known(name, known)) not in ("", module.name):
                    found[name].add(module.name)
    return found


def longest_known(name: str, known: set[str]) -> str:
    """The module of a dotted name, empty if it is none of the `known` ones."""
    while name and name not in known:
        name = name.rpartition(".")[0]
    return name
