"""`python -m benchmarks.report_page --write`: the tables of docs/performance.md, from
var/bench.json and var/work.json. Without --write it prints them.
"""

import argparse
import json
import math
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from .msh import ROOT
from .plots import FOLDER, PICTURES

PAGE = ROOT / "docs" / "performance.md"
BEGIN, END = "<!-- {}:begin -->", "<!-- {}:end -->"
Document = dict[str, Any]

TARGETS: dict[str, tuple[str, float, float]] = {
    "receive_16": ("receiving, 16 connections : pgbench, 16 clients", 0.18, 0.30),
    "receive_1": ("receiving, 1 connection : pgbench, 1 client", 0.18, 0.25),
    "exchange_1": ("exchange, 1 pair : bare prototype", 0.20, 0.40),
    "exchange_1_to_chain": ("the same : bare chain of web process, Valkey and worker", 0, 0),
    "exchange_16": ("exchange, 16 pairs : bare prototype, threads", 0.35, 0.60),
    "exchange_16_to_chain": ("the same : bare chain of web process, Valkey and worker", 0, 0),
    "exchange_16_to_commits": ("the same : rate of pgbench with 16 clients / 4", 0.15, 0.30),
    "exchange_16_to_pyas2": ("the same : django-pyas2 with receipts, 8 clients", 2, 5),
    "ebms2_exchange_1": ("ebMS 2.0, exchange, 1 pair, window 16 : the draft's, 1 pair", 3, 0),
    "ebms2_receive_16": ("ebMS 2.0, receiving, 16 connections : the draft's", 0.85, 0),
    "signed_exchange_16": ("ebMS 2.0, exchange, 16 pairs, signed both ways : unsigned", 0, 0),
    "verify_8_threads": ("verifications by 8 threads of a process : by one", 0, 0),
    "verify_processes": ("verifications by a process of 8 threads on each core : by one", 0, 0),
    "exchange_200": ("exchange, 200 pairs : bare prototype", 0, 0),
    "exchange_16_1mb": ("exchange, 16 pairs, payloads of 1 MB : bare prototype", 0, 0),
    "receive_16_tls": ("receiving over TLS, HAProxy in front : without TLS", 0, 0),
    "submit_1": ("single submits through the API, 1 client : pgbench, 1 client", 0, 0),
    "bulk_1": ("bulk submits, 1 client : COPY of every row, 1 client", 0.40, 0.70),
    "bulk_2": ("bulk submits, 2 clients : COPY of every row, 2 clients", 0.40, 0.70),
    "drain": ("draining a long queue, half of the partners suspended : a short one", 0, 0),
    "cancel_queue": ("cancelling a queue by a bulk job : message by message", 0, 0),
    "drain_beside_cancel": ("draining beside a job that cancels a queue : without", 0, 0),
    "retry_storm": ("all partners' retries due at once : first copies", 0, 0),
    "quiet_partners": ("exchange, 16 pairs, beside quiet partners : without", 0.80, 0.95),
    "stuck_partners": (
        "exchange, 16 pairs, beside partners that are suspended or never answer : without",
        0,
        0,
    ),
    "growth_receive": ("receiving with messages stored : with 10,000", 0.80, 0.95),
    "growth_exchange": ("exchange with messages stored : with 10,000", 0.80, 0.95),
}
"""What is divided by what; at least; aim."""
GAUGES: dict[str, tuple[str, float, float]] = {
    "choose_ms": ("choosing what to send next, ms", 10, 4),
    "sign_ms": ("CPU of a signature, ms", 0, 0),
    "verify_ms": ("CPU of a verification, ms", 0, 0),
    "idle": ("CPU of one idle MSH with its servers, % of a core", 5, 2),
    "memory": ("memory of both MSHs after a long exchange, % more", 0, 0),
}
"""What is measured; at most; aim."""
COSTS = {
    "exchange_1": "exchanged, 1 pair, both sides",
    "exchange_16": "exchanged, 16 pairs, both sides",
    "exchange_200": "exchanged, 200 pairs, both sides",
    "receive_1": "received and stored, 1 connection",
    "receive_16": "received and stored, 16 connections",
    "submit_1": "submitted through the API, one for each request",
    "bulk_1": "submitted through the API, 5,000 for each request",
}
SPENDERS = ("web", "worker", "PostgreSQL", "Valkey", "all")
MESSAGES_A_DAY = 200
BUSIEST_HOUR = 0.2
"""Share of a day's messages."""
BUSY = 0.5
DAYS_KEPT = 90
BYTES_STORED = 5_500
"""Of one message with all that belongs to it, its indexes included, and a payload of 2 KB."""
SIZES = {
    "quiet_partners": "partners",
    "stuck_partners": "partners",
    "stored": "stored",
    "queued": "queued",
    "minutes": "minutes",
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.report_page", description=__doc__)
    parser.add_argument("--write", action="store_true", help="into docs/performance.md")
    parser.add_argument("--results", type=Path, default=ROOT / "var" / "bench.json")
    parser.add_argument("--work", type=Path, default=ROOT / "var" / "work.json")
    arguments = parser.parse_args()
    results = json.loads(arguments.results.read_text())
    absolute = results["absolute"]
    parts = {"figures": figures(results)}
    if drawn := pictures():
        parts["pictures"] = drawn
    if costs := cost(absolute):
        parts["cost"] = costs
    if spent := absolute.get("exchange_16", {}).get("cpu_ms"):
        parts["installations"] = installations(spent["all"] / 2)
    if arguments.work.exists():
        parts["work"] = work(json.loads(arguments.work.read_text()))
    if not arguments.write:
        sys.stdout.write("\n\n".join(parts.values()) + "\n")
        return 0
    text = PAGE.read_text()
    for name, table in parts.items():
        text = replaced(text, name, table)
    PAGE.write_text(text)
    return 0


def replaced(text: str, name: str, table: str) -> str:
    """With `table` between the markers of that name. ValueError if they are missing."""
    begin, end = BEGIN.format(name), END.format(name)
    if text.count(begin) != 1 or text.count(end) != 1:
        raise ValueError(f"{begin} and {end} have to be in the page once")
    pattern = re.compile(f"{re.escape(begin)}.*{re.escape(end)}", re.DOTALL)
    return pattern.sub(lambda _: f"{begin}\n{table}\n{end}", text)


def figures(document: Document) -> str:
    """Both tables, and what they were measured on."""
    absolute = document["absolute"]
    ratios = [_ratio(name, absolute[name]) for name in TARGETS if name in absolute]
    gauges = [_gauge(name, absolute[name]) for name in GAUGES if name in absolute]
    headings = ("figure", "", "at least", "aim", "ratio", "MSH/s", "floor/s", "p50 ms", "p99 ms")
    parts = [_table((*headings, "commit"), ratios)]
    if gauges:
        parts.append(_table(("gauge", "", "at most", "aim", "measured", "commit"), gauges))
    return "\n\n".join([*parts, _machine(document["machine"])])


def work(document: dict[str, dict[str, float]]) -> str:
    names = next(iter(document.values()))
    rows = [[name, *(f"{each[name]:,.1f}" for each in document.values())] for name in names]
    return _table(("for one message, both sides", *document), rows)


def pictures() -> str:
    """Those that were drawn."""
    found = [name for name in PICTURES if (FOLDER / f"performance-{name}.png").exists()]
    return "\n\n".join(f"![{name}](images/performance-{name}.png)" for name in found)


def cost(absolute: Document) -> str:
    """CPU of one message in milliseconds; "" if nothing was measured."""
    rows = []
    for name, what in COSTS.items():
        if spent := absolute.get(name, {}).get("cpu_ms"):
            decimals = 3 if spent["all"] < 1 else 2
            figures = [f"{spent[spender]:.{decimals}f}" for spender in SPENDERS]
            rows.append([what, *figures, f"{1000 / spent['all']:,.0f}"])
    headings = ("CPU, ms", *SPENDERS, "messages per second and core")
    return _table(headings, rows) if rows else ""


def installations(milliseconds: float) -> str:
    """For one side of an exchanged message that takes so many milliseconds of CPU."""
    rows = []
    for partners in (10**3, 10**4, 10**5):
        day = partners * MESSAGES_A_DAY
        second = day * BUSIEST_HOUR / 3600
        cores = max(1, math.ceil(second * milliseconds / 1000 / BUSY))
        disk = day * DAYS_KEPT * BYTES_STORED / 1e9
        rows.append([f"{partners:,}", f"{day:,}", f"{second:,.0f}", f"{cores}", f"{disk:,.0f} GB"])
    headings = ("partners", "messages a day", "a second, busiest hour", "cores", "disk")
    return _table(headings, rows)


def _ratio(name: str, found: Document) -> list[str]:
    what, least, aim = TARGETS[name]
    return [
        f"`{name}`",
        what + _sizes(found),
        _target(least),
        _target(aim),
        f"**{found['ratio']:.2f}**",
        f"{found['product']['median']:,.0f}",
        f"{found['floor']['median']:,.0f}",
        _milliseconds(found.get("latency_median_ms")),
        _milliseconds(found.get("latency_p99_ms")),
        found["commit"],
    ]


def _gauge(name: str, found: Document) -> list[str]:
    what, most, aim = GAUGES[name]
    value = f"**{found['value']:.1f}**"
    return [
        *(f"`{name}`", what + _sizes(found)),
        *(_target(most), _target(aim), value, found["commit"]),
    ]


def _sizes(found: Document) -> str:
    given = [f"{found[key]:,.0f} {word}" for key, word in SIZES.items() if key in found]
    return f" ({', '.join(given)})" if given else ""


def _target(value: float) -> str:
    return f"{value:g}" if value else ""


def _milliseconds(value: float | None) -> str:
    return "" if value is None else f"{value:,.1f}"


def _machine(machine: Document) -> str:
    server = machine["postgresql"]
    return (
        f"Last run: {machine['cpus']} cores ({machine['processor']}), PostgreSQL"
        f" {server['server_version']}, `fsync` {server['fsync']}, `synchronous_commit`"
        f" {server['synchronous_commit']}, `shared_buffers` {server['shared_buffers']}, Python"
        f" {machine['python']}, {machine['at']}."
    )


def _table(headings: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    lines = [list(headings), ["---"] * len(list(headings)), *map(list, rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


if __name__ == "__main__":
    sys.exit(main())
