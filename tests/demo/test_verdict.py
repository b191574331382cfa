import json
from dataclasses import fields, replace
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from demo.checker import Traffic, Violations
from demo.verdict import MEANING, Verdict, render

NONE = Violations(**{field.name: 0 for field in fields(Violations)})
CLEAN = Verdict(
    submitted=300,
    delivered=300,
    violations=NONE,
    attempts=433,
    operator_resumes=2,
    kills=17,
    finished=True,
    seconds=83.2,
    seed=7,
    pairs=4,
    traffic=Traffic(800, 420, 380, 0, 790, 260, 12, {"delay": 260}),
)


def printed(verdict: Verdict) -> str:
    console = Console(file=StringIO(), width=120)
    console.print(render(verdict))
    return console.file.getvalue()  # type: ignore[attr-defined, no-any-return]


def test_a_clean_run_is_good() -> None:
    assert CLEAN.good
    assert "ONCE AND ONLY ONCE, IN ORDER" in printed(CLEAN)
    assert "32.5 %" in printed(CLEAN)


@pytest.mark.parametrize("name", MEANING)
def test_one_violation_of_any_kind_is_enough(name: str) -> None:
    broken = replace(CLEAN, violations=replace(NONE, **{name: 1}))
    assert not broken.good
    assert "THE PROMISE WAS BROKEN" in printed(broken)


def test_a_run_that_did_not_come_to_its_end_is_not_good() -> None:
    unfinished = replace(CLEAN, finished=False)
    assert not unfinished.good
    assert "NOT FINISHED IN TIME" in printed(unfinished)


def test_every_violation_is_explained() -> None:
    assert list(MEANING) == [field.name for field in fields(Violations)]


def test_verdict_json_has_what_the_issue_names(tmp_path: Path) -> None:
    CLEAN.write(tmp_path / "verdict.json")
    written = json.loads((tmp_path / "verdict.json").read_text())
    assert {
        "submitted",
        "delivered",
        "lost",
        "duplicated",
        "unexpected",
        "out_of_order",
        "premature_ack",
        "overlap",
        "altered",
        "stuck",
        "silent_suspend",
        "attempts",
        "operator_resumes",
        "proxy",
    } <= written.keys()
    assert written["good"] is True
    assert written["proxy"]["disturbed_percent"] == 32.5
