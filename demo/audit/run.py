"""`make audit`: two MSHs, a Spark job that is killed and run twice, a bad link, a verdict."""

import asyncio
import json
import shutil
import time
from typing import Any

from rich.console import Console
from rich.table import Table

from demo.crew import Operator
from demo.faults import Schedule
from demo.machines import DemoFailed
from demo.orders import write_orders
from demo.pairs import ENDS, Pair, Timing
from demo.progress import Meter
from demo.proxy import Proxy
from demo.stage import Stage, end_on_signals
from demo.watch import Glance, connections, glance

from .jobs import CONNECT, Jobs
from .killer import Killer
from .options import Options
from .trials import BATCH, Trials
from .verdict import judge
from .witness import Files, Witness, ask

ORDERS = 40
LOOK_EVERY = 0.25
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
ACTION = 'action = {value = "NewOrder"}'
REFUSED = "action = {{sql = \"if(order_no = {number}, '', 'NewOrder')\"}}"


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
        self.jobs = Jobs(self.folder, console, self.sender.environment)
        self.trials = Trials(options, self.jobs, self.sender, self.receiver)

    async def perform(self) -> int:
        """The exit status: 0 only if nothing is wrong."""
        end_on_signals()
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        (self.folder / "mapping.toml").write_text(MAPPING)
        refused = REFUSED.format(number=self.options.refused)
        (self.folder / "broken.toml").write_text(MAPPING.replace(ACTION, refused))
        await self._make_rows()
        began = time.monotonic()
        async with self.stage.running(self.console) as proxy:
            self.jobs.seconds["start"] = round(time.monotonic() - began, 1)
            report = self._report(await self._audit(proxy))
        self.options.report.write_text(json.dumps(report, indent=2) + "\n")
        self.console.print(_table(report))
        return 0 if report["good"] else 1

    async def _audit(self, proxy: Proxy) -> dict[str, Any]:
        """What was found."""
        await self._make_tokens()
        found: dict[str, Any] = {}
        delivering = asyncio.create_task(self._deliver(proxy))
        try:
            async with self.jobs.timed("load_to_delivered"):
                found |= await self._load()
                found["refused_row"] = await self.trials.refused_row()
                found["streams"] = await self.trials.streams()
                await delivering
        finally:
            delivering.cancel()
        found |= await self._read_back()
        found["read_all"] = await self.trials.read_all()
        found["witness"] = self._witness()
        found["retention"] = await self.trials.retention()
        return found

    async def _make_rows(self) -> None:
        documents = self.options.documents
        if documents is None:
            documents = self.folder / "documents"
            write_orders(documents, min(ORDERS, self.options.rows), self.options.seed)
        what = (str(documents.resolve()), str(self.folder / "orders"))
        numbers = (str(self.options.rows), str(self.options.partners))
        self.console.print(f"Multiplying documents to {self.options.rows} orders.")
        await self.jobs.python("rows", "demo.audit.rows", *what, *numbers)

    async def _make_tokens(self) -> None:
        for machine in self.stage.machines:
            scopes = "send,read,read_payload"
            secret = await machine.manage("token", "audit", "--scopes", scopes)
            file = self.jobs.token(machine)
            file.touch(mode=0o600)
            file.write_text(secret)

    async def _load(self) -> dict[str, Any]:
        """Tasks are killed in the first load; the second is the same job once more."""
        words = (*self.jobs.server(self.sender), *self.trials.source("load"), *BATCH)
        rows = len(self.options.waves["load"])
        with connections([self.sender]) as opened:
            killer = Killer(opened["a"], rows, self.options.kills)
            first = await self.jobs.job("load", *words, killer=killer)
        second = await self.jobs.job("load", *words, step="load_again")
        return {
            "tasks_killed_when_so_many_were_in": killer.killed,
            "first_load": first,
            "second_load": second,
        }

    async def _read_back(self) -> dict[str, Any]:
        words = ("extract", *self.jobs.server(self.receiver), "--output")
        receiver = self.jobs.server(self.receiver, "receiver-")
        return {
            "extract": await self.jobs.job(*words, str(self.folder / "extracted")),
            "extract_over_connect": await self.jobs.job(
                *(*words, str(self.folder / "extracted_over_connect")),
                step="extract_over_connect",
                spark=CONNECT,
            ),
            "reconcile": await self.jobs.job(
                *("reconcile", *self.jobs.server(self.sender), *receiver, *self.trials.source()),
                *("--report", str(self.folder / "reconciled.json")),
                *("--details", str(self.folder / "violations")),
            ),
        }

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

    def _witness(self) -> Witness:
        read = {
            "extracted": self.folder / "extracted",
            "extracted_over_connect": self.folder / "extracted_over_connect",
            "streamed_meanwhile": self.trials.output("feed"),
            "streamed_at_once": self.trials.output("fresh"),
        }
        return ask(self.receiver.database_url, Files(self.folder / "orders", read))

    def _report(self, found: dict[str, Any]) -> dict[str, Any]:
        judged = judge(self.options, found)
        rows = self.options.rows
        loaded = len(self.options.waves["load"])
        return {
            "good": all(judged.values()),
            "judged": judged,
            "rows": rows,
            "partners": self.options.partners,
            **found,
            "witness": found["witness"]._asdict(),
            "resumes": len(self.operator.resumes),
            "seconds": self.jobs.seconds,
            "rows_per_second": {  # of loads without the start of Spark
                "load": round(loaded / found["first_load"]["seconds"], 1),
                "load_again": round(loaded / found["second_load"]["seconds"], 1),
                "delivered": round(rows / self.jobs.seconds["load_to_delivered"], 1),
            },
        }


def _table(report: dict[str, Any]) -> Table:
    title = "nothing lost, nothing duplicated, in order" if report["good"] else "VIOLATIONS"
    table = Table(title=title, title_style="bold green" if report["good"] else "bold red")
    table.add_column("")
    table.add_column("", justify="right")
    for name, holds in report["judged"].items():
        table.add_row(name.replace("_", " "), "yes" if holds else "[bold red]NO[/]")
    for name, count in ({"rows": report["rows"]} | report["witness"]).items():
        table.add_row(name.replace("_", " "), f"{count:,}")
    for step, seconds in report["seconds"].items():
        table.add_row(f"seconds: {step.replace('_', ' ')}", str(seconds))
    return table
