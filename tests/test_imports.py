"""What the contracts of import-linter do not see: single modules, and imports inside functions."""

import re
from pathlib import Path

import pytest

from tools.measure import arrows_up, circles, imports, imports_inside_functions
from tools.source import Module, modules

ROOT = Path(__file__).resolve().parents[1]
WITH_REASON = re.compile(r"# noqa: (?:F401, )?PLC0415  \S+ \S+")
MOST = 10


@pytest.fixture(scope="module")
def source() -> list[Module]:
    return modules(ROOT)


def test_no_modules_import_each_other(source: list[Module]) -> None:
    """Nor for type checkers, nor through others."""
    assert circles(imports(source)) == []


def test_no_rooms_import_each_other(source: list[Module]) -> None:
    assert arrows_up(source) == []


def test_imports_inside_functions_are_few_and_have_a_reason(source: list[Module]) -> None:
    found = imports_inside_functions(source)
    assert [line for line in found if not WITH_REASON.search(line)] == []
    assert len(found) <= MOST
