"""A request at the proxy, and the connection on which its client waits for an answer."""

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field

from .faults import Ending
from .http11 import HOST, Request, Response, reset
from .record import Record
from .rows import InboundRows
from .speech import Speech

SILENCE_LIMIT = 60.0


@dataclass(frozen=True, slots=True)
class Way:
    """One direction. `name` as in "a>b"; `port` 0 takes any; `rows` are those of its origin,
    `target_rows` those of its target, which may acknowledge in the answer; `host` is our address
    at which its origin finds us."""

    name: str
    port: int
    target_port: int
    rows: InboundRows
    target_rows: InboundRows
    host: str = HOST

    @property
    def back(self) -> str:
        """What the other direction is called."""
        here, _, there = self.name.partition(">")
        return f"{there}>{here}"


@dataclass(slots=True)
class Conversation:
    """One request being dealt with, and the connection that waits for its answer."""

    speech: Speech
    way: Way
    request: Request
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    record: Record
    signals: list[tuple[Response, Record]] = field(default_factory=list)
    """What came in answers of the target."""

    async def answer(self, response: Response | None) -> bool:
        """Answer the client; whether its connection stays open."""
        response = response or self.speech.unreachable
        self.record.answered = response.status
        self.writer.write(self.speech.encode(response))
        with suppress(ConnectionError):
            await self.writer.drain()
        return True

    async def end(self, ending: Ending) -> bool:
        """Leave the client without an answer."""
        self.record.answered = ending
        if ending is Ending.RESET:
            reset(self.writer)
        elif ending is Ending.SILENCE:
            with suppress(TimeoutError, ConnectionError):
                await asyncio.wait_for(self.reader.read(1), SILENCE_LIMIT)
        return False
