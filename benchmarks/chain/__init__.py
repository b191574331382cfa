"""The bare chain: the exchange of the prototype in the shape of two MSHs, a second floor for
`exchange_N`.

Each side has what an MSH has: a web process, a worker process, PostgreSQL and Valkey, and the
libraries that ours use for HTTP, the database and Valkey. A message passes the hops that it passes
between two MSHs: Valkey wakes the Sender's worker, which reads the message and POSTs it; the
Receiver's web process stores it; Valkey wakes the Receiver's worker, which reads what is to be
acknowledged and POSTs the Ack; the Sender's web process completes the message and takes the next in
the same transaction. Rows, statements and commits are those of the prototype. What is missing is
everything else: Django, Celery, XML, retries, claims, histories, indexes.
"""

import multiprocessing
import os
import socket
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import Any, NamedTuple
from uuid import uuid4

import psycopg

from benchmarks import prototype, wire
from benchmarks.figure import wait_until
from msh.processes import die_with_parent

from .side import Side
from .submitter import submit_all
from .web import complete, serve, store
from .worker import transmit_acks, transmit_messages

_WITHIN = 120.0  # seconds
_LOOPBACK = ("127.0.0.1", 0)

# What arrived, whole and in its order: one row for each number of a pair.
_SENT = """
SELECT count(*), coalesce(md5(string_agg(md5(body), '' ORDER BY pair, number)), '')
FROM outbound WHERE state = 'acknowledged'
"""
_STORED = """
SELECT count(*), coalesce(md5(string_agg(md5(body), '' ORDER BY pair, number)), '')
FROM inbound WHERE ack_transmitted
"""


class _Exchanged(NamedTuple):
    """How many messages, and a digest of their bytes in the order of their numbers."""

    messages: int
    digest: str


class Servers(NamedTuple):
    """Addresses of an empty database and of a Valkey."""

    database: str
    valkey: str


def run(sender: Servers, receiver: Servers, *, pairs: int, messages: int, body: bytes) -> float:
    """Acknowledged messages per second, from the first submit to the last Ack.

    `messages` is the number of each pair; each has bytes of its own. RuntimeError if not each of
    them arrived once, in its order.
    """
    prototype.create(sender.database, prototype.SENDER_SCHEMA, "lane", pairs)
    prototype.create(receiver.database, prototype.RECEIVER_SCHEMA, "link", pairs)
    total = pairs * messages
    with _processes(sender, receiver, pairs) as running:
        started = time.monotonic()
        running.submitter.send((messages, body))
        ended = running.wait_for(total)
        wait_until(
            lambda: _exchanged(receiver.database, _STORED).messages >= total,
            "noted as acknowledged",
            lambda: _exchanged(receiver.database, _STORED),
        )
    check(sender, receiver, total)
    return total / (ended - started)


def check(sender: Servers, receiver: Servers, total: int) -> None:
    """RuntimeError if not all of them arrived, each once."""
    sent, stored = _exchanged(sender.database, _SENT), _exchanged(receiver.database, _STORED)
    if sent != stored or sent.messages != total:
        raise RuntimeError(f"{total} exchanged, but acknowledged and stored are {sent}, {stored}")


def _exchanged(url: str, query: str) -> _Exchanged:
    with psycopg.connect(url) as connection:
        count, digest = connection.execute(query.encode()).fetchone() or (0, "")
    return _Exchanged(int(count), str(digest))


class _Running(NamedTuple):
    """What each pair has to submit is sent to `submitter`; from `acknowledged` comes when each
    message was. The processes do not end by themselves."""

    submitter: Connection
    acknowledged: Connection
    processes: list[SpawnProcess]

    def wait_for(self, total: int) -> float:
        """When the last of them was acknowledged."""
        sentinels = [process.sentinel for process in self.processes]
        sources: list[Connection | int] = [self.acknowledged, *sentinels]
        count, at = 0, 0.0
        while count < total:
            if self.acknowledged not in wait(sources, _WITHIN):
                raise RuntimeError(f"{count} of {total} acknowledged: a process failed, see above")
            at = self.acknowledged.recv()
            count += 1
        return at


@contextmanager
def _processes(sender: Servers, receiver: Servers, pairs: int) -> Iterator[_Running]:
    """A web and a worker process of each side, and the application that submits."""
    spawn = multiprocessing.get_context("spawn")
    ready = spawn.Barrier(6)
    ours, told = spawn.Pipe()
    acknowledged, reports = spawn.Pipe(duplex=False)
    with socket.create_server(_LOOPBACK) as at_sender, socket.create_server(_LOOPBACK) as there:
        to_sender, to_receiver = _url(at_sender), _url(there)
        here, other = (Side(*one, f"chain:{uuid4()}", pairs, ready) for one in (sender, receiver))
        ack = wire.acknowledgement(
            str(uuid4()), tpa_id="load-00", sender_uri=to_receiver, receiver_uri=to_sender
        )
        processes = [
            spawn.Process(target=_run, args=(os.getpid(), *call), daemon=True)
            for call in (
                (serve, here, at_sender, complete, reports),
                (serve, other, there, store, None),
                (transmit_messages, here, to_receiver),
                (transmit_acks, other, to_sender, ack),
                (submit_all, here, told),
            )
        ]
        try:
            for process in processes:
                process.start()
            ready.wait(_WITHIN)
            yield _Running(ours, acknowledged, processes)
        finally:
            for process in processes:
                if process.pid:
                    process.terminate()
                    process.join()


def _run(parent: int, target: Callable[..., None], *arguments: Any) -> None:
    die_with_parent(parent)
    threading.excepthook = _fail
    target(*arguments)


def _fail(failed: threading.ExceptHookArgs) -> None:
    """A thread that fails ends its process, which ends the run."""
    traceback.print_exception(failed.exc_value)
    os._exit(1)


def _url(listener: socket.socket) -> str:
    return f"http://127.0.0.1:{listener.getsockname()[1]}"
