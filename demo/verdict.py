"""The verdict on a run: what is written to verdict.json, and the table that a person reads."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import IntEnum
from pathlib import Path

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from .checker import Traffic, Violations

MEANING = {
    "lost": "promised, settled as done, and delivered to nobody",
    "duplicated": "delivered more than once",
    "unexpected": "delivered, but no submit of it returned",
    "out_of_order": "delivered after a later one of its pair",
    "premature_ack": "acknowledged before it was stored",
    "overlap": "sent before the Ack of the one before it",
    "altered": "copies differ, or payload is not the file",
    "stuck": "a lane with messages and nothing due",
    "silent_suspend": "a suspended lane without an incident",
    "unwitnessed": "not seen by the proxy, so not judged",
}


_EBMS2 = {
    "out_of_order": "delivered after a later one of its conversation",
    "overlap": "sent when the window of its pair was full",
}
_WITHOUT_ORDER = {"out_of_order": "not judged: the agreements have no order"}


class ExitStatus(IntEnum):
    """Of the demo; 2 is a demo that could not be completed, 130 one that was interrupted."""

    KEPT = 0
    BROKEN = 1
    LATE = 3


_COLOURS = {ExitStatus.KEPT: "green", ExitStatus.BROKEN: "red", ExitStatus.LATE: "yellow"}
_WORDS = {
    ExitStatus.KEPT: "ONCE AND ONLY ONCE",
    ExitStatus.BROKEN: "THE PROMISE WAS BROKEN",
    ExitStatus.LATE: "NOT DELIVERED IN TIME",
}


@dataclass(frozen=True, slots=True)
class Verdict:
    """A run and its judgement. `seconds` from the first submit until all was quiet."""

    submitted: int
    delivered: int
    violations: Violations
    attempts: int
    operator_resumes: int
    kills: int
    finished: bool
    """Every message was delivered and acknowledged before the time limit."""
    seconds: float
    seed: int
    pairs: int
    traffic: Traffic
    limit: float = 0.0
    """Seconds."""
    not_submitted: int = 0
    """What the producers had not come to."""
    under_way: Mapping[str, int] = field(default_factory=dict)
    """How many of those not delivered were where, in which state: not delivered in time, which
    is neither lost nor kept."""
    dialect: str = "trp"
    ordered: bool = True

    @property
    def late(self) -> int:
        return sum(self.under_way.values())

    @property
    def status(self) -> ExitStatus:
        if any(asdict(self.violations).values()):
            return ExitStatus.BROKEN
        in_time = self.finished and not self.late
        return ExitStatus.KEPT if in_time else ExitStatus.LATE

    @property
    def good(self) -> bool:
        return self.status is ExitStatus.KEPT

    def as_json(self) -> dict[str, object]:
        values = asdict(self)
        violations, traffic = values.pop("violations"), values.pop("traffic")
        traffic["disturbed_percent"] = self.traffic.disturbed_percent
        return {
            "good": self.good,
            "status": self.status.name.lower(),
            "late": self.late,
            **values,
            **violations,
            "proxy": traffic,
        }

    def write(self, file: Path) -> None:
        file.write_text(json.dumps(self.as_json(), indent=2) + "\n")


def render(verdict: Verdict) -> RenderableType:
    """The verdict for a terminal."""
    return Panel(
        Group(_headline(verdict), Text(), _violations(verdict), Text(), _traffic(verdict)),
        title="[bold]the demo's verdict[/]",
        border_style=_COLOURS[verdict.status],
        padding=(1, 2),
        expand=False,
    )


def _headline(verdict: Verdict) -> Text:
    exchanged = f"{verdict.delivered} of {verdict.submitted} messages"
    disturbed = f"{verdict.traffic.disturbed_percent} % of {verdict.traffic.posts} copies disturbed"
    style = f"bold white on {_COLOURS[verdict.status]}"
    words = _WORDS[verdict.status]
    if verdict.good and verdict.ordered:
        words += ", IN ORDER"
    text = f"\n\n{exchanged} delivered, although {disturbed}."
    return Text.assemble((f" {words} ", style), text, _late(verdict))


def _late(verdict: Verdict) -> str:
    """What was still under way when the time was over."""
    if verdict.finished and not verdict.late:
        return ""
    open_messages = [f"{count} {where}" for where, count in sorted(verdict.under_way.items())]
    if verdict.not_submitted:
        open_messages.insert(0, f"{verdict.not_submitted} not submitted yet")
    what = "; ".join(open_messages) or "only Acknowledgements"
    return f"\nStill under way after {verdict.limit:.0f} s: {what}."


def _violations(verdict: Verdict) -> Table:
    table = Table(box=None, padding=(0, 2), header_style="dim", pad_edge=False)
    table.add_column("what must not be")
    table.add_column("found", justify="right")
    table.add_column("that is", style="dim")
    meaning = MEANING | (_EBMS2 if verdict.dialect == "ebms2" else {})
    meaning |= {} if verdict.ordered else _WITHOUT_ORDER
    for name, count in asdict(verdict.violations).items():
        style = "bold red" if count else "green"
        table.add_row(Text(name.replace("_", " ")), Text(str(count), style), meaning[name])
    return table


def _traffic(verdict: Verdict) -> Table:
    seen = verdict.traffic
    table = Table(box=None, padding=(0, 2), show_header=False, pad_edge=False)
    table.add_column(style="dim")
    table.add_column(justify="right")
    table.add_column(style="dim")
    faults = ", ".join(f"{fault} {count}" for fault, count in seen.faults.items())
    rows = (
        ("messages", seen.messages, f"copies, {verdict.attempts} attempts in the senders' books"),
        ("Acks", seen.acknowledgements, f"copies, and {seen.others} of other signals"),
        ("disturbed", seen.disturbed, faults or "nothing"),
        ("kill -9", verdict.kills, f"of processes, so that {seen.unreachable} copies met nobody"),
        (
            "resumed",
            verdict.operator_resumes,
            "lanes suspended or messages held, by the demo's operator",
        ),
        ("time", f"{verdict.seconds:.0f} s", f"seed {verdict.seed}, {verdict.pairs} pairs"),
    )
    for name, value, remark in rows:
        table.add_row(name, str(value), remark)
    return table
