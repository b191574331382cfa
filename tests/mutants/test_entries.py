"""The entries fit the product: a mutant whose text has changed tests nothing."""

import tomllib

import pytest

from tests.mutants import decisions, kept, sql
from tests.mutants.trees import ROOT

SURVIVORS = tomllib.loads((ROOT / "tests/mutants/survivors.toml").read_text())["survivor"]


def test_text_of_each_mutant_is_in_its_file_once() -> None:
    counts = {one.rule: (ROOT / one.file).read_text().count(one.find) for one in kept.load()}

    assert {rule: count for rule, count in counts.items() if count != 1} == {}


def test_each_mutant_breaks_a_rule_of_its_own() -> None:
    rules = [one.rule for one in kept.load()]

    assert sorted(set(rules)) == sorted(rules)


def test_tests_of_each_mutant_exist() -> None:
    tests = [*(one.tests for one in kept.load()), *sql.TESTS.values()]
    paths = {path.partition("::")[0] for one in tests for path in one.split()}

    assert [path for path in sorted(paths) if not (ROOT / path).exists()] == []


def test_files_with_sql_exist() -> None:
    assert [file for file in sql.TESTS if not (ROOT / file).exists()] == []


def test_lines_of_each_survivor_are_in_its_file() -> None:
    gone = [one for one in SURVIVORS if one["was"] not in _as_one_line(one["file"])]

    assert gone == []


def _as_one_line(file: str) -> str:
    return " ".join(map(str.strip, (ROOT / file).read_text().splitlines()))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("WHERE a = 1 AND b BETWEEN 2 AND 3 ORDER BY id", ["WHERE a = 1 ORDER BY id"]),
        ("WHERE a = 1 AND (b OR c) AND d)", ["WHERE a = 1 AND d)", "WHERE a = 1 AND (b OR c) )"]),
        ("AND CASE WHEN a AND b THEN c END FOR UPDATE", ["FOR UPDATE"]),
        ("AND {SHARED} RETURNING id", ["RETURNING id"]),
        ("SELECT a AND {SHARED} AS both, c", ["SELECT a AS both, c"]),
        ("SET a = b AND c, d = e", ["SET a = b , d = e"]),
    ],
)
def test_a_condition_is_left_out(before: str, after: list[str]) -> None:
    left = {before[:begin] + before[end:] for begin, end in sql.conditions(before)}

    assert {*after} <= {" ".join(one.split()) for one in left}


def test_the_first_condition_is_left_out() -> None:
    before = "WHERE a = 1 AND b = 2"

    assert {before[:begin] + before[end:] for begin, end in sql.conditions(before)} == {
        "WHERE b = 2",
        "WHERE a = 1 ",
    }


def test_locks_and_bounds_are_changed() -> None:
    source = 'ONE = "SELECT id FROM a WHERE due <= now FOR NO KEY UPDATE OF a SKIP LOCKED"\n'

    assert set(sql.mutations(source)) == {
        'ONE = "SELECT id FROM a WHERE due <= now"\n',
        'ONE = "SELECT id FROM a WHERE due <= now FOR NO KEY UPDATE OF a"\n',
        'ONE = "SELECT id FROM a WHERE due < now FOR NO KEY UPDATE OF a SKIP LOCKED"\n',
    }


def test_a_docstring_has_no_sql() -> None:
    assert list(sql.mutations('"""a AND b"""\n')) == []


def test_a_keyword_of_replace_is_left_out() -> None:
    source = "replace(lane, due=None, attempt=1)\n"

    assert list(decisions.without_a_keyword(source)) == [
        "replace(lane, attempt=1)\n",
        "replace(lane, due=None)\n",
    ]
