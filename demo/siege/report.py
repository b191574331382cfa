"""What a siege came to: `var/siege.json`, a table, and the exit status."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from enum import IntEnum
from pathlib import Path
from typing import Any

from demo.checker import Violations, altered_copies, altered_payloads, duplicated, judge, overlap
from demo.evidence import Evidence

from .cast import PREFIX
from .console import Look
from .figures import Exchange, Phase, Times, later, quantile, slope, times
from .memory import PRODUCT, Sample, by_name

RATIO = 1.5
"""How many times longer the slowest hundredth of honest exchanges may take."""
RECOVERY_LIMIT = 60.0
HEALTH_WITHIN = 1.0
"""Seconds; on a busy computer so many times what it takes in calm phases:"""
HEALTH_RATIO = 5.0
ENOUGH = 100
"""Exchanges in calm and in hostile phases; of fewer no quantile is judged."""
MEMORY_AFTER = 300.0
"""Seconds; in a shorter run memory is reported and not judged. Nor where scenarios are taken in
turn: what a process does for the first time takes memory, however late."""
GROWTH = 0.10
GROWTH_MEGABYTES = 10.0


class Status(IntEnum):
    """2 is a siege that could not be completed, 130 one that was interrupted."""

    GOOD = 0
    BROKEN = 1
    LATE = 3
    FELT = 4
    """The promise was kept, but the honest partners felt the hostile one."""


@dataclass(frozen=True, slots=True)
class Measured:
    """All that a siege has measured."""

    evidence: Evidence
    late: Mapping[str, int]
    phases: Sequence[Phase]
    exchanges: Sequence[Exchange]
    looks: Sequence[Look]
    memory: Sequence[Sample]
    hostile: Mapping[str, int]
    recoveries: Sequence[float]
    """Seconds after each hostile phase until no more was under way than before."""
    settings: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Report:
    violations: Violations
    late: Mapping[str, int]
    calm: Times
    hostile: Times
    first_calm: Times
    last_calm: Times
    by_scenario: Mapping[str, Times]
    looks: Mapping[str, Mapping[str, Any]]
    memory: Mapping[str, Mapping[str, Any]]
    hostile_counts: Mapping[str, int]
    recoveries: Sequence[float]
    settings: Mapping[str, Any]
    felt: Sequence[str] = field(default_factory=list)
    """What honest partners, operators or the memory felt: one line each."""

    @property
    def ratio(self) -> float:
        return round(self.hostile.p99 / self.calm.p99, 3) if self.calm.p99 else 0.0

    @property
    def status(self) -> Status:
        if any(asdict(self.violations).values()):
            return Status.BROKEN
        if self.late:
            return Status.LATE
        return Status.FELT if self.felt else Status.GOOD

    def write(self, file: Path) -> None:
        document = {
            "good": self.status is Status.GOOD,
            "status": self.status.name.lower(),
            "p99_ratio": self.ratio,
            **asdict(self),
        }
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(document, indent=2) + "\n")


def report_of(measured: Measured) -> Report:
    calm = [phase for phase in measured.phases if not phase.scenarios]
    hostile = [phase for phase in measured.phases if phase.scenarios]
    groups = {" ".join(phase.scenarios): phase.scenarios for phase in hostile}
    made = Report(
        violations=violations_of(measured.evidence),
        late=measured.late,
        calm=times(measured.exchanges, calm),
        hostile=times(measured.exchanges, hostile),
        first_calm=times(measured.exchanges, calm[:1]),
        last_calm=times(measured.exchanges, calm[-1:]),
        by_scenario={
            name: times(measured.exchanges, [one for one in hostile if one.scenarios == scenarios])
            for name, scenarios in groups.items()
        },
        looks=looks_of(measured.looks, hostile),
        memory=memory_of(measured.memory),
        hostile_counts=measured.hostile,
        recoveries=measured.recoveries,
        settings=measured.settings,
    )
    felt = (_slowed, _recovered, _unanswered, _health, _processes, _script)
    return replace(made, felt=[line for each in felt for line in each(made)])


def honest(evidence: Evidence) -> Evidence:
    """What concerns the honest pairs only."""

    def ours(name: str) -> bool:
        return not name.startswith(PREFIX)

    return replace(
        evidence,
        deliveries=tuple(one for one in evidence.deliveries if ours(one.message_id)),
        transmitted=tuple(
            one
            for one in evidence.transmitted
            if ours(one.message_id) and ours(one.ref_to_message_id)
        ),
        accepted=frozenset(one for one in evidence.accepted if ours(one)),
        lanes=tuple(one for one in evidence.lanes if ours(one.pair)),
        suspensions=tuple(one for one in evidence.suspensions if ours(one.pair)),
        under_way=frozenset(one for one in evidence.under_way if ours(one.message_id)),
    )


def violations_of(evidence: Evidence) -> Violations:
    """Of what was promised to honest partners; on their lanes and to the application, of all."""
    return replace(
        judge(honest(evidence)),
        duplicated=duplicated(evidence.deliveries),
        overlap=overlap(evidence.transmitted),
        altered=len(altered_copies(evidence.transmitted)) + len(altered_payloads(evidence)),
    )


def looks_of(looks: Sequence[Look], hostile: Sequence[Phase]) -> dict[str, dict[str, Any]]:
    """By what was looked at: in calm and in hostile phases, seconds, and how many went wrong."""
    found: dict[str, dict[str, Any]] = {}
    for what in sorted({look.what for look in looks}):
        figures: dict[str, Any] = {}
        for name, wanted in (("calm", False), ("hostile", True)):
            mine = [
                look
                for look in looks
                if look.what == what and any(one.measures(look.at) for one in hostile) is wanted
            ]
            seconds = [look.seconds for look in mine]
            figures[name] = {
                "count": len(mine),
                "p50": round(quantile(seconds, 0.5), 3),
                "p99": round(quantile(seconds, 0.99), 3),
                "longest": round(max(seconds, default=0.0), 3),
                "unanswered": sum(look.status == 0 for look in mine),
                "statuses": dict(sorted(Counter(str(look.status) for look in mine).items())),
            }
        found[what] = figures
    return found


def memory_of(taken: Sequence[Sample]) -> dict[str, dict[str, Any]]:
    """By process: megabytes at the start, the end and at most, and what it grows by in a minute."""
    found = {}
    for name, mine in by_name(taken).items():
        points = [(one.at, one.megabytes) for one in mine]
        rest = later(points)
        seconds = rest[-1][0] - rest[0][0] if rest else 0.0
        found[name] = {
            "first": round(points[0][1], 1),
            "last": round(points[-1][1], 1),
            "highest": round(max(megabytes for _, megabytes in points), 1),
            "growth_a_minute": round(60 * slope(rest), 3),
            "growth": round(seconds * slope(rest), 1),
            "restarts": len({one.pid for one in mine}) - 1,
            "seconds": round(points[-1][0] - points[0][0], 1),
            "megabytes": [round(megabytes, 1) for _, megabytes in points],
        }
    return found


def _slowed(made: Report) -> list[str]:
    if min(made.calm.count, made.hostile.count) < ENOUGH:
        return [f"fewer than {ENOUGH} exchanges in calm or in hostile phases: not judged"]
    if made.ratio <= RATIO:
        return []
    compared = f"{made.hostile.p99} s, without the hostile partner {made.calm.p99} s"
    return [f"p99 of an honest exchange: {compared}: {made.ratio} times, more than {RATIO}"]


def _unanswered(made: Report) -> list[str]:
    return [
        f"{what}: {seen['hostile']['unanswered']} of {seen['hostile']['count']} not answered"
        for what, seen in made.looks.items()
        if seen["hostile"]["unanswered"]
    ]


def _health(made: Report) -> list[str]:
    seen = made.looks.get("health")
    if not seen:
        return []
    calm, hostile = seen["calm"]["longest"], seen["hostile"]["longest"]
    if hostile <= max(HEALTH_WITHIN, HEALTH_RATIO * calm):
        return []
    return [f"/health/live took up to {hostile} s, without the hostile partner {calm} s"]


def _recovered(made: Report) -> list[str]:
    slow = sum(seconds >= RECOVERY_LIMIT for seconds in made.recoveries)
    return [f"not recovered after {RECOVERY_LIMIT:.0f} s, {slow} times"] if slow else []


def _processes(made: Report) -> list[str]:
    felt = []
    for name, seen in made.memory.items():
        if seen["restarts"]:
            felt.append(f"{name} was started again {seen['restarts']} times")
        allowed = max(GROWTH_MEGABYTES, GROWTH * seen["last"])
        long = seen["seconds"] >= MEMORY_AFTER and not made.settings.get("in_turn")
        judged = long and name.partition("/")[2] in PRODUCT
        if judged and seen["growth"] > allowed:
            felt.append(f"{name} grew by {seen['growth']} MB, {seen['growth_a_minute']} a minute")
    return felt


def _script(made: Report) -> list[str]:
    return [what for what in made.hostile_counts if what.startswith("the script failed")]
