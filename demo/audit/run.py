"""`make audit`: two MSHs, a Spark job that is killed and run twice, a bad link, a verdict."""

import asyncio
import json
import shutil
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from demo.crew import Operator
from demo.faults import Schedule
from demo.machines import ROOT, DemoFailed, Machine
from demo.orders import write_orders
from demo.pairs import ENDS, Pair, Timing
from demo.progress import Meter
from demo.proxy import Proxy
from demo.stage import Stage, end_on_signals
from demo.watch import Glance, connections, glance

from .killer import TaskKiller
from .options import Options
from .witness import Files, Witness, ask

ORDERS = 40
LOOK_EVERY = 0.25
TELL_EVERY = 5.0
TASKS = "local[2,4]"
# Spark has the same cores: what is late is not lost, and 50 links need not be suspended for it.
TIMING = Timing(timeout=5, retries=10)
MAPPING = """\
id_column = "order_id"
order_column = "order_no"

[message]
tpa_id = {column = "tpa_id"}
service_interface = {value = "Purchasing"}
action = {value = "NewOrder"}
payload = {column = "document"}
label = {column = "order_id"}
"""


def run(options: Options, console: Console) -> int:
    """Run the whole audit; returns its exit status: 0 only if nothing is wrong."""
    try:
        return asyncio.run(Audit(options, console).perform())
    except DemoFailed as error:
        console.print(f"[bold red]The audit failed.[/] {error}", highlight=False)
        return 2
    except (KeyboardInterrupt, asyncio.CancelledError):
        return 130


