"""Libraries are used by what they document: another release may change the rest."""

import ast
import sys
import textwrap
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from inspect import getsource, isclass
from pathlib import Path
from typing import Any

import pytest

from tools.measure import DOCUMENTED, is_private, private_names
from tools.source import PACKAGES, Module, modules

ROOT = Path(__file__).resolve().parents[1]
OURS = frozenset(PACKAGES)

KEPT = {
    # redis-py does not show the socket on which the loop waits beside its own events.
    "msh/flows/wake_up_listener.py": {"_sock"},
    # docs/decisions/2026-11-26-maintained-web-server.md
    "msh/web/connection.py": {"_messages"},
}
"""Where nothing public does the same. It only gets shorter."""
OPTIONAL = ("msh/sign_on/", "spark_bridge/")
"""Their libraries need not be here."""


@pytest.fixture(scope="module")
def source() -> list[Module]:
    return modules(ROOT)


def test_modules_name_nothing_that_is_private(source: list[Module]) -> None:
    found = private_names(source)
    assert [one for one in found if not _is_kept(*one.split(": "))] == []


def test_classes_override_nothing_that_is_private(source: list[Module]) -> None:
    """Nor happen to have a name that a class of a library has too."""
    found = [
        f"{module.path}: {kind.__name__}.{name}"
        for module in source
        for kind in _classes(module)
        for name in sorted(_names_of(kind) & _names_of_libraries(kind) - DOCUMENTED)  # type: ignore[arg-type]
        if not _is_kept(str(module.path), name)
    ]
    assert found == []


def _is_kept(path: str, name: str) -> bool:
    return name in KEPT.get(path, ())


def _classes(module: Module) -> Iterator[type[Any]]:
    """Those that are derived from a class of a library."""
    if not any(isinstance(node, ast.ClassDef) and node.bases for node in ast.walk(module.tree)):
        return
    if module.path.name in ("__main__.py", "wsgi.py"):
        return
    if str(module.path).startswith(OPTIONAL[0]):
        return
    try:
        loaded = import_module(module.name)
    except ImportError:
        assert str(module.path).startswith(OPTIONAL)
        return
    for kind in vars(loaded).values():
        if isclass(kind) and kind.__module__ == module.name and _libraries(kind):
            yield kind


def _libraries(kind: type[Any]) -> list[type[Any]]:
    roots = {base: base.__module__.partition(".")[0] for base in kind.__mro__}
    return [b for b, root in roots.items() if root not in OURS | sys.stdlib_module_names]


def _names_of_libraries(kind: type[Any]) -> set[str]:
    bases = _libraries(kind)
    return {name for base in bases for name in {*vars(base), *_names_of(base)} if is_private(name)}  # type: ignore[arg-type]


@cache
def _names_of(kind: type[Any]) -> set[str]:
    """Private names that its source defines, or reaches for by `self` or `super()`."""
    try:
        (tree,) = ast.parse(textwrap.dedent(getsource(kind))).body
    except (OSError, TypeError, SyntaxError):  # it is not written in Python
        return set()
    found = {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) in ("self", "cls", "super()")
    }
    for node in getattr(tree, "body", ()):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found |= {target.id for target in targets if isinstance(target, ast.Name)}
    return {name for name in found if is_private(name)}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("import psycopg._queries", ["psycopg._queries"]),
        (
            "from allauth.mfa.totp.internal.auth import TOTP",
            ["allauth.mfa.totp.internal.auth.TOTP"],
        ),
        ("from aiohttp.helpers import _SENTINEL", ["aiohttp.helpers._SENTINEL"]),
        ("session._prepared.get(query)", ["_prepared"]),
        ("class A(B):\n    def f(self):\n        return self._messages", ["_messages"]),
        ("class A(B):\n    def f(self):\n        self._own = 1\n        return self._own", []),
        ("def _own():\n    pass\nmodule._own()", []),
        ("from __future__ import annotations\nimport _thread\nrow._meta.pk", []),
        ("from lxml.etree import _Element\nfrom msh._own import _name", []),
    ],
)
def test_private_names_are_found(text: str, found: list[str]) -> None:
    module = Module(Path("msh/__init__.py"), "msh.one", text, ast.parse(text))
    assert private_names([module]) == [f"msh/__init__.py: {name}" for name in found]
