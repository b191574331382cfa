"""The demo over a good link; one of its MSHs has many messages, and is upgraded meanwhile."""

import asyncio
import json
import os
import signal
import time
from collections.abc import Coroutine, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import psycopg
from rich.console import Console

from demo.evidence import Evidence
from demo.faults import Rates, Schedule
from demo.http11 import HOST, NotUnderstoodError, Request, Response, exchange
from demo.machines import DemoFailed, Machine, run_python
from demo.options import Options
from demo.orders import write_orders
from demo.pairs import ENDS
from demo.stage import Stage
from demo.verdict import Verdict
from tests import reporting_demo
from tests.upgrade.answers import Answer, table
from tests.upgrade.filling import PREFIX

FOLDER = Path("var/upgrade")
CALM = Rates(**dict.fromkeys(Rates.names(), 0.0))
PAIRS = 4
MOST = 8_000
"""Messages: for more than a quarter of an hour."""
DOCUMENTS = 100
LONGEST_PAUSE = 1.0  # seconds between two submits of a pair, half of it on average
STARTS_WITHIN = 180
PROCESSES = ("web", "worker", "beat")
LATER = {"DJANGO_SETTINGS_MODULE": "tests.upgrade.settings"}
LAST = "0006_fill"
QUESTION = "/api/v1/messages?limit=5"


@dataclass(frozen=True, slots=True)
class Plan:
    stored: int
    """Messages that were exchanged before."""
    seconds: float
    """Of exchange before the upgrade, and after it."""
    limit: float
    """Seconds: the slowest answer."""

    @property
    def options(self) -> Options:
        return Options(
            messages=MOST,
            pairs=PAIRS,
            seed=1,
            folder=FOLDER.resolve(),
            rates=CALM,
            once=True,
        )


class FullStage(Stage):
    """The first MSH has messages; what it is asked for is timed."""

    stored: int
    answers: list[Answer]

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.speech = replace(self.speech, exchange=self._timed)

    async def _start_machines(self, console: Console) -> None:
        await super()._start_machines(console)
        console.print(f"Making {self.stored:,} messages of the past.")
        first = self.machines[0]
        await run_python(["-m", "tests.upgrade.filling", str(self.stored)], first.environment)

    async def _timed(self, host: str, port: int, request: Request) -> Response:
        began = time.time()
        response = await exchange(host, port, request)
        if port == self.machines[0].port:
            self.answers.append(Answer("POST of a partner", began, time.time() - began))
        return response


