"""The stage: MSHs in a chain, partners of each other, and a bad link between them."""

import asyncio
import atexit
import signal
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path

import psycopg
from rich.console import Console

from .application import TABLE
from .conversation import Way
from .faults import Schedule
from .http11 import HOST
from .keys import Keys
from .machines import DemoFailed, Machine
from .pairs import Pair, Tokens, Transport, make_tokens, setup_of
from .proxy import Front, Proxy
from .rows import InboundTables
from .smtp import SMTP
from .tls import HEADER, Trust
from .web import HTTP

FIRST_PORT = 8101


class Stage:
    """`names`: of the MSHs, each a neighbour of the next. `mode`: how routers acknowledge."""

    def __init__(
        self,
        folder: Path,
        names: Sequence[str],
        pairs: Sequence[Pair],
        schedule: Schedule,
        transport: Transport = Transport.HTTP,
        mode: str = "hop",
        trust: Trust | None = None,
        keys: Keys | None = None,
    ) -> None:
        self.folder = folder
        self.trust = trust
        self.pairs = pairs
        self.schedule = schedule
        self.by_mail = transport is Transport.SMTP
        self.mode = mode
        self.keys = keys or Keys()
        self.speech = SMTP if self.by_mail else HTTP
        self.machines = [self._machine(name, port) for port, name in enumerate(names, FIRST_PORT)]

    @property
    def members(self) -> list[Machine]:
        return [member for machine in self.machines for member in machine.members]

    @property
    def log(self) -> Path:
        """What the proxy saw and did."""
        return self.folder / "proxy.log"

    def _machine(self, name: str, port: int) -> Machine:
        return Machine(
            name,
            self.folder / name,
            free_port(port),
            smtp_port=free_port(0) if self.by_mail else 0,
            mail_host_port=free_port(0) if self.by_mail else 0,
            more=self.trust.environment(name) if self.trust else {},
        )

    @asynccontextmanager
    async def running(self, console: Console) -> AsyncIterator[Proxy]:
        """Everything runs for the time of the block, and is gone after it."""
        try:
            if self.trust is not None:
                self.trust.write()
            await self._start_machines(console)
            async with self._proxy() as proxy:
                console.print("Setting up partners and agreements.")
                tokens = make_tokens(self.pairs)
                await asyncio.gather(*(self._set_up(one, proxy, tokens) for one in self.machines))
                yield proxy
        finally:
            await asyncio.gather(*(asyncio.to_thread(one.stop) for one in self.machines))

    async def _start_machines(self, console: Console) -> None:
        several = "two MSHs" if len(self.machines) == 2 else f"{len(self.machines)} MSHs"
        console.print(f"Starting {several}: database, broker, web, worker and beat each.")
        for machine in self.machines:
            machine.more |= self.keys.make(machine.name, machine.folder)
            machine.start()
        await asyncio.gather(*(machine.ready() for machine in self.machines))
        for machine in self.members:
            with psycopg.connect(machine.database_url) as connection:
                connection.execute(TABLE)

    @asynccontextmanager
    async def _proxy(self) -> AsyncIterator[Proxy]:
        tables = {
            machine.name: InboundTables(member.database_url for member in machine.members)
            for machine in self.machines
        }
        ways = [
            Way(
                _way(here, there),
                here.mail_host_port,  # 0, any, unless it is known before it listens
                there.smtp_port or there.port,
                tables[here.name],
                tables[there.name],
                here.proxy_host,
            )
            for pair in pairwise(self.machines)
            for here, there in (pair, pair[::-1])
        ]
        with self.log.open("w") as log:
            async with Proxy(ways, self.schedule, log, self.speech, self._front()) as proxy:
                yield proxy
        for table in tables.values():
            await table.aclose()

    def _front(self) -> Front | None:
        if self.trust is None:
            return None
        return Front(self.trust.front(), HEADER, self.pairs[0].path_of_address)

    async def _set_up(self, machine: Machine, proxy: Proxy, tokens: Tokens) -> None:
        ports = {
            other.name: proxy.ports[_way(machine, other)]
            for other in self.machines
            if _way(machine, other) in proxy.ports
        }
        await machine.set_up(
            setup_of(
                machine.name, self.pairs, ports, tokens, self.mode, self.trust, self.keys.terms
            )
        )


def end_on_signals() -> None:
    """End on SIGTERM as on Ctrl-C, in a script's background job too, which a shell starts with
    SIGINT ignored: nothing stays behind."""
    task = asyncio.current_task()
    assert task is not None
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)


def _way(here: Machine, there: Machine) -> str:
    """What the proxy calls the direction from one MSH to its neighbour."""
    return f"{here.name}>{there.name}"


def free_port(preferred: int) -> int:
    """Kept for the servers that this process starts, which take a port at which nobody listens.
    Another demo that begins meanwhile does not find it free."""
    for port in (preferred, 0):
        kept = socket.socket()
        try:
            kept.bind((HOST, port))
        except OSError:
            kept.close()
            continue
        kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # after: not for a second demo
        atexit.register(kept.close)
        return int(kept.getsockname()[1])
    raise DemoFailed(f"No free port on {HOST}.")
