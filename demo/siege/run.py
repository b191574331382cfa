"""One siege: calm and hostile phases in turn, honest exchanges measured in both."""

import asyncio
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from math import ceil
from pathlib import Path
from typing import Any

from rich.console import Console

from demo.checker import late
from demo.crew import Operator
from demo.evidence import gather
from demo.faults import Rates, Schedule
from demo.machines import DemoFailed, Machine
from demo.options import Work, time_limit
from demo.orders import write_orders
from demo.pairs import ENDS, make_pairs, timing_for
from demo.proxy import Proxy
from demo.stage import Stage, end_on_signals, free_port
from demo.submitting import Submitting

from . import watch
from .attacker import Attacker
from .cast import ALL, PREFIX, WINDOWS, Side, consumer_words, documents
from .figures import Phase, plan
from .memory import Sample, samples
from .report import RECOVERY_LIMIT, Measured, honest, report_of
from .show import render
from .visitors import Visitors

FOLDER = Path("var/siege")
REPORT = Path("var/siege.json")
ORDERS = 40
WARM_UP_LIMIT = 120.0
LOOK_EVERY = 1.0
SAMPLE_EVERY = 5.0
SAY_EVERY = 5.0


@dataclass(frozen=True, slots=True)
class Options:
    minutes: float
    pairs: int
    rate: float
    phase: float
    seed: int
    only: Sequence[str] = ALL
    in_turn: bool = False

    @property
    def groups(self) -> list[str]:
        return list(self.only) if self.in_turn else [" ".join(self.only)]


def run(options: Options, console: Console) -> int:
    """The exit status: see `report.Status`."""
    try:
        return asyncio.run(Siege(options, console).perform())
    except DemoFailed as error:
        console.print(f"[bold red]The siege failed.[/] {error}", highlight=False)
        return 2
    except (KeyboardInterrupt, asyncio.CancelledError):
        return 130


