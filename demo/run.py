"""`make demo`: starts everything, lets it run, checks the result, and cleans up."""

import asyncio
import json
import shutil
import signal
import time
from collections.abc import Coroutine, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

from rich.console import Console
from rich.panel import Panel

from .checker import judge, late, traffic
from .crew import Killer, Operator
from .evidence import Evidence, gather
from .faults import Schedule
from .keys import Keys
from .machines import DemoFailed, Machine
from .options import Options, Patience
from .orders import write_orders
from .pairs import CONVERSATIONS, Pair, Transport, chain_of, make_pairs
from .progress import Meter
from .proxy import Proxy
from .stage import Stage, end_on_signals
from .submitting import Submitting
from .tls import Trust
from .verdict import Verdict, render
from .watch import Glance, Held, connections, glance

LOOK_EVERY = 0.25
GRACE = 30.0
"""Seconds: the time limit is not the end while something was delivered within the last so many."""
LONGEST_MAIL_DELAY = 8.0
"""Seconds: a mail may come after its message was sent again, and again."""


def run(options: Options, console: Console) -> int:
    """Run the whole demo; returns its exit status: 0 for a promise that was kept, 1 for one
    that was broken, 2 for a demo that failed, 3 where not everything was delivered in time."""
    try:
        return asyncio.run(Demo(options, console).perform())
    except DemoFailed as error:
        console.print(f"[bold red]The demo failed.[/] {error}", highlight=False)
        return 2
    except (KeyboardInterrupt, asyncio.CancelledError):
        return 130


