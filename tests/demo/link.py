"""A receiver that remembers, a client that speaks raw HTTP, and a proxy between them."""

import asyncio
import io
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import wraps
from typing import Any

import psycopg

from demo.conversation import Way
from demo.faults import Decision, Fault
from demo.http11 import HOST, close
from demo.proxy import Proxy

LANE = ("http://a.example/ebxml/", "http://b.example/ebxml/")


def message(
    message_id: str = "m1",
    number: int = 1,
    *,
    kind: str = "Normal",
    ref: str = "",
    filler: str = "",
) -> bytes:
    """A small message on the lane a to b, or a signal that answers one and goes b to a."""
    sender, receiver = LANE if kind == "Normal" else reversed(LANE)
    sequence = f"<SequenceNumber>{number}</SequenceNumber>" if kind == "Normal" else ""
    return (
        "--x\r\nContent-Type: application/vnd.eb+xml\r\n\r\n"
        f'<ebXMLHeader xmlns="http://www.ebxml.org/namespaces/messageHeader" MessageType="{kind}">'
        f"<Header><MessageData><MessageId>{message_id}</MessageId>"
        f"<RefToMessageId>{ref}</RefToMessageId></MessageData></Header>"
        f"<RoutingHeader><SenderURI>{sender}</SenderURI><ReceiverURI>{receiver}</ReceiverURI>"
        f"{sequence}</RoutingHeader></ebXMLHeader>\r\n--x\r\n\r\n<Order><MessageId>no</MessageId>"
        f"{filler}</Order>\r\n--x--\r\n"
    ).encode()


class Receiver:
    """Takes every POST and keeps its body, and answers with `answer`, or 204 if that is empty.
    `gate`, when closed, holds all answers."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.answer = b""
        self.gate = asyncio.Event()
        self.gate.set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = (await reader.readuntil(b"\r\n\r\n")).decode()
        length = int(request.lower().split("content-length:")[1].split()[0])
        self.bodies.append(await reader.readexactly(length))
        await self.gate.wait()
        head = b"HTTP/1.1 204 No Content\r\n\r\n"
        if self.answer:
            head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(self.answer)
        writer.write(head + self.answer)
        await close(writer)


class Rows:
    """The inbound rows of an MSH, for the proxy to ask for."""

    def __init__(self, *stored: str, failures: int = 0) -> None:
        self.stored = set(stored)
        self.failures = failures
        self.asked: list[str] = []

    async def holds(self, message_id: str) -> bool:
        self.asked.append(message_id)
        if self.failures:
            self.failures -= 1
            raise psycopg.OperationalError("gone")
        return message_id in self.stored


class Script:
    """A schedule that deals out the decisions it was given, then passes."""

    def __init__(self, *decisions: Decision) -> None:
        self.decisions = list(decisions)

    def decide(self, lane: str, kind: str, ordinal: int) -> Decision:
        del lane, kind, ordinal
        return self.decisions.pop(0) if self.decisions else Decision(Fault.PASS)


class Link:
    def __init__(
        self, proxy: Proxy, receiver: Receiver, server: asyncio.Server, log: io.StringIO
    ) -> None:
        self.proxy, self.receiver, self.log = proxy, receiver, log
        self.receiver_server = server

    @property
    def lines(self) -> list[dict[str, Any]]:
        """The log as it is written."""
        return [json.loads(line) for line in self.log.getvalue().splitlines()]

    @property
    def records(self) -> list[dict[str, Any]]:
        """Of the requests that have been dealt with."""
        return [line for line in self.lines if line["ended"]]

    async def connect(self) -> "Client":
        return Client(*await asyncio.open_connection(HOST, self.proxy.ports["a>b"]))

    async def post(self, body: bytes) -> int | None:
        """The status of one POST over a connection of its own; None if it got none."""
        client = await self.connect()
        try:
            return await client.post(body)
        finally:
            await client.hang_up()


class Client:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    def send(self, body: bytes) -> None:
        head = f"POST /ebxml/ HTTP/1.1\r\nHost: b\r\nContent-Length: {len(body)}\r\n\r\n"
        self.writer.write(head.encode() + body)

    async def status(self) -> int | None:
        """None when the connection ends in order; ConnectionError when it is reset."""
        head = await self.reader.readline()
        if not head:
            return None
        while (await self.reader.readline()).strip():
            pass
        return int(head.split()[1])

    async def post(self, body: bytes) -> int | None:
        self.send(body)
        return await self.status()

    async def hang_up(self) -> None:
        await close(self.writer)


@asynccontextmanager
async def link(
    *decisions: Decision, rows: Rows | None = None, target_rows: Rows | None = None
) -> AsyncIterator[Link]:
    receiver, log = Receiver(), io.StringIO()
    async with await asyncio.start_server(receiver.serve, HOST, 0) as server:
        port = server.sockets[0].getsockname()[1]
        ways = [Way("a>b", 0, port, rows or Rows(), target_rows or Rows())]
        async with Proxy(ways, Script(*decisions), log) as proxy:
            yield Link(proxy, receiver, server, log)


async def until(condition: Callable[[], object]) -> None:
    """Wait for a condition; a test that waits 10 s for it has failed."""
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110 - what it waits for has no event
            await asyncio.sleep(0.005)


def runs(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Make a test of a coroutine function; it has failed if it takes 20 s."""

    @wraps(test)
    def bounded(*args: Any, **kwargs: Any) -> None:
        async def limited() -> None:
            async with asyncio.timeout(20):
                await test(*args, **kwargs)

        asyncio.run(limited())

    return bounded
