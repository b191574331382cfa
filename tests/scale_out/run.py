"""The demo, with the first of its two MSHs on many machines; some are cut off, one has a wrong
clock."""

import json
import time
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from rich.console import Console

from demo.faults import Rates, Schedule
from demo.machines import Machine
from demo.options import Options
from demo.pairs import ENDS
from demo.stage import Stage, free_port
from demo.verdict import Verdict
from tests import reporting_demo
from tests.scale_out.cutter import Cutter
from tests.scale_out.fleet import Fleet, Size
from tests.scale_out.runs import Runs

FOLDER = Path("var/scale-out")
FIRST = ENDS[0]


@dataclass(frozen=True, slots=True)
class Plan:
    messages: int
    pairs: int
    seed: int
    size: Size
    cut: Sequence[str]
    cut_seconds: float
    off: Mapping[str, float]
    rates: Rates

    @property
    def options(self) -> Options:
        return Options(
            messages=self.messages,
            pairs=self.pairs,
            seed=self.seed,
            folder=FOLDER.resolve(),
            rates=self.rates,
            once=True,
        )


class ManyMachines(Stage):
    plan: Plan

    def _machine(self, name: str, port: int) -> Machine:
        if name != FIRST:
            return super()._machine(name, port)
        plan = self.plan
        return Fleet(name, self.folder / name, free_port(port), plan.size, plan.off)


class ScaleOut(reporting_demo.ReportingDemo):
    def __init__(self, plan: Plan, console: Console) -> None:
        self.plan = plan
        super().__init__(plan.options, console)

    @property
    def longest_pause(self) -> float:  # type: ignore[override]
        """So that submitting lasts longer than the cuts; 0 if there are none."""
        return 2 * self.cutter.plan_seconds / max(1, self.plan.messages // self.plan.pairs)

    @property
    def fleet(self) -> Fleet:
        fleet = self.machines[0]
        assert isinstance(fleet, Fleet)
        return fleet

    @cached_property
    def cutter(self) -> Cutter:
        return Cutter(self.fleet, self.plan.cut, self.plan.cut_seconds, self._is_exchanging)

    def _is_exchanging(self) -> bool:
        return any(glance.delivered for glance in self.glances.values())

    def _stage(self, schedule: Schedule) -> Stage:
        stage = type("_Stage", (ManyMachines,), {"plan": self.plan})
        made: Stage = stage(self.options.folder, ENDS, self.pairs, schedule)
        return made

    def _crew(self) -> list[Coroutine[Any, Any, None]]:
        self.runs = Runs(self.fleet.broker_url)
        self.runs.start()
        self._began = time.monotonic()
        self._spent = self.fleet.cpu_seconds()
        return [*super()._crew(), self.cutter.work()]

    def _judge(self, *, finished: bool, seconds: float) -> Verdict:
        verdict = super()._judge(finished=finished, seconds=seconds)
        self.runs.stop()
        self.report = self._report(verdict, time.monotonic() - self._began)
        return verdict

    def _report(self, verdict: Verdict, seconds: float) -> dict[str, Any]:
        scheduled = {
            task: {
                "runs": self.runs.counts[task],
                "at_least": int(seconds / (2 * interval)),  # a beat that is cut off is replaced
                "at_most": self.plan.size.beats * (int(seconds / interval) + 2),
            }
            for task, interval in self.fleet.intervals().items()
        }
        return {
            "machines": self.plan.size.names,
            "cut_off": self.cutter.done,
            "clocks_off_hours": dict(self.plan.off),
            "messages_per_second": round(verdict.delivered / self._seconds_on_the_wire(), 1),
            "cpu_ms_per_message": self._cost(verdict.delivered),
            "scheduled": scheduled,
            "database_sessions": dict(sorted(self.fleet.sessions().items())),
            **verdict.as_json(),
        }

    def _cost(self, messages: int) -> dict[str, float]:
        """CPU by kind of machine, that of waiting and of what is scheduled included."""
        spent = {
            kind: 1000 * (seconds - self._spent[kind]) / max(1, messages)
            for kind, seconds in self.fleet.cpu_seconds().items()
        }
        return {
            name: round(value, 1) for name, value in [*spent.items(), ("all", sum(spent.values()))]
        }

    def _seconds_on_the_wire(self) -> float:
        """From the first copy to the last, without the start of the producers."""
        with self.stage.log.open() as lines:
            times = [datetime.fromisoformat(json.loads(line)["time"]) for line in lines]
        return (max(times) - min(times)).total_seconds()

    @property
    def faults(self) -> list[str]:
        found = [
            f"{name} ran {told['runs']} times, not {told['at_least']} to {told['at_most']}"
            for name, told in self.report["scheduled"].items()
            if not told["at_least"] <= told["runs"] <= told["at_most"]
        ]
        if left := set(self.plan.cut) - set(self.cutter.done):
            found.append(f"over before these were cut off: {', '.join(sorted(left))}")
        return found


def run(plan: Plan, console: Console) -> tuple[int, dict[str, Any]]:
    return reporting_demo.run(ScaleOut(plan, console), console)