class Upgrade(reporting_demo.ReportingDemo):
    longest_pause = LONGEST_PAUSE
    look_every = 2.0  # it counts many messages

    def __init__(self, plan: Plan, console: Console) -> None:
        self.plan = plan
        self.answers: list[Answer] = []
        self.begins: dict[str, float] = {}
        self.said: list[str] = []
        self.over = asyncio.Event()
        super().__init__(plan.options, console)

    @property
    def upgraded(self) -> Machine:
        return self.machines[0]

    def _stage(self, schedule: Schedule) -> Stage:
        made = type("_Stage", (FullStage,), {"stored": self.plan.stored, "answers": self.answers})
        stage: Stage = made(self.options.folder, ENDS, self.pairs, schedule)
        return stage

    def _documents(self) -> list[Path]:
        return write_orders(self.options.folder / "orders", DOCUMENTS, self.options.seed)

    def _start_producers(self, documents: list[Path]) -> list[asyncio.Task[str]]:
        started = super()._start_producers(documents)
        return [asyncio.create_task(self._until_over(one)) for one in started]

    async def _until_over(self, producer: asyncio.Task[str]) -> str:
        """It ends between two submits."""
        over = asyncio.create_task(self.over.wait())
        try:
            await asyncio.wait([producer, over], return_when=asyncio.FIRST_COMPLETED)
            if producer.done():
                producer.result()
        finally:
            over.cancel()
            producer.cancel()
            await asyncio.wait([producer])
        return ""

    def _evidence(self) -> Evidence:
        """Without the messages of the past, which the checker has not seen."""
        found = super()._evidence()
        past = {one for one in found.accepted if one.startswith(PREFIX)}
        return replace(found, accepted=found.accepted - past)

    def _crew(self) -> list[Coroutine[Any, Any, None]]:
        return [*super()._crew(), self._upgrade(), self._ask()]

    async def _upgrade(self) -> None:
        self.begins["before"] = time.time()
        while not any(one.delivered > PAIRS for one in self.glances.values()):  # noqa: ASYNC110
            await asyncio.sleep(0.1)
        await asyncio.sleep(self.plan.seconds)
        self.console.print("Migrating, while the version before is at work.")
        self.begins["migrating"] = time.time()
        environment = self.upgraded.environment | LATER
        self.said += (await run_python(["manage.py", "prepare"], environment)).splitlines()
        self.console.print("Restarting one process after the other.")
        self.begins["restarting"] = time.time()
        for name in PROCESSES:
            await self._restart(name)
        self.begins["after"] = time.time()
        await asyncio.sleep(self.plan.seconds)
        self.over.set()
        await asyncio.Event().wait()

    async def _restart(self, name: str) -> None:
        before = self.upgraded.pids()[name]
        os.kill(before, signal.SIGTERM)
        for _ in range(5 * STARTS_WITHIN):
            await asyncio.sleep(0.2)
            if self.upgraded.pids().get(name, before) != before and await self.upgraded.whole():
                return
        raise DemoFailed(f"{name} did not come back: see {self.upgraded.folder}/log")

    async def _ask(self) -> None:
        """As a program of the operators, without end."""
        machine = self.upgraded
        token = (await machine.manage("token", "upgrade", "--scopes", "read")).strip()
        headers = (("Authorization", f"Bearer {token}"), ("Content-Length", "0"))
        while True:
            began = time.time()
            try:
                answer = await exchange(HOST, machine.port, Request("GET", QUESTION, headers, b""))
            except (OSError, NotUnderstoodError):
                await asyncio.sleep(0.2)  # web is being restarted
                continue
            if answer.status != 200:
                raise DemoFailed(f"{QUESTION}: {answer.status} {answer.body[:200]!r}")
            self.answers.append(Answer("GET of the API", began, time.time() - began))
            await asyncio.sleep(0.2)

    def _judge(self, *, finished: bool, seconds: float) -> Verdict:
        verdict = super()._judge(finished=finished, seconds=seconds)
        verdict = replace(verdict, not_submitted=0)
        with psycopg.connect(self.upgraded.database_url) as session:
            (size,) = session.execute("SELECT pg_database_size(current_database())").fetchone() or (
                0,
            )
            done = session.execute(
                "SELECT applied FROM django_migrations WHERE name = %s", [LAST]
            ).fetchall()
            # What the version before has written after the back-fill is not filled.
            unfilled = session.execute(
                "SELECT count(*) FROM msh_outboundmessage"
                " WHERE note IS NULL AND message_id LIKE 'past-out-%'"
            ).fetchone() or (0,)
        answers = [*self.answers, *self._submits()]
        self.report = {
            "stored_messages": self.plan.stored,
            "database_megabytes": round(size / 1e6),
            "migrated": bool(done) and "after" in self.begins,
            "not_filled": unfilled[0],
            "seconds": {
                part: round(end - self.begins[part], 1)
                for part, end in zip(self.begins, [*self.begins.values()][1:], strict=False)
            },
            "attempts_that_gave_way": sum("trying again" in line for line in self.said),
            "slowest": round(max(one.seconds for one in answers), 3),
            "answers": table(answers, self.begins),
            "submitted": verdict.submitted,
            "delivered": verdict.delivered,
            "violations": asdict(verdict.violations),
        }
        return verdict

    def _submits(self) -> Iterator[Answer]:
        for pair in self.pairs:
            record = self.options.folder / "producers" / f"{pair.name}.record"
            for line in map(json.loads, record.read_text().splitlines()):
                if pair.sender == self.upgraded.name:
                    yield Answer("submit of an application", line["at"], line["seconds"])

    @property
    def faults(self) -> list[str]:
        found = []
        if not self.report["migrated"]:
            found.append("All was exchanged before the upgrade was over.")
        if self.report["slowest"] > self.plan.limit:
            found.append(f"An answer took {self.report['slowest']} s.")
        if self.report["not_filled"]:
            found.append(f"{self.report['not_filled']} rows were not filled.")
        return found


def run(plan: Plan, console: Console) -> tuple[int, dict[str, Any]]:
    return reporting_demo.run(Upgrade(plan, console), console)
