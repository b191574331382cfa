"""The verdict on a run: what is written to verdict.json, and the table that a person reads."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from .checker import Traffic, Violations

MEANING = {
    "lost": "promised to somebody, delivered to nobody",
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
    """Every message was delivered and acknowledged before the time allowed was over."""
    seconds: float
    seed: int
    pairs: int
    traffic: Traffic

    @property
    def good(self) -> bool:
        return self.finished and not any(asdict(self.violations).values())

    def as_json(self) -> dict[str, object]:
        values = asdict(self)
        violations, traffic = values.pop("violations"), values.pop("traffic")
        traffic["disturbed_percent"] = self.traffic.disturbed_percent
        return {"good": self.good, **values, **violations, "proxy": traffic}

    def write(self, file: Path) -> None:
        file.write_text(json.dumps(self.as_json(), indent=2) + "\n")


def render(verdict: Verdict) -> RenderableType:
    """The verdict for a terminal."""
    return Panel(
        Group(_headline(verdict), Text(), _violations(verdict), Text(), _traffic(verdict)),
        title="[bold]the demo's verdict[/]",
        border_style="green" if verdict.good else "red",
        padding=(1, 2),
        expand=False,
    )


def _headline(verdict: Verdict) -> Text:
    exchanged = f"{verdict.delivered} of {verdict.submitted} messages"
    disturbed = f"{verdict.traffic.disturbed_percent} % of {verdict.traffic.posts} copies disturbed"
    if verdict.good:
        word, style = " ONCE AND ONLY ONCE, IN ORDER ", "bold white on green"
    elif verdict.finished:
        word, style = " THE PROMISE WAS BROKEN ", "bold white on red"
    else:
        word, style = " NOT FINISHED IN TIME ", "bold white on red"
    return Text.assemble((word, style), f"\n\n{exchanged} delivered, although {disturbed}.")


def _violations(verdict: Verdict) -> Table:
    table = Table(box=None, padding=(0, 2), header_style="dim", pad_edge=False)
    table.add_column("what must not be")
    table.add_column("found", justify="right")
    table.add_column("that is", style="dim")
    for name, count in asdict(verdict.violations).items():
        style = "bold red" if count else "green"
        table.add_row(Text(name.replace("_", " ")), Text(str(count), style), MEANING[name])
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
        ("resumed", verdict.operator_resumes, "lanes that were suspended, by the demo's operator"),
        ("time", f"{verdict.seconds:.0f} s", f"seed {verdict.seed}, {verdict.pairs} pairs"),
    )
    for name, value, remark in rows:
        table.add_row(name, str(value), remark)
    return table
