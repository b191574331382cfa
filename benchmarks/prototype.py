"""The exchange stripped to what the protocol cannot do without: the floor for `exchange_N`.

Two processes with a database each. The Sender stores a message; takes the next of a pair
into flight; POSTs it; the Receiver checks its number, stores it and answers 204; POSTs the
Ack on a connection of its own; the Sender completes the message and takes the next in the
same transaction; the Receiver notes that its Ack was transmitted. Two durable commits on each
side, two POSTs, one message in flight per pair. No Django, no XML, no retries.
"""

import multiprocessing
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from multiprocessing.connection import Connection
from typing import Any

import psycopg

from .bare_http import NO_CONTENT, Stream, post

SENDER_SCHEMA = """
DROP TABLE IF EXISTS outbound, lane;
CREATE TABLE outbound (
    id bigserial PRIMARY KEY, pair int NOT NULL, number int, state text NOT NULL DEFAULT 'queued',
    body bytea NOT NULL);
CREATE INDEX ON outbound (pair, id) WHERE state = 'queued';
CREATE TABLE lane (pair int PRIMARY KEY, in_flight bigint, number int NOT NULL DEFAULT 0);
"""
RECEIVER_SCHEMA = """
DROP TABLE IF EXISTS inbound, link;
CREATE TABLE inbound (
    id bigserial PRIMARY KEY, pair int NOT NULL, number int NOT NULL, body bytea NOT NULL,
    ack_transmitted boolean NOT NULL DEFAULT false, UNIQUE (pair, number));
CREATE TABLE link (pair int PRIMARY KEY, last int NOT NULL DEFAULT 0);
"""
SUBMIT = "INSERT INTO outbound (pair, body) VALUES (%s, %s)"
COMPLETE_AND_TAKE_NEXT = """
WITH done AS (
    UPDATE outbound SET state = 'acknowledged'
    FROM lane WHERE lane.pair = %(pair)s AND outbound.id = lane.in_flight
), next AS (
    SELECT id, body FROM outbound WHERE pair = %(pair)s AND state = 'queued' ORDER BY id LIMIT 1
), advanced AS (
    UPDATE lane SET in_flight = (SELECT id FROM next),
                    number = number + (SELECT count(*) FROM next)
    WHERE pair = %(pair)s RETURNING number
), flown AS (
    UPDATE outbound SET state = 'in flight', number = advanced.number
    FROM next, advanced WHERE outbound.id = next.id
)
SELECT advanced.number, next.body FROM next, advanced
"""
STORE = """
WITH accepted AS (
    UPDATE link SET last = %(number)s WHERE pair = %(pair)s AND last = %(number)s - 1 RETURNING pair
)
INSERT INTO inbound (pair, number, body) SELECT pair, %(number)s, %(body)b FROM accepted
RETURNING id
"""
NOTE_ACK_TRANSMITTED = "UPDATE inbound SET ack_transmitted = true WHERE id = %s"
ACKNOWLEDGED = "SELECT count(*) FROM outbound WHERE state = 'acknowledged'"
ACK_TRANSMITTED = "SELECT count(*) FROM inbound WHERE ack_transmitted"
Database = psycopg.Connection[Any]
LOOPBACK = ("127.0.0.1", 0)
MOST_CONNECTIONS = 64
"""To a database: with more pairs, they share. The server has 200 for all."""
IDLE_LOOK = 0.002  # seconds until an empty queue is looked at again


def run(sender_url: str, receiver_url: str, *, pairs: int, messages: int, body: bytes) -> float:
    """Acknowledged messages per second, from the first submit to the last Ack.

    `messages` is the number of each pair. RuntimeError if the rows do not add up.
    """
    create(sender_url, SENDER_SCHEMA, "lane", pairs)
    create(receiver_url, RECEIVER_SCHEMA, "link", pairs)
    started, ended = _exchange(sender_url, receiver_url, pairs, messages, body)
    rows = (_count(sender_url, ACKNOWLEDGED), _count(receiver_url, ACK_TRANSMITTED))
    total = pairs * messages
    if rows != (total, total):
        raise RuntimeError(f"{total} exchanged, but acknowledged and stored are {rows}")
    return total / (ended - started)


