"""A worker process of the bare chain: woken by Valkey, it reads what is to be sent and POSTs it.

As in ours, one thread has the database and Valkey, another has the event loop that POSTs.
"""

import asyncio
import threading
from collections.abc import Callable, Iterable
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple

import aiohttp
import redis
import uvloop

from .side import Database, Side
from .submitter import START

_IDLE = 0.02  # seconds until pairs whose wake-up was lost are looked for
_MOST = 100  # wake-ups at once

# As COMPLETE_AND_TAKE_NEXT, of pairs that have nothing in flight.
_START = """
WITH idle AS (
    SELECT pair FROM lane WHERE pair = ANY(%(pairs)s) AND in_flight IS NULL
), next AS (
    SELECT idle.pair, first.id FROM idle CROSS JOIN LATERAL (
        SELECT id FROM outbound WHERE pair = idle.pair AND state = 'queued' ORDER BY id LIMIT 1
    ) first
), advanced AS (
    UPDATE lane SET in_flight = next.id, number = number + 1
    FROM next WHERE lane.pair = next.pair AND lane.in_flight IS NULL
    RETURNING next.id, lane.pair, lane.number
), flown AS (
    UPDATE outbound SET state = 'in flight', number = advanced.number
    FROM advanced WHERE outbound.id = advanced.id
)
SELECT pair FROM advanced
"""
_LOAD_MESSAGES = """
SELECT lane.pair, lane.number, outbound.body
FROM lane JOIN outbound ON outbound.id = lane.in_flight WHERE lane.pair = ANY(%(pairs)s)
"""
_LOAD_ACKS = "SELECT id, pair, number FROM inbound WHERE id = ANY(%(ids)s)"
_NOTE_TRANSMITTED = "UPDATE inbound SET ack_transmitted = true WHERE id = ANY(%(ids)s)"


class _Post(NamedTuple):
    """`key` is what is noted as transmitted."""

    key: int
    path: str
    body: bytes


def transmit_messages(side: Side, url: str) -> None:
    with side.connect() as database, side.client() as valkey:
        poster = _Poster(url, _forget)
        side.ready.wait()
        while True:
            named = _named(valkey, side.wake_ups)
            pairs = [int(token) for token in named if token[:1] != START]
            idle = [int(token[1:]) for token in named if token[:1] == START]
            if idle or not named:
                asked = idle or list(range(side.pairs))
                pairs += [pair for (pair,) in database.execute(_START, {"pairs": asked})]
            if pairs:
                poster.submit(_messages(database, pairs))


def transmit_acks(side: Side, url: str, ack: bytes) -> None:
    ended: SimpleQueue[int] = SimpleQueue()
    threading.Thread(target=_note_ended, args=(side.connect(), ended), daemon=True).start()
    with side.connect() as database, side.client() as valkey:
        poster = _Poster(url, ended.put)
        side.ready.wait()
        while True:
            if named := _named(valkey, side.wake_ups):
                poster.submit(_acks(database, [int(token) for token in named], ack))


def _named(valkey: "redis.Redis", wake_ups: str) -> list[bytes]:
    answer: Any = valkey.blmpop(_IDLE, 1, wake_ups, direction="LEFT", count=_MOST)
    return answer[1] if answer else []


def _messages(database: Database, pairs: list[int]) -> list[_Post]:
    rows = database.execute(_LOAD_MESSAGES, {"pairs": pairs}, binary=True)
    return [_Post(pair, f"/{pair}/{number}", body) for pair, number, body in rows]


def _acks(database: Database, ids: list[int], ack: bytes) -> list[_Post]:
    rows = database.execute(_LOAD_ACKS, {"ids": ids}, binary=True)
    return [_Post(key, f"/{pair}/{number}", ack) for key, pair, number in rows]


def _forget(_key: int) -> None:
    """The Ack completes a message, its answer does not."""


def _note_ended(database: Database, ended: "SimpleQueue[int]") -> None:
    while True:
        keys = [ended.get()]
        try:
            while True:
                keys.append(ended.get_nowait())
        except Empty:
            database.execute(_NOTE_TRANSMITTED, {"ids": keys})


class _Poster:
    """A thread with an event loop. `ended` gets the key of each POST that was answered."""

    def __init__(self, url: str, ended: Callable[[int], None]) -> None:
        self._url = url
        self._ended = ended
        self._loop = uvloop.new_event_loop()
        self._session: aiohttp.ClientSession | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()

    def submit(self, posts: Iterable[_Post]) -> None:
        self._loop.call_soon_threadsafe(self._start, posts)

    def _start(self, posts: Iterable[_Post]) -> None:
        for post in posts:
            task = self._loop.create_task(self._post(post))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _post(self, post: _Post) -> None:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0), cookie_jar=aiohttp.DummyCookieJar()
            )
        async with self._session.post(self._url + post.path, data=post.body) as response:
            if response.status != 204:
                raise RuntimeError(f"{post.path} was answered with {response.status}")
        self._ended(post.key)
