"""The siege's judgement: what it must see, and the hostile partner's messages."""

import json
import os
from dataclasses import fields, replace
from math import inf
from pathlib import Path

import pytest

from demo.checker import Violations
from demo.evidence import Delivery, Evidence, Lane, Open, Submission, Transmitted
from demo.pairs import make_pairs, make_tokens, setup_of
from demo.siege.cast import ALL, Side, documents
from demo.siege.console import Look
from demo.siege.figures import Exchange, Phase, later, plan, quantile, slope, times
from demo.siege.hostile import SCENARIOS
from demo.siege.memory import Sample, samples
from demo.siege.messages import BOUNDARY, Content, body_of, header_of
from demo.siege.report import Measured, Status, memory_of, report_of, violations_of
from demo.sighting import sight
from partners.setup import apply

CALM, HOSTILE = Phase(0, 100), Phase(100, 200, ("slow",))
NONE = Violations(**{field.name: 0 for field in fields(Violations)})


def exchanged(calm: float, hostile: float) -> list[Exchange]:
    """A hundred and more in each phase, all as long."""
    return [
        *(Exchange(5 + 0.4 * number, calm) for number in range(200)),
        *(Exchange(101 + 0.4 * number, hostile) for number in range(200)),
    ]


def measured(**changed: object) -> Measured:
    clean = Measured(
        evidence=Evidence(),
        late={},
        phases=[CALM, HOSTILE],
        exchanges=exchanged(1.0, 1.4),
        looks=[Look("health", 150, 0.1, 200)],
        memory=[Sample("a/web", 10.0 * n, 100.0, 7) for n in range(40)],
        hostile={"slow: bodies begun": 20},
        recoveries=[1.0],
        settings={},
    )
    return replace(clean, **changed)  # type: ignore[arg-type]


def test_siege_without_effect_is_good(tmp_path: Path) -> None:
    report = report_of(measured())
    assert (report.status, report.felt, report.ratio) == (Status.GOOD, [], 1.4)
    report.write(tmp_path / "siege.json")
    written = json.loads((tmp_path / "siege.json").read_text())
    assert (written["good"], written["p99_ratio"], written["calm"]["p99"]) == (True, 1.4, 1.0)