def _exchange(
    sender_url: str, receiver_url: str, pairs: int, messages: int, body: bytes
) -> tuple[float, float]:
    spawn = multiprocessing.get_context("spawn")
    control, reports = spawn.Pipe()
    with socket.create_server(LOOPBACK) as receiving, socket.create_server(LOOPBACK) as sending:
        ends = (receiving, sending, pairs)
        receiver = spawn.Process(target=_receiver, args=(receiver_url, *ends), daemon=True)
        sender = spawn.Process(
            target=_sender, args=(sender_url, *ends, messages, reports), daemon=True
        )
        receiver.start()
        sender.start()
        reports.close()  # so that a sender that dies ends the wait
        control.recv()  # every lane is open
        started = time.monotonic()
        _submit(sender_url, pairs, messages, body)
        ended = control.recv()
        sender.join()
        receiver.join()
    return started, ended


def create(url: str, schema: str, counters: str, pairs: int) -> None:
    with psycopg.connect(url) as connection:
        connection.execute(schema)
        connection.execute(
            f"INSERT INTO {counters} (pair) SELECT generate_series(0, %s)",
            (pairs - 1,),
        )


def _count(url: str, query: str) -> int:
    with psycopg.connect(url) as connection:
        (count,) = connection.execute(query.encode()).fetchone() or (0,)
    return int(count)


def _submit(url: str, pairs: int, messages: int, body: bytes) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        for _ in range(messages):
            for pair in range(pairs):
                connection.execute(SUBMIT, (pair, body))


def _sender(
    url: str,
    receiving: socket.socket,
    sending: socket.socket,
    pairs: int,
    messages: int,
    reports: Connection,
) -> None:
    lanes = []
    with _connections(url, pairs) as connections:
        for pair in range(pairs):
            outgoing = Stream(socket.create_connection(receiving.getsockname()))
            incoming = Stream(sending.accept()[0])
            database = connections[pair % len(connections)]
            lanes.append(partial(_transmit, database, pair, messages, outgoing, incoming))
        reports.send("ready")
        _run_all(lanes)
        reports.send(time.monotonic())


def _receiver(url: str, receiving: socket.socket, sending: socket.socket, pairs: int) -> None:
    links = []
    with _connections(url, pairs) as connections:
        for pair in range(pairs):
            incoming = Stream(receiving.accept()[0])
            outgoing = Stream(socket.create_connection(sending.getsockname()))
            database = connections[pair % len(connections)]
            links.append(partial(_take, database, pair, incoming, outgoing))
        _run_all(links)


def _run_all(calls: Sequence[Callable[[], None]]) -> None:
    """Each in a thread of its own; raises what one of them raised."""
    with ThreadPoolExecutor(len(calls)) as pool:
        for done in [pool.submit(call) for call in calls]:
            done.result()


def _transmit(
    connection: Database, pair: int, messages: int, outgoing: Stream, incoming: Stream
) -> None:
    """The Sender's lane: transmits the messages of one pair, one after the other."""
    with closing(outgoing):
        taken = None
        for _ in range(messages):
            while taken is None:
                time.sleep(IDLE_LOOK)
                taken = _complete_and_take_next(connection, pair)
            number, body = taken
            outgoing.ask(post(f"/{number}", body))
            incoming.receive()  # the Ack
            taken = _complete_and_take_next(connection, pair)
            incoming.send(NO_CONTENT)


def _complete_and_take_next(connection: Database, pair: int) -> tuple[int, bytes] | None:
    cursor = connection.execute(COMPLETE_AND_TAKE_NEXT, {"pair": pair}, binary=True)
    return cursor.fetchone()


def _take(connection: Database, pair: int, incoming: Stream, outgoing: Stream) -> None:
    """The Receiver's link: takes the messages of one pair until the Sender closes."""
    with closing(incoming), closing(outgoing):
        while message := incoming.receive():
            head, body = message
            number = int(head.split(b" ", 2)[1][1:])
            row = {"pair": pair, "number": number, "body": body}
            stored = connection.execute(STORE, row).fetchone()
            if stored is None:
                raise RuntimeError(f"{number} is not the next number of pair {pair}")
            incoming.send(NO_CONTENT)
            outgoing.ask(post("/", b"Acknowledgement"))
            connection.execute(NOTE_ACK_TRANSMITTED, stored)


@contextmanager
def _connections(url: str, pairs: int) -> Iterator[list[Database]]:
    """One for each pair, as far as there are enough. Several threads may use one in turn."""
    with ExitStack() as stack:
        yield [
            stack.enter_context(psycopg.connect(url, autocommit=True, prepare_threshold=0))
            for _ in range(min(pairs, MOST_CONNECTIONS))
        ]
