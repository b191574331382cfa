"""The input of a partner, parsed at most once, whichever functions handle it, and the answer."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from msh.flows.sending.answered import hear
from msh.flows.wake_up import WakeUp, wake_up
from msh.protocol.errors import ProtocolError
from msh.store.receiving.accept import Accepted
from msh.wire.dialect import Entity

Read = TypeVar("Read")


@dataclass(slots=True)
class Incoming:
    """The entity of a request or a mail."""

    content_type: str
    body: bytes
    _read: Any = None

    def read(self, parse: Callable[[str, bytes], Read]) -> Read:
        """Parse the input, or return the result of the first call. Always called with the same
        function. Raises its errors."""
        if self._read is None:
            try:
                self._read = parse(self.content_type, self.body)
            except ProtocolError as problem:
                self._read = problem
        if isinstance(self._read, ProtocolError):
            raise self._read
        read: Read = self._read
        return read


@dataclass(frozen=True, slots=True)
class Answer:
    """A status, one line that says why, if there is something to say, and what the dialect puts
    into the body. `wait`: the request may be sent again after so many seconds."""

    status: int
    reason: str = ""
    entity: Entity | None = None
    wait: int | None = None


TAKEN = 204


def taken_at_once(partner_id: int, accepted: Accepted) -> Answer:
    """The answer to a message that was accepted without the lock: its Acknowledgement leaves."""
    deliver = [WakeUp.DELIVER] if accepted.pushes else []
    wake_up(*deliver, signals=[accepted.signal_id])
    if accepted.unreached:
        hear(partner_id)
    return Answer(TAKEN)
