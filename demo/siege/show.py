"""The report of a siege for a terminal."""

from collections import Counter
from dataclasses import asdict

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from .report import Report, Status


def render(report: Report) -> RenderableType:
    """For a terminal."""
    colour = {Status.GOOD: "green", Status.BROKEN: "red"}.get(report.status, "yellow")
    words = {
        Status.GOOD: "THE HONEST PARTNERS FELT NOTHING",
        Status.BROKEN: "THE PROMISE WAS BROKEN",
        Status.LATE: "NOT DELIVERED IN TIME",
        Status.FELT: "THE HOSTILE PARTNER WAS FELT",
    }
    lines = [Text(f" {words[report.status]} ", f"bold white on {colour}"), Text()]
    broken = {name: count for name, count in asdict(report.violations).items() if count}
    lines += [Text(f"{name}: {count}", "bold red") for name, count in broken.items()]
    lines += [Text(f"late: {count} {where}") for where, count in report.late.items()]
    lines += [Text(what) for what in report.felt]
    return Group(*lines, _times(report), _looks(report), _memory(report))


def _times(report: Report) -> Table:
    table = Table(
        title=f"honest exchanges, seconds (p99 ratio {report.ratio})", title_justify="left"
    )
    for heading in ("", "exchanges", "p50", "p99", "longest"):
        table.add_column(heading, justify="left" if not heading else "right")
    rows = {"calm": report.calm, "first calm phase": report.first_calm}
    rows |= {"last calm phase": report.last_calm, "hostile": report.hostile}
    if len(report.by_scenario) > 1:
        rows |= dict(report.by_scenario)
    for name, row in rows.items():
        table.add_row(name, *(str(value) for value in asdict(row).values()))
    return table


def _looks(report: Report) -> Table:
    table = Table(title="requests besides, seconds", title_justify="left")
    for heading in ("", "calm p99", "hostile p99", "longest", "unanswered", "answers"):
        table.add_column(heading, justify="left" if not heading else "right")
    for what, seen in report.looks.items():
        calm, hostile = seen["calm"], seen["hostile"]
        answers = Counter(calm["statuses"]) + Counter(hostile["statuses"])
        counts = ", ".join(f"{status} {count}" for status, count in sorted(answers.items()))
        unanswered = calm["unanswered"] + hostile["unanswered"]
        longest = max(calm["longest"], hostile["longest"])
        values = (calm["p99"], hostile["p99"], longest, unanswered, counts)
        table.add_row(what, *(str(value) for value in values))
    return table


def _memory(report: Report) -> Table:
    table = Table(title="memory, MB", title_justify="left")
    for heading in ("", "first", "last", "highest", "a minute", "restarts"):
        table.add_column(heading, justify="left" if not heading else "right")
    for name, seen in report.memory.items():
        values = ("first", "last", "highest", "growth_a_minute", "restarts")
        table.add_row(name, *(str(seen[value]) for value in values))
    return table
