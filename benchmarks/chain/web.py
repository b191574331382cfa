"""A web process of the bare chain: an event loop reads requests, threads store what came."""

import asyncio
import socket
import threading
import time
from collections.abc import Callable
from functools import partial
from multiprocessing.connection import Connection as Pipe
from queue import SimpleQueue

import redis
import uvloop

from benchmarks.bare_http import NO_CONTENT
from benchmarks.prototype import COMPLETE_AND_TAKE_NEXT, STORE

from .side import Database, Side

THREADS = 16
"""As many as the web processes of one MSH have."""

Act = Callable[[Database, "redis.Redis", str, int, int, bytes], None]
"""(database, Valkey, list of wake-ups, pair, number, body)."""
_Jobs = SimpleQueue[tuple["_Connection", int, int, bytes]]


def store(
    database: Database, valkey: "redis.Redis", wake_ups: str, pair: int, number: int, body: bytes
) -> None:
    """A message: store it, and name it to the worker that acknowledges."""
    row = {"pair": pair, "number": number, "body": body}
    stored = database.execute(STORE, row).fetchone()
    if stored is None:
        raise RuntimeError(f"{number} is not the next number of pair {pair}")
    valkey.rpush(wake_ups, stored[0])


def complete(
    database: Database, valkey: "redis.Redis", wake_ups: str, pair: int, _number: int, _ack: bytes
) -> None:
    """An Ack: complete the message, take the next, and name the pair to the worker that sends."""
    if database.execute(COMPLETE_AND_TAKE_NEXT, {"pair": pair}, binary=True).fetchone():
        valkey.rpush(wake_ups, pair)


def serve(side: Side, listener: socket.socket, act: Act, reports: Pipe | None) -> None:
    """Until the process is ended. When each request was done goes to `reports`."""
    uvloop.run(_serve(side, listener, act, reports))


async def _serve(side: Side, listener: socket.socket, act: Act, reports: Pipe | None) -> None:
    loop, jobs = asyncio.get_running_loop(), _Jobs()
    done = partial(_report, reports) if reports else _do_nothing
    for _ in range(min(side.pairs, THREADS)):
        arguments = (side, side.connect(), side.client(), jobs, act, loop, done)
        threading.Thread(target=_work, args=arguments, daemon=True).start()
    await loop.create_server(partial(_Connection, jobs), sock=listener)
    side.ready.wait()
    await asyncio.Event().wait()


def _report(reports: Pipe) -> None:
    reports.send(time.monotonic())


def _do_nothing() -> None:
    pass


def _work(
    side: Side,
    database: Database,
    valkey: "redis.Redis",
    jobs: _Jobs,
    act: Act,
    loop: asyncio.AbstractEventLoop,
    done: Callable[[], None],
) -> None:
    while True:
        connection, pair, number, body = jobs.get()
        act(database, valkey, side.wake_ups, pair, number, body)
        loop.call_soon_threadsafe(connection.answer, done)


class _Connection(asyncio.Protocol):
    """One request at a time: POST /PAIR/NUMBER."""

    _transport: asyncio.Transport

    def __init__(self, jobs: _Jobs) -> None:
        self._jobs = jobs
        self._came = b""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Only what the bare chain itself sends: each request has a Content-Length."""
        self._came += data
        head, ended, body = self._came.partition(b"\r\n\r\n")
        if not ended:
            return
        _, _, length = head.lower().partition(b"content-length:")
        size = int(length.partition(b"\r\n")[0])
        if len(body) < size:
            return
        _, pair, number = head.split(b" ", 2)[1].split(b"/")
        self._came = body[size:]
        self._jobs.put((self, int(pair), int(number), body[:size]))

    def answer(self, done: Callable[[], None]) -> None:
        self._transport.write(NO_CONTENT)
        done()
