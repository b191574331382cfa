"""The demo, with the first of its two MSHs in two clusters: partners are moved between them while
messages go both ways."""

import asyncio
import json
import os
import time
from collections import defaultdict
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from random import Random
from typing import Any

import psycopg
from rich.console import Console

from demo.evidence import read_database
from demo.faults import Schedule
from demo.machines import DemoFailed, Machine
from demo.options import Options
from demo.pairs import ENDS, Pair
from demo.run import Demo
from demo.sighting import NORMAL
from demo.stage import Stage, free_port
from demo.verdict import Verdict
from tests.scale_out.applications import Application
from tests.scale_out.clusters import NAMES, Clusters

FIRST = ENDS[0]
LONGEST_PAUSE = 2.0
"""Seconds between two submits of a pair while partners are moved."""
LONGEST_MOVE = 200.0
"""Seconds: five commands on a busy computer."""
BETWEEN = 5.0
"""Seconds between two moves."""
STEPS = 4
"""Commands of a move."""
REASON = ("--reason", "scale-out: the cluster is full")


@dataclass(frozen=True, slots=True)
class Way(Pair):
    """One direction of a partner."""

    partner: str = ""

    def uri(self, machine: str) -> str:
        return f"http://{machine}.demo.example/ebxml/{self.partner}/"

    def partner_name(self, machine: str, neighbour: str) -> str:
        return self.partner


@dataclass
class Mover:
    clusters: Clusters
    moves: Sequence[tuple[str, str]]
    """Partner and cluster, one after the other."""
    may_begin: Callable[[], bool]
    moving: set[str] = field(default_factory=set)
    done: list[dict[str, Any]] = field(default_factory=list)
    steps: int = 0
    """Commands that have ended."""

    async def work(self) -> None:
        while True:
            await asyncio.sleep(0.2)
            if self.may_begin():
                break
        for partner, cluster in self.moves:
            await asyncio.sleep(BETWEEN)
            began = time.monotonic()
            self.moving.add(partner)
            await self._move(partner, cluster)
            self.moving.discard(partner)
            seconds = round(time.monotonic() - began, 1)
            self.done.append({"partner": partner, "to": cluster, "seconds": seconds})
        await asyncio.Event().wait()

    async def _move(self, partner: str, cluster: str) -> None:
        """Every step as docs/scale.md says."""
        here = self.clusters.of[self.clusters.table.clusters[partner]]
        there = self.clusters.of[cluster]
        file = str(self.clusters.folder / f"{partner}-{len(self.done)}.zip")
        for machine, *words in (
            (here, "suspend", partner),
            (here, "export-partner", partner, file, "--to", cluster),
            (there, "import-partner", file),
        ):
            await machine.manage(*words, *REASON)
            self.steps += 1
        self.clusters.lead(partner, cluster)
        await there.manage("resume", partner, *REASON)
        self.steps += 1


class TwoClusters(Stage):
    def _machine(self, name: str, port: int) -> Machine:
        if name != FIRST:
            return super()._machine(name, port)
        partners = sorted({pair.partner for pair in self.pairs if isinstance(pair, Way)})
        served = {partner: NAMES[at % 2] for at, partner in enumerate(partners)}
        return Clusters(name, self.folder / name, free_port(port), served)