class Audit:
    def __init__(self, options: Options, console: Console) -> None:
        self.options = options
        self.console = console
        self.folder = options.folder
        names = [f"pair-{number + 1}" for number in range(options.partners)]
        pairs = [Pair(name, ENDS, timing=TIMING) for name in names]
        self.stage = Stage(self.folder, ENDS, pairs, Schedule(options.seed, options.rates))
        self.sender, self.receiver = self.stage.machines
        self.glances: dict[str, Glance] = {}
        self.operator = Operator(
            self.stage.machines, lambda machine: bool(self.glances[machine.name].suspended)
        )
        self.seconds: dict[str, float] = {}
        self.killed: list[int] = []

    async def perform(self) -> int:
        """The exit status: 0 only if nothing is wrong."""
        end_on_signals()
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        (self.folder / "mapping.toml").write_text(MAPPING)
        async with self._timed("rows"):
            await self._make_rows()
        began = time.monotonic()
        async with self.stage.running(self.console) as proxy:
            self.seconds["start"] = round(time.monotonic() - began, 1)
            report = await self._audit(proxy)
        self.options.report.write_text(json.dumps(report, indent=2) + "\n")
        self.console.print(_table(report))
        return 0 if report["good"] else 1

    async def _audit(self, proxy: Proxy) -> dict[str, Any]:
        await self._make_tokens()
        delivering = asyncio.create_task(self._deliver(proxy))
        try:
            async with self._timed("load_to_delivered"):
                first = await self._load("load")
                second = await self._load("load_again")
                await delivering
        finally:
            delivering.cancel()
        extracted = await self._job(
            "extract", *self._server("b"), "--output", str(self.folder / "extracted")
        )
        reconciled = await self._job(
            *("reconcile", *self._server("a"), *self._server("b", "receiver-"), *self._source()),
            *("--report", str(self.folder / "reconciled.json")),
            *("--details", str(self.folder / "violations")),
        )
        return self._report(first, second, extracted, reconciled)

    async def _make_rows(self) -> None:
        documents = self.options.documents
        if documents is None:
            documents = self.folder / "documents"
            write_orders(documents, min(ORDERS, self.options.rows), self.options.seed)
        what = (str(documents.resolve()), str(self.folder / "orders"))
        numbers = (str(self.options.rows), str(self.options.partners))
        self.console.print(f"Multiplying documents to {self.options.rows} orders.")
        await self._python("rows", "demo.audit.rows", *what, *numbers)

    async def _make_tokens(self) -> None:
        for machine in self.stage.machines:
            scopes = "send,read,read_payload"
            secret = await machine.manage("token", "audit", "--scopes", scopes)
            file = self.folder / f"{machine.name}.token"
            file.touch(mode=0o600)
            file.write_text(secret)

    async def _load(self, step: str) -> dict[str, Any]:
        """Tasks are killed in the first load; the second is the same job once more."""
        words = (*self._server("a"), *self._source(), "--option", "batchSize=100")
        if step == "load_again":
            return await self._job("load", *words, step=step)
        with connections([self.sender]) as opened:
            killer = TaskKiller(opened["a"], self.options.rows, self.options.kills)
            summary = await self._job("load", *words, step=step, killer=killer)
        self.killed = killer.killed
        return summary

    async def _job(
        self, name: str, *words: str, step: str = "", killer: TaskKiller | None = None
    ) -> dict[str, Any]:
        """Run a job of the bridge; its summary. Raises DemoFailed if it could not be done."""
        step = step or name
        summary = self.folder / f"{step}.json"
        self.console.print(f"Spark: {step.replace('_', ' ')}.")
        given = (*words, "--summary", str(summary))
        async with self._timed(step):
            await self._python(step, f"spark_bridge.{name}", *given, killer=killer)
        report: dict[str, Any] = json.loads(summary.read_text())
        return report

    async def _python(
        self, step: str, module: str, *words: str, killer: TaskKiller | None = None
    ) -> None:
        log = self.folder / f"{step}.log"
        with log.open("w") as output:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", module, *words),
                cwd=ROOT,
                env=self.sender.environment | {"SPARK_MASTER": TASKS},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        killing = asyncio.create_task(killer.work(process.pid)) if killer else None
        try:
            status = await self._wait(step, process)
        finally:
            if killing:
                killing.cancel()
            if process.returncode is None:
                process.terminate()
                await process.wait()
        if status not in (0, 1):  # 1: it was done, and its summary says what is wrong
            raise DemoFailed(f"{step}: {_last_line(log)} See {log}")

    async def _wait(self, step: str, process: asyncio.subprocess.Process) -> int:
        """Its exit status; until then a line every few seconds."""
        began = time.monotonic()
        ending = asyncio.create_task(process.wait())
        try:
            while not (await asyncio.wait([ending], timeout=TELL_EVERY))[0]:
                seconds = time.monotonic() - began
                self.console.print(f"{step}: {seconds:.0f} s so far", highlight=False)
        finally:
            ending.cancel()
        return ending.result()

    async def _deliver(self, proxy: Proxy) -> None:
        """Wait until all is delivered and quiet, while an operator resumes what is suspended."""
        deadline = time.monotonic() + self.options.limit
        operating: asyncio.Task[None] | None = None
        try:
            meter = Meter(self.console, self.options.rows, "delivered")
            with connections(self.stage.machines) as opened, meter:
                while time.monotonic() < deadline:
                    settled = proxy.idle
                    self.glances = {name: glance(one) for name, one in opened.items()}
                    operating = operating or asyncio.create_task(self.operator.work())
                    delivered = self.glances["b"].delivered
                    meter.show(delivered, f"{len(self.operator.resumes)} resumes")
                    there = delivered >= self.options.rows
                    if there and all(one.quiet for one in self.glances.values()):
                        if settled:
                            return
                        proxy.release()
                    await asyncio.sleep(LOOK_EVERY)
        finally:
            if operating:
                operating.cancel()
        raise DemoFailed(f"Not delivered within {self.options.limit:.0f} s.")

    def _report(
        self,
        first: dict[str, Any],
        second: dict[str, Any],
        extracted: dict[str, Any],
        reconciled: dict[str, Any],
    ) -> dict[str, Any]:
        files = Files(self.folder / "orders", self.folder / "extracted")
        witness = ask(self.receiver.database_url, files)
        rows = self.options.rows
        report = {
            "rows": rows,
            **witness._asdict(),
            "partners": self.options.partners,
            "tasks_killed_when_so_many_were_in": self.killed,
            "first_load": first,
            "second_load": second,
            "extract": extracted,
            "reconcile": reconciled,
            "resumes": len(self.operator.resumes),
            "seconds": self.seconds,
            "rows_per_second": {
                step: round(rows / seconds, 1)
                for step, seconds in self._steps(first, second).items()
            },
        }
        exact = witness == Witness(rows, 0, 0, 0, 0, 0, rows)
        once = second["accepted"] == 0 and second["known"] == rows
        complete = extracted["messages"] == rows == reconciled["received"]
        killed = len(self.killed) == self.options.kills
        return {"good": exact and once and complete and killed and reconciled["good"], **report}

    def _steps(self, first: dict[str, Any], second: dict[str, Any]) -> dict[str, float]:
        """Seconds of the loads without the start of Spark, and from the first row to the last."""
        spark = {"load": first["seconds"], "load_again": second["seconds"]}
        return spark | {"delivered": self.seconds["load_to_delivered"]}

    def _server(self, name: str, prefix: str = "") -> tuple[str, ...]:
        machine: Machine = next(one for one in self.stage.machines if one.name == name)
        url = f"http://127.0.0.1:{machine.port}"
        token = str(self.folder / f"{name}.token")
        return f"--{prefix}url", url, f"--{prefix}token-file", token

    def _source(self) -> tuple[str, ...]:
        orders, mapping = self.folder / "orders", self.folder / "mapping.toml"
        return "--source", str(orders), "--format", "parquet", "--mapping", str(mapping)

    @asynccontextmanager
    async def _timed(self, step: str) -> AsyncIterator[None]:
        began = time.monotonic()
        yield
        self.seconds[step] = round(time.monotonic() - began, 1)


def _last_line(log: Path) -> str:
    lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
    return lines[-1] if lines else "it said nothing."


def _table(report: dict[str, Any]) -> Table:
    title = "nothing lost, nothing duplicated, in order" if report["good"] else "VIOLATIONS"
    table = Table(title=title, title_style="bold green" if report["good"] else "bold red")
    table.add_column("")
    table.add_column("", justify="right")
    for name in ("rows", *Witness._fields):
        table.add_row(name.replace("_", " "), f"{report[name]:,}")
    kills = report["tasks_killed_when_so_many_were_in"]
    table.add_row("tasks killed", str(len(kills)))
    for step, seconds in report["seconds"].items():
        table.add_row(f"seconds: {step.replace('_', ' ')}", str(seconds))
    return table