class Demo:
    longest_pause = 0.25
    """Between two submits of a producer, in seconds."""
    look_every = LOOK_EVERY

    def __init__(self, options: Options, console: Console) -> None:
        self.options = options
        self.console = console
        self.pairs = self._pairs()
        schedule = Schedule(options.seed, options.rates)
        if options.transport is Transport.SMTP:
            schedule = replace(schedule, longest_delay=LONGEST_MAIL_DELAY)
        self.stage = self._stage(schedule)
        self.machines = self.stage.members
        folder = options.folder / "producers"
        self.submitting = Submitting(
            folder, self.machines, self.pairs, options.seed, self.longest_pause
        )
        self.glances: dict[str, Glance] = {}
        self.killer = Killer(self.machines, Random(options.seed))
        self.operator = Operator(self.machines, self._any_suspended, held=self._held)

    @property
    def limit(self) -> float:
        """Seconds."""
        return self.options.limit

    def _pairs(self) -> list[Pair]:
        options = self.options
        pairs = make_pairs(
            options.pairs, options.routers, options.transport, options.timing, options.dialect
        )
        if options.by_conversation:
            pairs = [replace(pair, conversations=CONVERSATIONS) for pair in pairs]
        return pairs

    def _stage(self, schedule: Schedule) -> Stage:
        folder, names = self.options.folder, chain_of(self.options.routers)
        return Stage(
            folder,
            names,
            self.pairs,
            schedule,
            self.options.transport,
            self.options.route_mode,
            Trust(folder / "tls", names) if self.options.tls else None,
            Keys(self.options.signed, self.options.encrypted),
        )

    async def perform(self) -> int:
        end_on_signals()
        shutil.rmtree(self.options.folder, ignore_errors=True)
        self.options.folder.mkdir(parents=True)
        documents = self._documents()
        async with self.stage.running(self.console) as proxy:
            verdict = await self._play(proxy, documents)
            self.console.print(render(verdict))
            if not self.options.once:
                await self._leave_open()
        return int(verdict.status)

    def _any_suspended(self, machine: Machine) -> bool:
        glanced = self.glances.get(machine.name)
        return glanced is not None and bool(glanced.suspended)

    def _held(self, machine: Machine) -> tuple[Held, ...]:
        glanced = self.glances.get(machine.name)
        return glanced.held if glanced is not None else ()

    async def _play(self, proxy: Proxy, documents: list[Path]) -> Verdict:
        """Run producers, proxy, killer and operator until all is quiet; then check the result."""
        self.console.print(f"Exchanging {self.options.messages} documents over a bad link.")
        producers = self._start_producers(documents)
        crew = [asyncio.create_task(work) for work in self._crew()]
        began = time.monotonic()
        try:
            finished = await self._watch(proxy, producers, crew)
        finally:
            for task in (*crew, *producers):
                task.cancel()
            await asyncio.gather(*crew, *producers, return_exceptions=True)
        verdict = self._judge(finished=finished, seconds=time.monotonic() - began)
        verdict.write(self.options.folder / "verdict.json")
        return verdict

    def _crew(self) -> list[Coroutine[Any, Any, None]]:
        """What runs beside the exchange, without end."""
        return [self.operator.work(), *([self.killer.work()] if self.options.kill else [])]

    def _start_producers(self, documents: list[Path]) -> list[asyncio.Task[str]]:
        files: dict[str, list[str]] = {pair.name: [] for pair in self.pairs}
        for number in range(self.options.messages):
            pair = self.pairs[number % len(self.pairs)]
            files[pair.name].append(str(documents[number % len(documents)]))
        return self.submitting.start(files)

    def _documents(self) -> list[Path]:
        if self.options.documents is None:
            folder = self.options.folder / "orders"
            return write_orders(folder, self.options.messages, self.options.seed)
        files = sorted(
            file for file in self.options.documents.resolve().iterdir() if file.is_file()
        )
        if not files:
            raise DemoFailed(f"{self.options.documents} holds no file to send")
        return files

    async def _watch(
        self,
        proxy: Proxy,
        producers: list[asyncio.Task[str]],
        crew: list[asyncio.Task[None]],
    ) -> bool:
        """Wait until everything has arrived and is quiet; False when the time is over."""
        patience = Patience(self.limit, GRACE)
        meter = Meter(self.console, self.options.messages, "delivered")
        with connections(self.machines) as opened, meter:
            delivered = 0
            while not patience.over(time.monotonic(), delivered):
                settled = proxy.idle  # asked first: what the proxy let go before, the glance sees
                self.glances = {
                    name: await asyncio.to_thread(glance, one) for name, one in opened.items()
                }
                delivered = sum(one.delivered for one in self.glances.values())
                meter.show(delivered, self._note(proxy))
                _ended(crew)  # they never do, unless they fail
                if _ended(producers) and all(one.quiet for one in self.glances.values()):
                    if settled:
                        return True
                    proxy.release()
                await asyncio.sleep(self.look_every)
        return False

    def _note(self, proxy: Proxy) -> str:
        disturbed = 100 * proxy.disturbed // max(1, proxy.faults.total())
        kills, resumes = len(self.killer.kills), len(self.operator.resumes)
        return f"{disturbed} % disturbed, {kills} kills, {resumes} resumes"

    def _evidence(self) -> Evidence:
        return gather(
            self.submitting.records,
            self.stage.log,
            {lane: name for pair in self.pairs for lane, name in pair.lanes.items()},
            {machine.name: machine.database_url for machine in self.machines},
            hops=len(self.stage.machines) - 1,
            window=self.options.window,
            ordered=self.options.ordered,
        )

    def _judge(self, *, finished: bool, seconds: float) -> Verdict:
        evidence = self._evidence()
        self._write_crew()
        return Verdict(
            submitted=len(evidence.submissions),
            delivered=len({delivery.message_id for delivery in evidence.deliveries}),
            violations=judge(evidence),
            attempts=evidence.attempts,
            operator_resumes=len(self.operator.resumes),
            kills=len(self.killer.kills),
            finished=finished,
            seconds=round(seconds, 1),
            seed=self.options.seed,
            pairs=len(self.pairs),
            traffic=traffic(evidence.transmitted),
            limit=self.limit,
            not_submitted=self.options.messages - len(evidence.submissions),
            under_way=late(evidence),
            dialect=self.options.dialect,
            ordered=self.options.ordered,
        )

    def _write_crew(self) -> None:
        crew = {
            "kills": self.killer.kills,
            "resumes": self.operator.resumes,
            "refused_resumes": self.operator.refusals,
        }
        (self.options.folder / "crew.json").write_text(json.dumps(crew, indent=2) + "\n")

    async def _leave_open(self) -> None:
        lines = [
            f"MSH {machine.name.upper()}   [link={machine.console}]{machine.console}[/]"
            f"   log in as [bold]admin[/] with [bold]{machine.password}[/]"
            for machine in self.machines
        ]
        lines += ["", "The proxy goes on disturbing. Ctrl-C ends everything."]
        self.console.print(Panel("\n".join(lines), title="the consoles are open", expand=False))
        ended = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGINT, ended.set)
        await ended.wait()


def _ended(tasks: Sequence[asyncio.Task[Any]]) -> bool:
    """Whether all have done their work. Raises what made one of them fail."""
    ended = [task for task in tasks if task.done()]
    for task in ended:
        task.result()
    return len(ended) == len(tasks)
