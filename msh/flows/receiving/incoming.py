"""What a partner has sent, read at most once, whatever ways it takes here."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from msh.protocol.errors import ProtocolError

Read = TypeVar("Read")


@dataclass(slots=True)
class Incoming:
    """The entity of a request or a mail."""

    content_type: str
    body: bytes
    _read: Any = None

    def read(self, parse: Callable[[str, bytes], Read]) -> Read:
        """What `parse` makes of it, always the same function. Raises what it raises."""
        if self._read is None:
            try:
                self._read = parse(self.content_type, self.body)
            except ProtocolError as problem:
                self._read = problem
        if isinstance(self._read, ProtocolError):
            raise self._read
        read: Read = self._read
        return read
