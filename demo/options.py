"""The options of the demo."""

from argparse import ArgumentParser
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .faults import Rates
from .pairs import ROUTERS, Transport

FOLDER = Path("var/demo")


@dataclass(frozen=True, slots=True)
class Options:
    messages: int
    pairs: int
    seed: int
    rates: Rates
    transport: Transport
    routers: int
    route_mode: str
    kill: bool
    once: bool
    documents: Path | None
    folder: Path

    def __post_init__(self) -> None:
        if self.messages < 1 or self.pairs < 1:
            raise ValueError("The demo needs at least one message and one pair.")
        if self.routers and self.transport is Transport.SMTP:
            raise ValueError("An MSH of the demo has one mail host: no routers over mail.")
        if not 0 <= self.routers <= len(ROUTERS):
            raise ValueError(f"Between 0 and {len(ROUTERS)} routers, not {self.routers}.")

    @property
    def limit(self) -> float:
        """Seconds that the exchange may take before it counts as not finished."""
        hops = 1 + self.routers
        return 300 + 6 * hops * self.messages / self.pairs


def add_arguments(parser: ArgumentParser) -> None:
    """The command line; `options_of` reads it."""
    parser.add_argument("--messages", type=int, default=100, help="over all pairs (100)")
    parser.add_argument("--pairs", type=int, default=2, help="each with a producer of its own (2)")
    parser.add_argument("--seed", type=int, default=1, help="of faults, kills and orders (1)")
    parser.add_argument("--documents", type=Path, help="folder of which every file is one payload")
    parser.add_argument(
        "--transport",
        type=Transport,
        choices=list(Transport),
        default=Transport.HTTP,
        help="what carries the messages (http)",
    )
    parser.add_argument("--routers", type=int, default=0, help="MSHs between the two (0)")
    parser.add_argument(
        "--route-mode",
        choices=["hop", "end-to-end"],
        default="hop",
        help="a router acknowledges what it has stored, or what the last MSH has (hop)",
    )
    parser.add_argument("--kill", action="store_true", help="kill -9 processes during the run")
    parser.add_argument("--once", action="store_true", help="end after the verdict")
    rates = Rates()
    for name in Rates.names():
        parser.add_argument(
            f"--{name.replace('_', '-')}",
            type=float,
            default=getattr(rates, name),
            metavar="SHARE",
            help="share of POSTs or mails that meet this fault (%(default)s)",
        )


def options_of(values: Mapping[str, Any]) -> Options:
    """Raises ValueError with a sentence for what makes no sense."""
    return Options(
        messages=values["messages"],
        pairs=values["pairs"],
        seed=values["seed"],
        rates=Rates(**{name: values[name] for name in Rates.names()}),
        transport=Transport(values["transport"]),
        routers=values["routers"],
        route_mode=values["route_mode"],
        kill=values["kill"],
        once=values["once"],
        documents=values["documents"],
        folder=FOLDER.resolve(),
    )
