"""How a worker's loop hears of wake-ups."""

import time
from contextlib import suppress
from typing import Any, Self

import redis
from django.conf import settings

from msh.connections import redis_client
from msh.flows.hints import EVERYTHING, NOTHING, Hints
from msh.flows.wake_up import EXPIRE, REST, TRY_FOR, WakeUp, shared_client, tokens_of
from msh.health import SIGN_OF_WORKER

MOST = 1_000
"""Tokens that are taken at once."""


class WakeUpListener:
    """Takes the wake-ups of one kind. For one thread, which does not wait for them: BLPOP is asked
    for ahead, its answer is read when it has come. Without Redis the loop polls, and Redis is tried
    again every REST seconds. It says to Redis that the worker is alive."""

    LISTEN_FOR = 1.0  # seconds of one listening
    SILENT_FOR = 3.0  # seconds without an answer after which the connection is given up

    def __init__(self, kind: WakeUp) -> None:
        self._tokens = tokens_of(kind)
        self._client = redis_client(
            settings.REDIS_URL, socket_timeout=TRY_FOR, socket_connect_timeout=TRY_FOR
        )
        self._connection: Any = None  # a Connection of redis-py, which has no types
        self._unanswered = 0
        self._asked_at = 0.0
        self._said_at = 0.0
        self._given_back = NOTHING
        self._rests_until = 0.0

    def __enter__(self) -> Self:
        self.take()
        return self

    def __exit__(self, *_: object) -> None:
        """Leave to other workers what was given back, and what came in the last moment. Without a
        connection of its own: at the end of a worker the name server may not answer."""
        with suppress(redis.RedisError, OSError), self._client:
            if self._connection:
                hints = self._read() | self._given_back
                self._disconnect()
                if hints:
                    with shared_client().pipeline() as pipe:
                        pipe.rpush(self._tokens, hints.token())
                        pipe.expire(self._tokens, EXPIRE)
                        pipe.execute()
        self._disconnect()

    def give_back(self, hints: Hints) -> None:
        """Put these hints back for another worker, or for the next one."""
        self._given_back |= hints

    def fileno(self) -> int:
        """Return the file descriptor of the connection on which wake-ups come; -1 without Redis."""
        return self._connection._sock.fileno() if self._connection else -1  # noqa: SLF001

    def take(self) -> Hints:
        """Return the hints of the next wake-up, if one has come."""
        try:
            hints = self._read()
            if self._connection is None and time.monotonic() >= self._rests_until:
                self._connection = self._client.connection_pool.get_connection()
            if self._connection:
                self._ask()
        except (redis.RedisError, OSError):
            return self._give_up()
        return hints

    def _read(self) -> Hints:
        hints = NOTHING
        while self._connection and self._unanswered and self._connection.can_read(timeout=0):
            answer = self._connection.read_response()
            self._unanswered -= 1
            if isinstance(answer, list):
                hints |= Hints.of_token(answer[1])
        return hints

    def take_rest(self) -> Hints:
        """Return the hints of all other waiting wake-ups. Waits for Redis at most TRY_FOR
        seconds."""
        if self._connection is None:
            return NOTHING
        try:
            tokens: Any = shared_client().lpop(self._tokens, MOST)
        except (redis.RedisError, OSError):
            return self._give_up()
        hints = NOTHING
        for token in tokens or []:
            hints |= Hints.of_token(token)
        return hints

    def _give_up(self) -> Hints:
        """For REST seconds; what was lost may be anything."""
        self._disconnect()
        self._rests_until = time.monotonic() + REST
        return EVERYTHING

    def _ask(self) -> None:
        """The token is taken before the poll that it asks for."""
        now = time.monotonic()
        if self._unanswered:
            if now - self._asked_at > self.SILENT_FOR:
                raise redis.TimeoutError("Redis does not answer")
            return
        commands: list[tuple[Any, ...]] = [("BLPOP", self._tokens, self.LISTEN_FOR)]
        if now - self._said_at > self.LISTEN_FOR:
            commands.insert(0, SIGN_OF_WORKER)
            self._said_at = now
        self._connection.send_packed_command(self._connection.pack_commands(commands))
        self._unanswered, self._asked_at = len(commands), now

    def _disconnect(self) -> None:
        if self._connection:
            self._connection.disconnect()
        self._connection, self._unanswered = None, 0
