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
    assert (CLEAN.good, CLEAN.status) == (True, 0)
    assert "Still under way" not in printed(CLEAN)
    assert "ONCE AND ONLY ONCE, IN ORDER" in printed(CLEAN)
    assert "32.5 %" in printed(CLEAN)


@pytest.mark.parametrize("name", MEANING)
def test_one_violation_of_any_kind_is_enough(name: str) -> None:
    broken = replace(CLEAN, violations=replace(NONE, **{name: 1}))
    assert (broken.good, broken.status) == (False, 1)
    assert "THE PROMISE WAS BROKEN" in printed(broken)


def test_late_run_is_neither_good_nor_a_violation() -> None:
    unfinished = replace(CLEAN, finished=False, limit=400, not_submitted=7)
    late = replace(unfinished, under_way={"a: queued": 3, "a: in_flight, b: accepted": 1})
    assert (late.good, late.status, late.late) == (False, 3, 4)
    shown = printed(late)
    assert "NOT DELIVERED IN TIME" in shown
    assert "BROKEN" not in shown
    assert "after 400 s" in shown
    for open_messages in ("7 not submitted yet", "3 a: queued", "1 a: in_flight, b: accepted"):
        assert open_messages in shown
    written = late.as_json()
    assert (written["good"], written["status"], written["late"]) == (False, "late", 4)


def test_a_run_of_which_only_acks_are_late_is_late() -> None:
    unacknowledged = replace(CLEAN, finished=False)
    assert unacknowledged.status == 3
    assert "only Acknowledgements" in printed(unacknowledged)


def test_violation_is_reported_in_a_late_run() -> None:
    both = replace(CLEAN, finished=False, violations=replace(NONE, lost=1))
    assert both.status == 1
    assert "THE PROMISE WAS BROKEN" in printed(both)


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
