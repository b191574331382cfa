"""`make bench-work`: what one message costs, counted and not timed.

Commits, rows, index entries and bytes are those in PostgreSQL's write-ahead log, between the places
where it stood before and after; statements are those in its log, round trips of BEGIN and COMMIT
among them. What an idle MSH does in the same time is subtracted. The counts do not depend on how
fast the machine is.
"""

import argparse
import json
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import redis
from rich.console import Console
from rich.table import Table

from msh.standalone import datafolder

from .bulk import LINES, Bulk
from .exchange import Exchange
from .floor import pgbench_path
from .msh import ROOT, Msh
from .receive import Receive
from .report import tell
from .stage import EXCHANGING_PAIRS, Stage

COUNTS = (
    *("commits", "statements", "rows written", "index entries", "WAL bytes"),
    *("Valkey commands", "context switches"),
)
_IDLE_SECONDS = 20
_STATEMENT = re.compile(rb"LOG:  (?:statement|execute [^:]+): ")
_RECORD = re.compile(r"^(\w+)/([\w+]+)\s+(\d+) ", re.MULTILINE)
_COPIED = re.compile(r"MULTI_INSERT.* ntuples: (\d+)")
_ROWS = {"INSERT", "INSERT+INIT", "UPDATE", "UPDATE+INIT", "HOT_UPDATE", "HOT_UPDATE+INIT"}
"""Heap records that write one row each. DELETE is not among them: only prune deletes."""


@dataclass(frozen=True)
class Mark:
    """How far one MSH has come."""

    at: float
    lsn: str
    log: int
    counts: Counter[str]


class Meter:
    """Counts the work of one MSH between two marks."""

    def __init__(self, msh: Msh) -> None:
        self._msh = msh
        self._log = msh.folder / "log" / "postgresql.log"
        self._valkey = redis.Redis.from_url(
            datafolder.read(msh.folder, datafolder.SERVERS)["REDIS_URL"]
        )
        for statement in ("ALTER SYSTEM SET log_statement = 'all'", "SELECT pg_reload_conf()"):
            msh.execute(statement)

    def mark(self) -> Mark:
        counts = Counter(
            {
                "context switches": sum(_switches(self._msh)),
                "Valkey commands": self._valkey_commands(),
            }
        )
        self._msh.value("SELECT pg_current_xact_id()::text")  # its commit flushes what is before
        lsn = str(self._msh.value("SELECT pg_current_wal_flush_lsn()"))
        return Mark(time.monotonic(), lsn, self._log.stat().st_size, counts)

    def between(self, before: Mark, after: Mark) -> Counter[str]:
        with self._log.open("rb") as log:
            log.seek(before.log)
            statements = len(_STATEMENT.findall(log.read(after.log - before.log)))
        return (
            after.counts
            - before.counts
            + self._written(before.lsn, after.lsn)
            + Counter({"statements": statements})
        )

    def _written(self, start: str, end: str) -> Counter[str]:
        """What the write-ahead log holds between two places."""
        wal = str(self._msh.folder / "postgresql" / "pg_wal")
        place = ("--path", wal, "--start", start, "--end", end)
        records = _waldump(*place, "--stats=record")
        copied = _waldump(*place, "--rmgr=Heap2")
        found = {(manager, kind): int(count) for manager, kind, count in _RECORD.findall(records)}
        size = self._msh.value(f"SELECT pg_wal_lsn_diff('{end}', '{start}')::bigint")
        return Counter(
            {
                "commits": found.get(("Transaction", "COMMIT"), 0),
                "rows written": sum(found.get(("Heap", kind), 0) for kind in _ROWS)
                + sum(map(int, _COPIED.findall(copied))),
                "index entries": found.get(("Btree", "INSERT_LEAF"), 0),
                "WAL bytes": int(size),
            }
        )

    def _valkey_commands(self) -> int:
        statistics = self._valkey.info("commandstats")
        return sum(int(each["calls"]) for each in statistics.values())


