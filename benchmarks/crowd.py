"""A thousand partners of one MSH, all played by one process that answers in next to no time."""

import multiprocessing
import re
import selectors
import socket
from collections import deque
from contextlib import AbstractContextManager, ExitStack
from multiprocessing.sharedctypes import Synchronized
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import psycopg

from . import wire
from .bare_http import NO_CONTENT, Stream, post, split
from .msh import Msh, free_port
from .producer import Producer
from .report import tell
from .rows import clone

_SPAWN = multiprocessing.get_context("spawn")
_TERMS = {"timeout": 3600, "retries": 3, "retry_interval": 3600}
"""Nothing is sent again by itself, also if the MSH stands still for a while."""
_POSTS = 16
"""Acknowledgements under way at once."""
_MESSAGE_ID = re.compile(rb"<MessageId>([^<]+)</MessageId>")
_NUMBER = re.compile(rb"<TPAId>crowd-(\d+)</TPAId>")


class Crowd:
    """One MSH and its partners, for the time of a `with`."""

    def __init__(self, folder: Path, partners: int) -> None:
        self.msh = Msh(folder)
        self.partners = partners
        self._port = free_port()
        self._acknowledges: Synchronized[bool] = _SPAWN.Value("b", True)
        self._copies: Synchronized[int] = _SPAWN.Value("q", 0)
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            stack.callback(self.msh.stop)
            tell(f"starting the MSH {self.msh.folder.name} with {self.partners:,} partners")
            self.msh.start()
            self.msh.set_up([self._partner(number) for number in range(self.partners)])
            process = _SPAWN.Process(
                target=_play,
                args=(self._port, self.msh.port, self.msh.uri, self._acknowledges, self._copies),
                daemon=True,
            )
            process.start()
            stack.callback(process.join)
            stack.callback(process.terminate)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stack.close()

    @property
    def copies(self) -> int:
        """Of messages, that came to the partners so far."""
        return self._copies.value

    def acknowledge(self, does: bool) -> None:
        """Whether the partners answer each copy with an Acknowledgement from now on."""
        self._acknowledges.value = does

    def still(self) -> AbstractContextManager[None]:
        """Nothing is sent. To begin when there is nothing to send: a worker that is stopped within
        a transaction keeps its locks."""
        return self.msh.paused("worker", "beat")

    def queue(self, messages: int) -> None:
        """So many more for each partner, by copies of one that is submitted, while it is still."""
        with Producer(self.msh, pairs=1, messages=1) as producer:
            producer.submit()
        with psycopg.connect(self.msh.database_url, autocommit=True) as connection:
            connection.execute("SET session_replication_role = replica")
            _copy_last_message(connection, messages)

    def suspend(self, every: int) -> None:
        """Each so-manieth of the links."""
        self.msh.execute(
            f"""
            UPDATE msh_outboundlink
            SET state = 'suspended', suspended_since = now(), suspended_for = 'operator'
            WHERE id % {every} = 0 AND state = 'idle'
            """
        )

    def _partner(self, number: int) -> dict[str, Any]:
        name = f"crowd-{number:04d}"
        uri = _uri(self._port, number)
        return {
            "name": name,
            "uri": uri,
            "address": uri,
            "token_in": _token(number),
            "agreements": [{"tpa_id": name, "our_party": "1", "their_party": "2", **_TERMS}],
        }


def _copy_last_message(connection: "psycopg.Connection[Any]", messages: int) -> None:
    """The last one, `messages` times for each link; a payload and a row of history for each."""
    new = "base.id + (n - 1) * base.links + link.place"
    rows = f"""
        FROM (SELECT max(id) AS id,
                     (SELECT count(*) FROM msh_outboundlink) AS links FROM msh_outboundmessage) base
        JOIN {{table}} "row" ON "row".{{key}}
        CROSS JOIN generate_series(1, {messages}) n
        CROSS JOIN (SELECT link.id, partner_id, row_number() OVER (ORDER BY id) AS place
                    FROM msh_outboundlink link) link
        JOIN partners_agreement agreement ON agreement.partner_id = link.partner_id ORDER BY n
    """
    message_id = f"'crowd-' || ({new})"
    of_message = "message_id = (SELECT message_id FROM msh_outboundmessage WHERE id = base.id)"
    children: dict[str, tuple[str, dict[str, str]]] = {
        "msh_outboundpayload": ("message_id = base.id", {"message_id": new}),
        "msh_history": (of_message, {"message_id": message_id, "partner_id": "link.partner_id"}),
    }
    values = {
        "id": new,
        "message_id": message_id,
        "conversation_id": message_id,
        "link_id": "link.id",
        "agreement_id": "agreement.id",
    }
    # What belongs to it comes first: then it is still the last one.
    for table, (key, changed) in children.items():
        clone(connection, table, rows.format(table=table, key=key), changed)
    made = clone(
        connection,
        "msh_outboundmessage",
        rows.format(table="msh_outboundmessage", key="id = base.id"),
        values,
    )
    for table in ("msh_outboundmessage", *children):
        connection.execute(
            f"SELECT setval(pg_get_serial_sequence('{table}', 'id'), max(id)) FROM {table}".encode()
        )
        connection.execute(f"VACUUM (ANALYZE) {table}".encode())
    connection.execute("CHECKPOINT")  # or its writing is waited for by each commit that is measured
    tell(f"{made:,} messages queued")


