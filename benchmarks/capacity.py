"""`python -m benchmarks.capacity --write`: what so many partners need on a simulated day, from the
measured costs in docs/performance.md; the table in docs/scale.md. Without --write it is printed.

Assumptions, each a constant here: partners send as much as a lognormal distribution says, in the
hours of a working day; a share of each hour comes in its first five minutes, as nightly and hourly
jobs do; partners are down now and then, and get their queue when they are back.
"""

import argparse
import math
import re
import sys
from dataclasses import dataclass
from random import Random

from .msh import ROOT
from .report_page import BUSY, BYTES_STORED, DAYS_KEPT, MESSAGES_A_DAY, PAGE, replaced

SCALE = ROOT / "docs" / "scale.md"
SPREAD = 2.0
"""Sigma of the lognormal distribution of messages by partner: a hundredth sends a third."""
HOURS = (1, 1, 1, 1, 1, 2, 4, 8, 14, 16, 15, 13, 10, 13, 14, 13, 11, 7, 4, 2, 2, 1, 1, 1)
"""Weight of each hour of the day."""
BATCHED = 0.3
"""Share of an hour's messages in its first five minutes."""
DOWN_EVERY_HOURS, DOWN_HOURS = 30 * 24, 2
"""How often a partner is down, and for how long."""
COPIES_WHILE_DOWN = 4
"""Of the message in flight, until the link is suspended: 1 + Retries."""
ROUND_TRIP_MS = 40.0
PARTNERS = (1_000, 10_000, 100_000)


@dataclass(frozen=True, slots=True)
class Costs:
    """Of one message on one side; `lane_ms`: after which the next one of a pair may follow."""

    cpu_ms: float
    wal_bytes: float
    commits: float
    lane_ms: float


@dataclass(slots=True)
class Day:
    hours: list[float]
    """Messages in each."""
    waiting: float = 0.0
    """For partners that are down, at the worst hour."""
    full: int = 0
    """Partners with more messages in an hour than their lane carries."""
    extra_copies: float = 0.0


def measured(page: str) -> Costs:
    """Raises ValueError if the page has no such figures."""
    cpu = _number(r"\| exchanged, 16 pairs, both sides \|(?:[^|]*\|){4} ([\d.,]+)", page)
    wal = _number(r"\| WAL bytes \| [\d.,]+ \| ([\d.,]+)", page)
    commits = _number(r"\| commits \| [\d.,]+ \| ([\d.,]+)", page)
    p50 = _number(r"\| `exchange_1` \|(?:[^|]*\|){6} ([\d.,]+)", page)
    return Costs(cpu / 2, wal / 2, commits / 2, p50 + 2 * ROUND_TRIP_MS)


def _number(pattern: str, page: str) -> float:
    found = re.search(pattern, page)
    if not found:
        raise ValueError(f"docs/performance.md has nothing like {pattern}")
    return float(found[1].replace(",", ""))


def simulate(partners: int, costs: Costs, seed: int = 1) -> Day:
    dice, weights = Random(seed), sum(HOURS)
    lane_hour = 3_600_000 / costs.lane_ms
    mean = math.exp(SPREAD**2 / 2)
    day = Day([0.0] * len(HOURS))
    waits = [0.0] * len(HOURS)
    for _ in range(partners):
        volume = MESSAGES_A_DAY * dice.lognormvariate(0, SPREAD) / mean
        starts = dice.randrange(DOWN_EVERY_HOURS)  # of its outage; mostly on another day
        queue, filled = 0.0, False
        for hour, weight in enumerate(HOURS):
            queue += volume * weight / weights
            down = starts <= hour < starts + DOWN_HOURS
            if down:
                waits[hour] += queue
                day.extra_copies += COPIES_WHILE_DOWN if hour == starts else 0
            done = 0.0 if down else min(queue, lane_hour)
            filled |= not down and queue > lane_hour
            day.hours[hour] += done
            queue -= done
        day.full += filled
    day.waiting = max(waits)
    return day


def table(costs: Costs) -> str:
    headings = (
        "partners",
        "messages a day",
        "a second, busiest hour",
        "a second, busiest five minutes",
        "cores",
        "WAL MB/s",
        "commits/s",
        "lanes that fill",
        "waiting for partners that are down",
        "disk",
    )
    rows = [_row(partners, simulate(partners, costs), costs) for partners in PARTNERS]
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _row(partners: int, day: Day, costs: Costs) -> list[str]:
    total, busiest = sum(day.hours), max(day.hours)
    burst = BATCHED * busiest / 300
    rate = max(burst, busiest / 3600)
    cores = max(1, math.ceil(rate * costs.cpu_ms / 1000 / BUSY))
    values = (partners, total, busiest / 3600, rate, cores)
    sizes = (rate * costs.wal_bytes / 1e6, rate * costs.commits, day.full, day.waiting)
    disk = total * DAYS_KEPT * BYTES_STORED / 1e9
    return [*(f"{value:,.0f}" for value in (*values, *sizes)), f"{disk:,.0f} GB"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="into docs/scale.md")
    text = table(measured(PAGE.read_text()))
    if not parser.parse_args().write:
        sys.stdout.write(text + "\n")
        return 0
    SCALE.write_text(replaced(SCALE.read_text(), "capacity", text))
    return 0


if __name__ == "__main__":
    sys.exit(main())
