"""The options of the demo."""

from argparse import ArgumentParser
from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import Any

from .faults import Rates
from .pairs import ROUTERS, WINDOW, Dialect, Timing, Transport, timing_for

FOLDER = Path("var/demo")
START = 240.0
FAULTS_MET = 4
"""How often the share of disturbed POSTs an exchange may meet: its message and its Ack, each
sent again."""
SECONDS_OF_WORK = 0.3
"""Of a processor, for a message on each hop."""
WITH_KILLS = 2
"""Processes that are killed are away for about as long as they are there."""


@dataclass(frozen=True, slots=True)
class Work:
    """What a run has to do."""

    messages: int
    pairs: int
    hops: int = 1
    kill: bool = False


def time_limit(work: Work, rates: Rates, timing: Timing) -> float:
    """Seconds that a run may take, many times what an idle computer needs.

    The longest queue is sent one message after the other, each of which waits for its Timeout as
    often as the link's faults make it; and all messages together keep the processors busy.
    """
    longest_queue = ceil(work.messages / work.pairs)
    wait = timing.timeout + timing.retry_interval
    an_exchange = 1.0 + FAULTS_MET * rates.disturbed * wait
    in_order = longest_queue * work.hops * an_exchange
    altogether = SECONDS_OF_WORK * (work.messages + work.pairs) * work.hops
    return (START + in_order + altogether) * (WITH_KILLS if work.kill else 1)


@dataclass(slots=True)
class Patience:
    """When to give up: after `limit` seconds, but not while messages are still being delivered;
    after twice the limit at the latest."""

    limit: float
    grace: float
    """Seconds without a delivery."""
    _began: float | None = None
    _last: float = 0.0
    _delivered: int = 0

    def over(self, now: float, delivered: int) -> bool:
        """`now` on a clock that never jumps; `delivered` so far."""
        if self._began is None:
            self._began = self._last = now
        if delivered != self._delivered:
            self._last, self._delivered = now, delivered
        spent = now - self._began
        return spent >= 2 * self.limit or (spent >= self.limit and now - self._last >= self.grace)


@dataclass(frozen=True, slots=True)
class Options:
    messages: int
    pairs: int
    seed: int
    folder: Path
    rates: Rates
    transport: Transport = Transport.HTTP
    routers: int = 0
    route_mode: str = "hop"
    kill: bool = False
    once: bool = False
    documents: Path | None = None
    dialect: Dialect = Dialect.TRP
    by_conversation: bool = False
    tls: bool = False
    signed: bool = False
    encrypted: bool = False

    def __post_init__(self) -> None:
        if self.messages < 1 or self.pairs < 1:
            raise ValueError("The demo needs at least one message and one pair.")
        if self.routers and self.transport is Transport.SMTP:
            raise ValueError("An MSH of the demo has one mail host: no routers over mail.")
        if self.tls and self.transport is Transport.SMTP:
            raise ValueError("TLS with client certificates is for HTTP.")
        if not 0 <= self.routers <= len(ROUTERS):
            raise ValueError(f"Between 0 and {len(ROUTERS)} routers, not {self.routers}.")
        if self.dialect is Dialect.EBMS2 and self.routers:
            raise ValueError("No routers for ebMS 2.0: its messages name no MSHs.")
        if self.dialect is Dialect.TRP and (self.signed or self.encrypted):
            raise ValueError("Only messages of ebMS 2.0 are signed or encrypted.")

    @property
    def ordered(self) -> bool:
        return self.dialect is Dialect.TRP or self.by_conversation

    @property
    def window(self) -> int:
        """Messages of a pair that may be under way at once."""
        return 1 if self.dialect is Dialect.TRP else WINDOW

    @property
    def timing(self) -> Timing:
        return timing_for(self.pairs)

    @property
    def limit(self) -> float:
        """Seconds that the exchange may take before it counts as not finished."""
        work = Work(self.messages, self.pairs, 1 + self.routers, kill=self.kill)
        return time_limit(work, self.rates, self.timing)


def add_arguments(parser: ArgumentParser) -> None:
    """The command line; `options_of` reads it."""
    parser.add_argument("--messages", type=int, default=100, help="over all pairs (100)")
    parser.add_argument("--pairs", type=int, default=2, help="each with a queue of its own (2)")
    parser.add_argument("--seed", type=int, default=1, help="of faults, kills and orders (1)")
    parser.add_argument("--documents", type=Path, help="folder of which every file is one payload")
    parser.add_argument(
        "--transport",
        type=Transport,
        choices=list(Transport),
        default=Transport.HTTP,
        help="transport of the messages (http)",
    )
    parser.add_argument("--routers", type=int, default=0, help="MSHs between the two (0)")
    parser.add_argument(
        "--route-mode",
        choices=["hop", "end-to-end"],
        default="hop",
        help="a router acknowledges what it has stored, or what the last MSH has (hop)",
    )
    parser.add_argument(
        "--dialect",
        type=Dialect,
        choices=list(Dialect),
        default=Dialect.TRP,
        help="of the agreements: the draft's, or OASIS ebMS 2.0 (trp)",
    )
    parser.add_argument("--ordered", action="store_true", help="ebMS 2.0 in order by conversation")
    parser.add_argument(
        "--tls", action="store_true", help="HTTPS with client certificates of an own authority"
    )
    parser.add_argument("--signed", action="store_true", help="ebMS 2.0: messages and answers")
    parser.add_argument("--encrypted", action="store_true", help="ebMS 2.0: payloads")
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
        dialect=Dialect(values["dialect"]),
        tls=values["tls"],
        by_conversation=values["ordered"] and values["dialect"] == Dialect.EBMS2,
        signed=values["signed"],
        encrypted=values["encrypted"],
    )
