"""A connection to Redis on which one script runs. What one thread has written, another may read."""

import hashlib
from collections.abc import Callable, Sequence
from typing import Any

import redis

Word = str | bytes | int


class ScriptChannel:
    """The client of redis-py takes longer to send a command than Redis to answer it, and waits for
    the answer. Whoever uses this one sees to it that one call is under way at a time: `write`, then
    `read`, or `close`. Both raise RedisError and OSError; then the connection is closed."""

    def __init__(self, client: Callable[[], "redis.Redis"], script: str) -> None:
        self._client = client
        self._script = script
        self._digest = hashlib.sha1(script.encode(), usedforsecurity=False).hexdigest()
        self._connection: Any = None  # a Connection of redis-py, which has no types
        self._command: Any = None

    def is_open(self) -> bool:
        """Connected, and neither closed by the server meanwhile nor with something to read."""
        connection = self._connection
        if connection is None or not connection.is_connected:
            return False
        try:
            return not connection.can_read(timeout=0)
        except (redis.RedisError, OSError):
            return False

    def write(self, keys: Sequence[Word], arguments: Sequence[Word]) -> None:
        """Call the script. Connects if need be, and waits for nothing else."""
        if not self.is_open():
            self._connect()
        connection = self._connection
        self._command = connection.pack_command(
            "EVALSHA", self._digest, len(keys), *keys, *arguments
        )
        connection.send_packed_command(self._command, check_health=False)

    def read(self) -> Any:
        """The answer to what was written."""
        connection = self._connection
        try:
            try:
                return connection.read_response()
            except redis.exceptions.NoScriptError:
                connection.send_command("SCRIPT LOAD", self._script)
                connection.read_response()
                connection.send_packed_command(self._command, check_health=False)
                return connection.read_response()
        except BaseException:  # nobody knows what is still to be read
            self.close()
            raise

    def close(self) -> None:
        if self._connection is not None:
            self._connection.disconnect()

    def _connect(self) -> None:
        if self._connection is None:
            self._connection = self._client().connection_pool.get_connection()
        else:
            self._connection.disconnect()
            self._connection.connect()