def _uri(port: int, number: int) -> str:
    return f"http://127.0.0.1:{port}/crowd-{number:04d}/"


def _token(number: int) -> str:
    return f"benchmark-crowd-{number:04d}-token-of-a-usual-length"


class _Partners:
    """Takes copies, answers 204, and POSTs Acknowledgements on connections of its own."""

    def __init__(self, port: int, msh_port: int, msh_uri: str) -> None:
        self._port = port
        self._msh_port = msh_port
        self._msh_uri = msh_uri
        self._pending: deque[tuple[int, str]] = deque()
        self._free: list[Stream] = []
        self._posts: dict[Stream, tuple[int, str] | None] = {}
        """Connections, with what is under way on each."""
        self.ready = selectors.DefaultSelector()

    def take(self, stream: Stream, copies: "Synchronized[int]", acknowledges: bool) -> None:
        if not _read(stream):
            self.ready.unregister(stream.socket)
            stream.close()
            return
        while message := split(stream.buffer):
            stream.send(NO_CONTENT)
            number, message_id = _NUMBER.search(message[1]), _MESSAGE_ID.search(message[1])
            if number and message_id:
                copies.value += 1
                if acknowledges:
                    self._pending.append((int(number[1]), message_id[1].decode()))
        self._post()

    def end(self, stream: Stream) -> None:
        """The MSH has answered an Acknowledgement, or has closed."""
        if not _read(stream):
            self.ready.unregister(stream.socket)
            stream.close()
            self._free = [one for one in self._free if one is not stream]
            self._queue_again(self._posts.pop(stream))
        elif answer := split(stream.buffer):
            if answer[0].startswith(b"HTTP/1.1 503"):
                self._queue_again(self._posts[stream])
            elif not answer[0].startswith(b"HTTP/1.1 204"):
                raise RuntimeError(f"an Acknowledgement was not taken: {answer[0]!r}")
            self._posts[stream] = None
            self._free.append(stream)
        self._post()

    def _post(self) -> None:
        while self._pending and (self._free or len(self._posts) < _POSTS):
            stream = self._free.pop() if self._free else self._connect()
            number, ref = self._posts[stream] = self._pending.popleft()
            body = wire.acknowledgement(
                ref,
                tpa_id=f"crowd-{number:04d}",
                sender_uri=_uri(self._port, number),
                receiver_uri=self._msh_uri,
            )
            authorization = f"Authorization: Bearer {_token(number)}"
            stream.send(post("/ebxml/", body, wire.HEADERS, authorization))

    def _queue_again(self, refused: tuple[int, str] | None) -> None:
        if refused:
            self._pending.append(refused)

    def _connect(self) -> Stream:
        stream = Stream(socket.create_connection(("127.0.0.1", self._msh_port)))
        self._posts[stream] = None
        self.ready.register(stream.socket, selectors.EVENT_READ, (self.end, stream))
        return stream


def _read(stream: Stream) -> bool:
    """Whether the connection stays open."""
    try:
        received = stream.socket.recv(65_536)
    except ConnectionError:
        return False
    stream.buffer += received
    return bool(received)


def _play(
    port: int,
    msh_port: int,
    msh_uri: str,
    acknowledges: "Synchronized[bool]",
    copies: "Synchronized[int]",
) -> None:
    partners = _Partners(port, msh_port, msh_uri)
    listener = socket.create_server(("127.0.0.1", port), backlog=1024)
    partners.ready.register(listener, selectors.EVENT_READ)

    def take(stream: Stream) -> None:
        partners.take(stream, copies, bool(acknowledges.value))

    while True:
        for key, _ in partners.ready.select():
            if key.data is None:
                stream = Stream(listener.accept()[0])
                partners.ready.register(stream.socket, selectors.EVENT_READ, (take, stream))
            else:
                act, stream = key.data
                act(stream)