class Move(Demo):
    def _pairs(self) -> list[Pair]:
        """Two for each partner: one each way."""
        pairs: list[Pair] = []
        for number in range(1, self.options.pairs // 2 + 1):
            partner = f"partner-{number}"
            forth = Way(partner, ENDS, timing=self.options.timing, partner=partner)
            back = Way(f"{partner}-back", ENDS[::-1], timing=forth.timing, partner=partner)
            pairs += [forth, back]
        return pairs

    def _stage(self, schedule: Schedule) -> Stage:
        return TwoClusters(self.options.folder, ENDS, self.pairs, schedule)

    @property
    def limit(self) -> float:
        return super().limit + len(self.mover.moves) * LONGEST_MOVE

    @property
    def clusters(self) -> Clusters:
        first = self.stage.machines[0]
        assert isinstance(first, Clusters)
        return first

    @cached_property
    def mover(self) -> Mover:
        """Each way once, and one of them back."""
        there, back = NAMES[::-1]
        moves = [("partner-1", there), ("partner-2", back), ("partner-1", back)]
        return Mover(self.clusters, moves, self._is_exchanging)

    def _is_exchanging(self) -> bool:
        return all(glance.delivered for glance in self.glances.values()) and bool(self.glances)

    def _crew(self) -> list[Coroutine[Any, Any, None]]:
        self.operator.cares_for = lambda partner: partner not in self.mover.moving
        return [*super()._crew(), self.mover.work()]

    def _start_producers(self, documents: list[Path]) -> list[asyncio.Task[str]]:
        files = [str(file) for file in documents]
        self.submitting.folder.mkdir(parents=True)
        for record in self.submitting.records:
            record.touch()
        return [asyncio.create_task(self._produce(files))]

    async def _produce(self, files: list[str]) -> str:
        words = ("token", "applications", "--scopes", "send")
        tokens = {each.name: (await each.manage(*words)).strip() for each in self.machines}
        self.applications = [
            Application(
                pair,
                files[at :: len(self.pairs)],
                record,
                Random(f"{self.options.seed}/{pair.name}"),
                LONGEST_PAUSE,
                self._serving(pair),
                tokens,
                self._may_submit,
            )
            for at, (pair, record) in enumerate(
                zip(self.pairs, self.submitting.records, strict=True)
            )
        ]
        await asyncio.gather(*(application.work() for application in self.applications))
        return ""

    def _may_submit(self, share: float) -> bool:
        """Some messages before and after each step of a move, also while nobody serves the
        partner."""
        return share * (STEPS * len(self.mover.moves) + 1) < self.mover.steps + 1

    def _serving(self, pair: Pair) -> Callable[[], Machine]:
        assert isinstance(pair, Way)
        if pair.sender != FIRST:
            return lambda: self.machines[-1]
        clusters, partner = self.clusters, pair.partner
        return lambda: clusters.of[clusters.table.clusters[partner]]

    def _judge(self, *, finished: bool, seconds: float) -> Verdict:
        verdict = super()._judge(finished=finished, seconds=seconds)
        numbers = numbers_on_the_wire(self.stage.log)
        self.faults = [
            *wrong_numbers(numbers, [pair.lanes for pair in self.pairs]),
            *self._not_moved(),
        ]
        self.report = {
            "moves": self.mover.done,
            "delivered_in": self._delivered(),
            "asked_to_come_later": sum(one.refused for one in self.applications),
            **verdict.as_json(),
        }
        return verdict

    def _delivered(self) -> dict[str, dict[str, int]]:
        """By partner and cluster."""
        counts: dict[str, dict[str, int]] = defaultdict(dict)
        for cluster in self.clusters.members:
            for delivery in read_database(cluster.database_url).deliveries:
                of_partner = counts[delivery.pair]
                of_partner[cluster.name] = of_partner.get(cluster.name, 0) + 1
        return counts

    def _not_moved(self) -> list[str]:
        """A partner that got nothing delivered in both clusters was moved for nothing."""
        delivered = self._delivered()
        found = [f"over before {partner} was moved" for partner, _ in self._moves_left()]
        return found + [
            f"{partner} was delivered to in {', '.join(delivered[partner])} only"
            for partner in {partner for partner, _ in self.mover.moves}
            if len(delivered[partner]) < len(NAMES)
        ]

    def _moves_left(self) -> Sequence[tuple[str, str]]:
        return self.mover.moves[len(self.mover.done) :]


Numbers = Mapping[str, Mapping[str, int | None]]
"""Sequence numbers by direction and MessageId, as the proxy saw them."""


def numbers_on_the_wire(log: Path) -> Numbers:
    seen: dict[str, dict[str, int | None]] = defaultdict(dict)
    with log.open() as lines:
        for line in map(json.loads, lines):
            if line["kind"] == NORMAL:
                seen[line["pair"]][line["message_id"]] = line["sequence_number"]
    return seen


def wrong_numbers(numbers: Numbers, lanes: Iterable[Mapping[str, str]]) -> list[str]:
    """A sentence for each direction whose messages are not numbered 1, 2, 3 and so on."""
    found = []
    for seen, name in (each for lane in lanes for each in lane.items()):
        given = sorted(number or 0 for number in numbers.get(seen, {}).values())
        if given != list(range(1, len(given) + 1)):
            found.append(f"{name} has the numbers {given}")
    return found


def move(options: Options, console: Console) -> tuple[int, dict[str, Any]]:
    """The exit status, as the demo's, 1 also for what the demo does not look at; the report."""
    try:
        for name in ("DATABASE_URL", "REDIS_URL"):
            if os.environ.get(name):
                raise DemoFailed(f"--move starts servers for each cluster: unset {name}.")
        if options.pairs < 4:
            raise DemoFailed("--move needs two partners: at least --pairs 4.")
        run = Move(options, console)
        status = asyncio.run(run.perform())
    except (DemoFailed, psycopg.Error) as error:
        console.print(f"[bold red]It failed.[/] {error}", highlight=False)
        return 2, {}
    except (KeyboardInterrupt, asyncio.CancelledError):
        return 130, {}
    (options.folder / "report.json").write_text(json.dumps(run.report, indent=2) + "\n")
    for fault in run.faults:
        console.print(f"[bold red]{fault}[/]")
    return status or int(bool(run.faults)), run.report