class Siege:
    def __init__(self, options: Options, console: Console) -> None:
        self.options = options
        self.console = console
        self.folder = FOLDER.resolve()
        self.pairs = make_pairs(options.pairs, timing=timing_for(options.pairs))
        self.stage = Stage(self.folder, ENDS, self.pairs, Schedule(options.seed, Rates()))
        self.machines = self.stage.machines
        self.submitting = Submitting(
            self.folder / "producers",
            self.machines,
            self.pairs,
            options.seed,
            longest_pause=2 * options.pairs / options.rate,  # half of it on average
        )
        hostile_port, closed_port = free_port(0), free_port(0)
        self.sides = [
            Side(
                *(machine.name, other.name, machine.port, hostile_port, closed_port),
                next(pair for pair in self.pairs if pair.sender == machine.name),
            )
            for machine, other in zip(self.machines, self.machines[::-1], strict=True)
        ]
        self.hostile_port = hostile_port
        self.visitors = Visitors(self.machines, options.only)
        self.state = watch.State()
        self.memory: list[Sample] = []
        self.recoveries: list[float] = []
        self.operator = Operator(
            self.machines,
            lambda machine: bool(self.state.suspended.get(machine.name)),
            lambda partner: not partner.startswith(PREFIX),
        )

    async def perform(self) -> int:
        end_on_signals()
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        names = [name for name in self.options.only if name != WINDOWS]
        targets = [{name: side.account(name) for name in names} for side in self.sides]
        async with self.stage.running(self.console) as proxy:
            await self._set_up()
            async with Attacker(self.folder).running(self.hostile_port, targets) as attacker:
                report = report_of(await self._besiege(proxy, attacker))
        report.write(REPORT)
        self.console.print(render(report))
        return int(report.status)

    async def _set_up(self) -> None:
        self.console.print("Setting up the hostile partner.")
        extra = documents(self.sides, self.options.only)
        await asyncio.gather(*(one.set_up(extra[one.name]) for one in self.machines))
        if "latin1" in self.options.only:
            await asyncio.gather(
                *(
                    machine.manage(*consumer_words(side))
                    for machine, side in zip(self.machines, self.sides, strict=True)
                )
            )
        await self.visitors.prepare()

    async def _besiege(self, proxy: Proxy, attacker: Attacker) -> Measured:
        producers = self._start_producers()
        crew = [
            asyncio.create_task(work)
            for work in (
                self.operator.work(),
                self._every(LOOK_EVERY, self._look),
                self._every(SAMPLE_EVERY, self._sample),
                self.visitors.monitor(),
            )
        ]
        try:
            await self._warm_up([*crew, *producers])
            phases = await self._through(attacker, [*crew, *producers])
            await _cancel(producers)  # they end between two submits
            await self._settle(proxy)
        finally:
            await _cancel([*producers, *crew])
        counts = await attacker.end()
        return self._measured(phases, counts)

    async def _warm_up(self, tasks: Sequence[asyncio.Task[Any]]) -> None:
        """Wait until every honest pair has exchanged something, or time has passed."""
        deadline = time.monotonic() + WARM_UP_LIMIT
        while self.state.acknowledged < self.options.pairs and time.monotonic() < deadline:
            await asyncio.sleep(SAY_EVERY)
            self._say("warm-up")
            _raise_failures(tasks)

    async def _through(self, attacker: Attacker, tasks: Sequence[asyncio.Task[Any]]) -> list[Phase]:
        """One phase after the other, as they were."""
        planned = plan(60 * self.options.minutes, self.options.phase, self.options.groups)
        done: list[Phase] = []
        usual = 0
        for number, (seconds, scenarios) in enumerate(planned, 1):
            attacker.order(scenarios)
            clean = bool(scenarios) or not done or await self._recover(usual)
            phase = Phase(time.time(), time.time() + seconds, scenarios, clean)
            what = f"phase {number} of {len(planned)}, {'hostile' if scenarios else 'calm'}"
            await self._play(phase, what, tasks)
            done.append(phase)
            usual = usual if scenarios else max(usual, self.state.open_messages)
        attacker.order(())
        return done

    async def _play(self, phase: Phase, what: str, tasks: Sequence[asyncio.Task[Any]]) -> None:
        """Let it pass, with a line every few seconds."""
        visits = asyncio.create_task(self.visitors.visit(phase.scenarios, self.sides))
        try:
            while (left := phase.end - time.time()) > 0:
                await asyncio.sleep(min(left, SAY_EVERY))
                self._say(what)
                _raise_failures([*tasks, visits])
        finally:
            await _cancel([visits])

    async def _recover(self, usual: int) -> bool:
        """Wait until no more is under way than before a hostile phase: what it has left behind
        would make the calm ones look bad, and so itself good. False when it takes too long."""
        began = time.monotonic()
        while time.monotonic() - began < RECOVERY_LIMIT:
            if self.state.open_messages <= usual:
                break
            await asyncio.sleep(LOOK_EVERY)
        self.recoveries.append(round(time.monotonic() - began, 1))
        recovered = self.recoveries[-1] < RECOVERY_LIMIT
        self._say(f"{'recovered' if recovered else 'not recovered'} in {self.recoveries[-1]} s")
        return recovered

    async def _settle(self, proxy: Proxy) -> None:
        """Wait until nothing honest is under way; give up at the time limit."""
        work = Work(self.state.submitted, self.options.pairs)
        deadline = time.monotonic() + time_limit(work, Rates(), timing_for(self.options.pairs))
        while time.monotonic() < deadline:
            settled = proxy.idle
            await self._look()
            if not self.state.open_messages:
                if settled:
                    return
                proxy.release()
            self._say("waiting for what is under way")
            await asyncio.sleep(LOOK_EVERY)

    def _measured(self, phases: Sequence[Phase], counts: dict[str, int]) -> Measured:
        evidence = gather(
            self.submitting.records,
            self.stage.log,
            {lane: name for pair in self.pairs for lane, name in pair.lanes.items()},
            {machine.name: machine.database_url for machine in self.machines},
            hops=1,
        )
        exchanges = [
            one for machine in self.machines for one in watch.exchanges(machine.database_url)
        ]
        return Measured(
            evidence,
            dict(late(honest(evidence))),
            phases,
            exchanges,
            self.visitors.looks,
            self.memory,
            counts,
            self.recoveries,
            asdict(self.options) | {"resumes": len(self.operator.resumes)},
        )

    def _start_producers(self) -> list[asyncio.Task[str]]:
        orders = write_orders(self.folder / "orders", ORDERS, self.options.seed)
        seconds = WARM_UP_LIMIT + 60 * self.options.minutes
        count = (
            ceil(3 * seconds / self.submitting.longest_pause) + 5
        )  # more than the time is enough for
        files = [str(orders[number % ORDERS]) for number in range(count)]
        return self.submitting.start({pair.name: files for pair in self.pairs})

    async def _every(self, seconds: float, act: Callable[[], Any]) -> None:
        while True:
            await act()
            await asyncio.sleep(seconds)

    async def _look(self) -> None:
        self.state = await asyncio.to_thread(watch.look, self.machines)

    async def _sample(self) -> None:
        for machine in self.machines:
            self.memory += await asyncio.to_thread(_samples, machine)

    def _say(self, what: str) -> None:
        state = self.state
        self.console.print(
            f"{what}: {state.acknowledged} of {state.submitted} honest messages acknowledged,"
            f" {sum(map(len, state.suspended.values()))} links suspended,"
            f" health in {self.visitors.slowest_health():.2f} s",
            highlight=False,
            soft_wrap=True,
        )


def _samples(machine: Machine) -> list[Sample]:
    return list(samples(machine.name, machine.folder))


def _raise_failures(tasks: Sequence[asyncio.Task[Any]]) -> None:
    for task in tasks:
        if task.done():
            task.result()


async def _cancel(tasks: Sequence[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
