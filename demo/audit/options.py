"""The options of the audit."""

from argparse import ArgumentParser
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from demo.faults import Rates

FOLDER = Path("var/audit")
REPORT = Path("var/audit.json")
FEWEST_ROWS = 15
"""For each partner: three of its rows are in each wave."""


def waves(rows: int) -> dict[str, range]:
    """The numbers of the orders, by what loads them: a job whose tasks are killed; a job in order
    with a row that is refused; two streams whose driver is killed."""
    first, second = rows * 3 // 5, rows * 4 // 5
    return {
        "load": range(1, first + 1),
        "ordered": range(first + 1, second + 1),
        "stream": range(second + 1, rows + 1),
    }


@dataclass(frozen=True, slots=True)
class Options:
    rows: int
    partners: int
    documents: Path | None
    """Every file is a document that is multiplied; None: orders of the demo's own."""
    kills: int
    """Spark tasks that are killed while they load."""
    disturbed: float
    """Share of POSTs that the link between the MSHs disturbs, 0 to 1."""
    seed: int
    folder: Path
    report: Path

    def __post_init__(self) -> None:
        if self.partners < 1 or self.rows < FEWEST_ROWS * self.partners:
            raise ValueError(f"The audit needs {FEWEST_ROWS} rows for each of its partners.")
        if not 0 <= self.kills <= 3:
            raise ValueError("Spark gives a task up when it has died four times: --kills 0 to 3.")
        if not 0 <= self.disturbed <= 0.9:
            raise ValueError(f"--disturbed is a share from 0 to 0.9, not {self.disturbed}.")
        if self.documents is not None and not any(self.documents.glob("*")):
            raise ValueError(f"--documents: {self.documents} holds no file.")

    @property
    def waves(self) -> dict[str, range]:
        return waves(self.rows)

    @property
    def refused(self) -> int:
        """The number of the order that is refused at first: the second of its partner's in the wave
        `ordered`."""
        return self.waves["ordered"].start + self.partners

    @property
    def behind_refused(self) -> int:
        """How many orders of its partner are behind it in the wave."""
        return len(range(self.refused, self.waves["ordered"].stop, self.partners)) - 1

    @property
    def per_trigger(self) -> int:
        """Messages in a micro-batch of the streams that read."""
        return -(-self.rows // 7)

    @property
    def limit(self) -> float:
        """Seconds that the delivery may take before it counts as not finished."""
        return 600 + 20 * self.rows / self.partners

    @property
    def rates(self) -> Rates:
        """The demo's faults, in their proportions."""
        usual = Rates()
        share = self.disturbed / usual.disturbed
        return Rates(**{name: share * getattr(usual, name) for name in Rates.names()})


def add_arguments(parser: ArgumentParser) -> None:
    """The command line; `options_of` reads it."""
    parser.add_argument("--rows", type=int, default=2000, help="orders (2000)")
    parser.add_argument("--partners", type=int, default=50, help="over so many (50)")
    parser.add_argument("--documents", type=Path, help="folder of documents to multiply")
    parser.add_argument("--kills", type=int, default=3, help="tasks killed in the load (3)")
    usual = Rates().disturbed
    parser.add_argument(
        "--disturbed", type=float, default=usual, help=f"share of POSTs (the demo's {usual:.2f})"
    )
    parser.add_argument("--seed", type=int, default=1, help="of orders and faults (1)")


def options_of(values: Mapping[str, Any]) -> Options:
    """Raises ValueError with a sentence for what makes no sense."""
    return Options(
        **{field.name: values[field.name] for field in fields(Options) if field.name in values},
        folder=FOLDER.resolve(),
        report=REPORT.resolve(),
    )