def _waldump(*arguments: str) -> str:
    """RuntimeError with its complaint if it fails."""
    program = Path(pgbench_path()).with_name("pg_waldump")
    done = subprocess.run([program, *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"pg_waldump: {done.stderr.strip()}")
    return done.stdout


def _switches(msh: Msh) -> Iterator[int]:
    """Of each thread that the MSH has now, its servers' too."""
    for pid in msh.processes():
        for status in Path(f"/proc/{pid}/task").glob("*/status"):
            text = status.read_text()
            yield sum(map(int, re.findall(r"voluntary_ctxt_switches:\s+(\d+)", text)))


@dataclass(frozen=True)
class Scenario:
    """Something that is done so many times on both MSHs, or on the one that is loaded."""

    name: str
    mshs: tuple[Msh, ...]
    run: Callable[[], int]
    """Returns how many messages."""


def count(scenario: Scenario) -> dict[str, float]:
    """Of each of COUNTS, for one message. A first run warms up; the second is counted."""
    meters = [Meter(msh) for msh in scenario.mshs]
    scenario.run()
    before_idling = [meter.mark() for meter in meters]
    time.sleep(_IDLE_SECONDS)
    before = [meter.mark() for meter in meters]
    messages = scenario.run()
    after = [meter.mark() for meter in meters]
    idle, work = Counter[str](), Counter[str]()
    for meter, first, second, third in zip(meters, before_idling, before, after, strict=True):
        idle += meter.between(first, second)
        work += meter.between(second, third)
    share = (after[0].at - before[0].at) / (before[0].at - before_idling[0].at)
    return {name: (work[name] - idle[name] * share) / messages for name in COUNTS}


def scenarios(stage: Stage) -> list[Scenario]:
    both = (stage.sender, stage.receiver)
    return [
        *(
            Scenario(f"exchange_{pairs}", both, _exchange(stage, pairs, messages))
            for pairs, messages in ((1, 300), (EXCHANGING_PAIRS, 60))
        ),
        Scenario("receive_1", (stage.receiver,), _receive(stage)),
        Scenario("bulk_1", (stage.loaded,), _bulk(stage)),
    ]


def _exchange(stage: Stage, pairs: int, messages: int) -> Callable[[], int]:
    figure = Exchange(stage, pairs=pairs, messages=messages, prototype_messages=1)

    def run() -> int:
        figure.product()
        return pairs * messages

    return run


def _bulk(stage: Stage) -> Callable[[], int]:
    figure = Bulk(stage.loaded, stage.api_token, clients=1, requests=2)

    def run() -> int:
        figure.product()
        return 2 * LINES

    return run


def _receive(stage: Stage) -> Callable[[], int]:
    figure = Receive(stage, connections=1, seconds=3)

    def run() -> int:
        before = figure.facts()["messages"] if figure.loads else 0
        figure.product()
        return int(figure.facts()["messages"]) - before

    return run


def main() -> int:
    parser = argparse.ArgumentParser(prog="make bench-work", description=__doc__)
    parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # unwinds: nothing is left running
    folder = ROOT / "var" / "work"
    shutil.rmtree(folder, ignore_errors=True)
    found = {}
    with Stage(folder, loaded=True) as stage:
        for scenario in scenarios(stage):
            tell(f"counting {scenario.name}")
            found[scenario.name] = count(scenario)
    shutil.rmtree(folder)  # kept with its logs where a run failed
    (ROOT / "var" / "work.json").write_text(json.dumps(found, indent=2) + "\n")
    _show(found)
    return 0


def _show(found: dict[str, dict[str, float]]) -> None:
    table = Table(title="Work for one message, both sides", title_justify="left")
    for heading in ("", *found):
        table.add_column(heading, justify="left" if not heading else "right")
    for name in COUNTS:
        table.add_row(name, *(f"{each[name]:,.1f}" for each in found.values()))
    Console().print(table)


if __name__ == "__main__":
    sys.exit(main())
