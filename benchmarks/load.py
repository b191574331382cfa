"""The partners of the receive benchmark: a process that POSTs, and one that takes the Acks."""

import multiprocessing
import selectors
import socket
import ssl
import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import cycle
from multiprocessing.connection import Connection
from multiprocessing.sharedctypes import Synchronized
from pathlib import Path

from .bare_http import NO_CONTENT, Stream, split
from .wire import ACKNOWLEDGEMENTS, Pair

_SPAWN = multiprocessing.get_context("spawn")


@dataclass(frozen=True, slots=True)
class Load:
    """What one round of POSTs came to. Latencies in milliseconds."""

    accepted: int
    seconds: float
    latency_median: float
    latency_p99: float
    pairs: list[Pair]

    @property
    def rate(self) -> float:
        return self.accepted / self.seconds


def post_for(
    seconds: float, port: int, shares: list[list[Pair]], authority: Path | None = None
) -> Load:
    """POSTs for `seconds`, one keep-alive connection and one request in flight per share. Over TLS
    to a server whose certificate `authority` has signed, if that is given.

    A pair is in one share only, so its numbers arrive in order. Any answer but 204 raises
    RuntimeError with its head.
    """
    result, results = _SPAWN.Pipe(duplex=False)
    process = _SPAWN.Process(
        target=_post, args=(results, seconds, port, shares, authority), daemon=True
    )
    process.start()
    results.close()
    try:
        load: Load | RuntimeError = result.recv()
    except EOFError:
        raise RuntimeError("the load generator died") from None
    process.join()
    if isinstance(load, RuntimeError):
        raise load
    return load


@dataclass(slots=True)
class _Poster:
    """One keep-alive connection: always one request in flight."""

    stream: Stream
    pairs: Iterator[Pair]
    sent_at: float = 0.0

    def send(self) -> None:
        request = next(self.pairs).next_request()
        self.sent_at = time.monotonic()
        self.stream.send(request)

    def receive(self) -> float:
        """The latency of the answer, in seconds."""
        message = self.stream.receive()
        if message is None or not message[0].startswith(b"HTTP/1.1 204"):
            raise RuntimeError(f"not accepted: {message[0] if message else 'closed'!r}")
        return time.monotonic() - self.sent_at


def _post(
    results: Connection,
    seconds: float,
    port: int,
    shares: list[list[Pair]],
    authority: Path | None,
) -> None:
    tls = ssl.create_default_context(cafile=authority) if authority else None
    try:
        results.send(_post_in_turn(seconds, port, shares, tls))
    except RuntimeError as error:
        results.send(error)


def _post_in_turn(
    seconds: float, port: int, shares: list[list[Pair]], tls: ssl.SSLContext | None
) -> Load:
    ready = selectors.DefaultSelector()
    for pairs in shares:
        connection = socket.create_connection(("127.0.0.1", port))
        if tls:
            connection = tls.wrap_socket(connection, server_hostname="127.0.0.1")
        stream = Stream(connection)
        ready.register(stream.socket, selectors.EVENT_READ, _Poster(stream, cycle(pairs)))
    started = time.monotonic()
    for key in list(ready.get_map().values()):
        key.data.send()
    latencies = []
    while ready.get_map():
        for key, _ in ready.select():
            poster: _Poster = key.data
            latencies.append(poster.receive())
            if time.monotonic() - started < seconds:
                poster.send()
            else:
                ready.unregister(poster.stream.socket)
                poster.stream.close()
    elapsed = time.monotonic() - started
    return Load(
        accepted=len(latencies),
        seconds=elapsed,
        latency_median=1000 * statistics.median(latencies),
        latency_p99=1000 * statistics.quantiles(latencies, n=100)[98],
        pairs=[pair for pairs in shares for pair in pairs],
    )


class AckSink:
    """Every partner's own endpoint: answers 204 and counts Acks, and what was no Ack."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self._acks: Synchronized[int] = _SPAWN.Value("q", 0)
        self._others: Synchronized[int] = _SPAWN.Value("q", 0)
        self._process = _SPAWN.Process(
            target=_take_signals, args=(self._listener, self._acks, self._others), daemon=True
        )
        self._process.start()

    @property
    def port(self) -> int:
        port: int = self._listener.getsockname()[1]
        return port

    @property
    def acks(self) -> int:
        return self._acks.value

    @property
    def others(self) -> int:
        return self._others.value

    def close(self) -> None:
        self._process.terminate()
        self._process.join()
        self._listener.close()


def _take_signals(
    listener: socket.socket, acks: "Synchronized[int]", others: "Synchronized[int]"
) -> None:
    ready = selectors.DefaultSelector()
    ready.register(listener, selectors.EVENT_READ)
    while True:
        for key, _ in ready.select():
            if key.fileobj is listener:
                stream = Stream(listener.accept()[0])
                ready.register(stream.socket, selectors.EVENT_READ, stream)
            elif not _take_signal(key.data, acks, others):
                ready.unregister(key.data.socket)
                key.data.close()


def _take_signal(stream: Stream, acks: "Synchronized[int]", others: "Synchronized[int]") -> bool:
    """Whether the connection stays open. Never waits for a request's rest."""
    try:
        received = stream.socket.recv(65_536)
    except ConnectionError:
        return False
    stream.buffer += received
    while message := split(stream.buffer):
        is_ack = any(mark in message[1] for mark in ACKNOWLEDGEMENTS)
        counter = acks if is_ack else others
        counter.value += 1
        stream.send(NO_CONTENT)
    return bool(received)