@pytest.mark.parametrize(
    ("changed", "reported"),
    [
        ({"exchanges": exchanged(1.0, 1.6)}, "1.6 times"),
        ({"exchanges": exchanged(1.0, inf)}, "p99"),
        ({"exchanges": exchanged(1.0, 1.0)[:250]}, "fewer than 100"),
        ({"looks": [Look("dashboard", 150, 15.0, 0)]}, "dashboard: 1 of 1 not answered"),
        ({"looks": [Look("health", 50, 0.1, 200), Look("health", 150, 1.2, 200)]}, "up to 1.2 s"),
        ({"recoveries": [2.0, 60.0]}, "not recovered after 60 s, 1 times"),
        ({"hostile": {"the script failed: KeyError": 1}}, "the script failed"),
        ({"memory": [Sample("a/web", 10.0 * n, 100, 7 + n // 30) for n in range(40)]}, "again 1"),
        ({"memory": [Sample("b/worker", 10.0 * n, 100.0 + n, 7) for n in range(40)]}, "grew by"),
    ],
)
def test_effects_are_reported(changed: dict[str, object], reported: str) -> None:
    report = report_of(measured(**changed))
    assert report.status == Status.FELT
    assert len(report.felt) == 1
    assert reported in report.felt[0]


def test_memory_of_a_short_run_or_of_the_servers_is_reported_only() -> None:
    short = [Sample("a/web", 5.0 * n, 100.0 + n, 7) for n in range(40)]
    servers = [Sample("a/postgresql", 10.0 * n, 100.0 + n, 7) for n in range(40)]
    report = report_of(measured(memory=short + servers))
    assert report.felt == []
    grown = [Sample("a/web", 10.0 * n, 100.0 + n, 7) for n in range(40)]
    assert report_of(measured(memory=grown, settings={"in_turn": True})).felt == []
    assert report.memory["a/web"]["growth_a_minute"] == 12.0
    assert memory_of(servers)["a/postgresql"]["last"] == 139.0


def test_late_and_broken_win() -> None:
    slow = exchanged(1.0, 3.0)
    assert report_of(measured(exchanges=slow, late={"a: queued": 1})).status == Status.LATE
    gone = Evidence(submissions=(Submission("pair-1", "m1", 1, "f"),))
    broken = report_of(measured(evidence=gone, late={"a: queued": 1}))
    assert (broken.status, broken.violations.lost) == (Status.BROKEN, 1)


def test_hostile_messages_may_be_lost_but_not_duplicated() -> None:
    hostile = "hostile-names-1@hostile.example"
    message = Transmitted(1, "pair-1 a>b", "Normal", hostile, "", "body", copies=(2,))
    evidence = Evidence(
        deliveries=(Delivery("hostile-copies", hostile, "x"),),
        transmitted=(message,),
        accepted=frozenset({hostile, "hostile-large-2"}),
        lanes=(Lane("hostile-large-1", "suspended", 3, None, 100.0, open_incident=False),),
        under_way=frozenset({Open("hostile-large-2", "a: accepted")}),
    )
    assert violations_of(evidence) == NONE
    twice = replace(evidence, deliveries=evidence.deliveries * 2)
    assert violations_of(twice) == replace(NONE, duplicated=1)
    other = replace(message, at=3, sha256="other")
    assert violations_of(replace(evidence, transmitted=(message, other))).altered == 1


def test_phases_take_turns_and_cover_the_time() -> None:
    phases = plan(120, 30, ["slow names", "copies"])
    assert phases == [(30, ()), (30, ("slow", "names")), (30, ()), (30, ("copies",))]
    assert plan(60, 600, ["slow"]) == [(30, ()), (30, ("slow",))]


def test_quantiles_and_times_of_phases() -> None:
    assert [quantile([3, 1, 2], share) for share in (0.5, 0.99, 0.1)] == [2, 3, 1]
    assert quantile([], 0.5) == 0
    seen = times([Exchange(4, 9), Exchange(5, 1), Exchange(94, 2), Exchange(96, 9)], [CALM])
    assert (seen.count, seen.p50, seen.longest) == (2, 1, 2)
    assert times([Exchange(50, 1)], [replace(CALM, clean=False)]).count == 0


def test_slope_of_a_line_and_the_later_part() -> None:
    line = [(float(x), 3.0 * x + 1) for x in range(11)]
    assert slope(line) == pytest.approx(3.0)
    assert slope(line[:1]) == 0
    assert [x for x, _ in later(line)] == [4, 5, 6, 7, 8, 9, 10]


def test_memory_is_of_the_process_and_its_children(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "web.pid").write_text(str(os.getpid()))
    (tmp_path / "run" / "gone.pid").write_text("999999999")
    (sample,) = samples("a", tmp_path)
    assert (sample.name, sample.pid) == ("a/web", os.getpid())
    assert sample.megabytes > 10


def sides() -> list[Side]:
    pairs = make_pairs(2)
    return [
        Side("a", "b", 8101, 9001, 9002, pairs[0]),
        Side("b", "a", 8102, 9001, 9002, pairs[1]),
    ]


def test_the_hostile_partner_can_be_read_as_any_other() -> None:
    account = sides()[0].account("copies")
    body = body_of(account, Content("hostile-1@x", number=7))
    seen = sight(body)
    assert (seen.kind, seen.message_id, seen.sequence_number) == ("Normal", "hostile-1@x", 7)
    assert body.count(BOUNDARY.encode()) == 3
    assert b'DeliverySemantics="BestEffort"' in header_of(account, Content("hostile-2@x"))


@pytest.mark.django_db
@pytest.mark.parametrize("name", ["a", "b"])
@pytest.mark.parametrize("scenarios", [ALL, ("slow",), ("windows", "large")])
def test_the_product_takes_the_siege_s_set_up(name: str, scenarios: tuple[str, ...]) -> None:
    pairs = make_pairs(2)
    apply(setup_of(name, pairs, {"a": 8101, "b": 8102}, make_tokens(pairs)))
    report = apply(documents(sides(), scenarios)[name])
    partners = [one.thing for one in report.changes if one.thing.startswith("partner hostile")]
    wanted = len([one for one in scenarios if one in SCENARIOS])
    assert len(partners) == wanted + (61 if "windows" in scenarios else 0)
