"""The bulk endpoint of the REST API, against a bare COPY of every row that it writes."""

import gzip
import json
import statistics
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, nullcontext
from http.client import HTTPConnection
from typing import Any

import psycopg

from .msh import Msh, megabytes
from .spent import Spent
from .stage import loaded_name
from .wire import ORDER

LINES = 5_000
"""Of one request."""

# The tables it writes, with the column that says since when.
_TABLES = {"msh_outboundmessage": "id", "msh_outboundpayload": "message_id", "msh_history": "id"}


class Bulk:
    """Messages kept, by `clients` that send each `requests` requests, one after the other.

    Floor: the same rows again, by as many clients that have them in memory, into tables with the
    same indexes and as many rows before. Both commit once a request.
    """

    def __init__(
        self,
        msh: Msh,
        token: str,
        clients: int,
        requests: int,
        minimum: float = 0,
        quiet: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        self.name = f"bulk_{clients}"
        self.minimum = minimum
        self.quiet = quiet
        self._msh = msh
        self._token = token
        self._clients = clients
        self._requests = requests
        self._round = 0
        self._before = dict.fromkeys(_TABLES, 0)
        self._memory: list[float] = []
        self._spent = Spent(msh)

    def product(self) -> float:
        self._round += 1
        shares = [list(self._bodies(client)) for client in range(self._clients)]
        expected = self._clients * self._requests * LINES
        with self._msh.paused("worker", "beat"), ThreadPoolExecutor(self._clients) as clients:
            self._before = {table: self._last(table, column) for table, column in _TABLES.items()}
            self._spent.begin()
            started = time.monotonic()
            accepted = sum(clients.map(self._send, shares))
            seconds = time.monotonic() - started
            self._spent.end(expected)
            kept = [self._count(table) for table in _TABLES]
        if [accepted, *kept] != [expected] * 4:
            raise RuntimeError(f"{expected} sent, but accepted and kept are {accepted}, {kept}")
        self._memory.append(max(map(megabytes, self._msh.web_processes())))
        return expected / seconds

    def floor(self) -> float:
        with psycopg.connect(self._msh.database_url, autocommit=True) as connection:
            requests = [list(self._rows(connection, n)) for n in range(self._total)]
            self._prepare(connection)
        shares = [requests[n :: self._clients] for n in range(self._clients)]
        with (
            self._msh.paused("worker", "beat"),
            ThreadPoolExecutor(self._clients) as clients,
            ExitStack() as stack,
        ):
            connections = [
                stack.enter_context(psycopg.connect(self._msh.database_url, autocommit=True))
                for _ in shares
            ]
            started = time.monotonic()
            list(clients.map(_copy_requests, connections, shares))
            seconds = time.monotonic() - started
        return self._total * LINES / seconds

    def facts(self) -> dict[str, Any]:
        return {
            "messages": self._round * self._total * LINES,
            "web_process_mb_first": self._memory[0],
            "web_process_mb_last": self._memory[-1],
            "web_process_mb_median": statistics.median(self._memory),
            **self._spent.facts(),
        }

    @property
    def _total(self) -> int:
        """Requests of a round."""
        return self._clients * self._requests

    def _bodies(self, client: int) -> Iterator[bytes]:
        for request in range(self._requests):
            run = f"{self.name}-{self._round}-{client}-{request}"
            lines = (json.dumps(_message(f"{run}-{n}", n)) for n in range(LINES))
            yield gzip.compress("\n".join(lines).encode(), 1)

    def _send(self, bodies: list[bytes]) -> int:
        """How many lines were accepted."""
        connection = HTTPConnection("127.0.0.1", self._msh.port)
        headers = {
            "Authorization": f"Bearer {self._token}",
            "Content-Type": "application/x-ndjson",
            "Content-Encoding": "gzip",
        }
        accepted = 0
        for body in bodies:
            connection.request("POST", "/api/v1/messages/bulk", body, headers)
            accepted += connection.getresponse().read().count(b'"accepted"')
        connection.close()
        return accepted

    def _last(self, table: str, column: str) -> int:
        return int(self._msh.value(f"SELECT coalesce(max({column}), 0) FROM {table}"))

    def _count(self, table: str) -> int:
        return int(self._msh.value(f"SELECT count(*) FROM {table} WHERE {self._new(table)}"))

    def _new(self, table: str) -> str:
        return f"{_TABLES[table]} > {self._before[table]}"

    def _rows(self, connection: psycopg.Connection, request: int) -> Iterator[bytes]:
        """What one request of the last round wrote into each table, as COPY takes it."""
        for table, column in _TABLES.items():
            rows = (
                f"SELECT * FROM {table} WHERE {self._new(table)}"
                f" ORDER BY {column} LIMIT {LINES} OFFSET {request * LINES}"
            )
            statement = f"COPY ({rows}) TO STDOUT (FORMAT BINARY)"
            with connection.cursor().copy(statement.encode()) as copy:
                yield b"".join(map(bytes, copy))

    def _prepare(self, connection: psycopg.Connection) -> None:
        """The tables as they were before the round."""
        statements = ["DROP SCHEMA IF EXISTS floor CASCADE", "CREATE SCHEMA floor"]
        for table in _TABLES:
            old = f"SELECT * FROM {table} WHERE NOT {self._new(table)}"
            statements += [
                f"CREATE TABLE floor.{table} (LIKE public.{table} INCLUDING ALL)",
                f"INSERT INTO floor.{table} {old}",
            ]
        for statement in statements:
            connection.execute(statement.encode())


def _copy_requests(connection: psycopg.Connection, requests: list[list[bytes]]) -> None:
    for rows in requests:
        with connection.transaction():
            for table, data in zip(_TABLES, rows, strict=True):
                _copy_in(connection, table, data)


def _copy_in(connection: psycopg.Connection, table: str, data: bytes) -> None:
    statement = f"COPY floor.{table} FROM STDIN (FORMAT BINARY)"
    with connection.cursor().copy(statement.encode()) as copy:
        copy.write(data)


def _message(message_id: str, number: int) -> dict[str, Any]:
    return {
        "tpa_id": loaded_name(number),
        "service_interface": "QuoteToCollect",
        "action": "NewPurchaseOrder",
        "message_id": message_id,
        "payloads": [{"content": ORDER, "label": "PurchaseOrder"}],
    }
