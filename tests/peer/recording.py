"""What came to the peer, in order, and waiting for it."""

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from email.message import Message as Headers
from functools import cached_property
from itertools import pairwise
from typing import TypeVar

from .drafts import Draft
from .reading import Message, NotAMessage

T = TypeVar("T")
Of = Message | Draft | str | None


@dataclass
class Received:
    """One request. Times are of `time.monotonic`, in seconds.

    `at`: its last byte was here. `began_at`: its first was. `answered_at`: our answer was
    written; None if it was not. A request cut off by a script has the parts that were read.
    `connection` counts connections from 1.
    """

    connection: int
    began_at: float
    at: float
    method: str = ""
    path: str = ""
    headers: Headers = field(default_factory=Headers)
    body: bytes = b""
    answered_at: float | None = None

    @cached_property
    def message(self) -> Message:
        """The message it carries. Raises NotAMessage."""
        return Message(self.headers["Content-Type"] or "", self.body)

    @property
    def message_type(self) -> str:
        """ "" where the bytes are no message."""
        try:
            return self.message.message_type
        except NotAMessage:
            return ""

    def is_normal(self) -> bool:
        return self.message_type == "Normal"

    def is_acknowledgement(self) -> bool:
        return self.message_type == "Acknowledgement"

    def is_error(self) -> bool:
        return self.message_type == "Error"

    def is_signal_of(self, of: Of) -> bool:
        """Whether it refers to the message `of`. None: to any."""
        if of is None:
            return True
        message_id = of if isinstance(of, str) else of.message_id
        return self.message.ref_to_message_id == message_id

    def __str__(self) -> str:
        kind = self.message_type
        if not kind:
            return f"{self.at:.3f} {self.method or 'nothing'} {self.path}, {len(self.body)} bytes"
        message = self.message
        what = message.error_code or message.message_id
        return (
            f"{self.at:.3f} {kind} {what} number={message.sequence_number}"
            f" ref={message.ref_to_message_id or '-'}"
        )


class Recording:
    """Everything that came, oldest first. Safe to read while more is coming."""

    def __init__(self) -> None:
        self._received: list[Received] = []
        self._changed = threading.Condition()

    def add(self, received: Received) -> None:
        with self._changed:
            self._received.append(received)
            self._changed.notify_all()

    def touch(self) -> None:
        """Wake those who wait: a recorded request was answered."""
        with self._changed:
            self._changed.notify_all()

    def __iter__(self) -> Iterator[Received]:
        return iter(self.all())

    def __len__(self) -> int:
        return len(self.all())

    def all(self) -> list[Received]:
        with self._changed:
            return list(self._received)

    def normals(self) -> list[Received]:
        return [r for r in self.all() if r.is_normal()]

    def acknowledgements(self, of: Of = None) -> list[Received]:
        return [r for r in self.all() if r.is_acknowledgement() and r.is_signal_of(of)]

    def errors(self, of: Of = None) -> list[Received]:
        return [r for r in self.all() if r.is_error() and r.is_signal_of(of)]

    def copies_of(self, message_id: str) -> list[Received]:
        """Every copy of a Normal message."""
        return [r for r in self.normals() if r.message.message_id == message_id]

    def gaps(self, message_id: str) -> list[float]:
        """Seconds between the arrivals of the copies of a message."""
        times = [r.at for r in self.copies_of(message_id)]
        return [later - earlier for earlier, later in pairwise(times)]

    def wait_for(
        self, predicate: "Callable[[Recording], T]", timeout: float = 10.0, what: str = ""
    ) -> T:
        """What `predicate(self)` returned as soon as it was true. Fails after `timeout` seconds."""
        end = time.monotonic() + timeout
        with self._changed:
            while not (result := predicate(self)):
                left = end - time.monotonic()
                if left <= 0 or not self._changed.wait(left):
                    raise AssertionError(self._failure(what or "what was waited for", timeout))
        return result

    def wait_for_count(
        self,
        count: int,
        kind: Callable[[Received], bool] = Received.is_normal,
        timeout: float = 10.0,
    ) -> list[Received]:
        """The requests of a kind, once there are `count` of them (or more)."""
        return self.wait_for(
            lambda recording: _at_least(count, [r for r in recording.all() if kind(r)]),
            timeout,
            f"{count} requests of {kind.__name__}",
        )

    def wait_for_acknowledgement(self, of: Of = None, timeout: float = 10.0) -> Received:
        found = self.wait_for(lambda r: r.acknowledgements(of), timeout, "an Acknowledgement")
        return found[0]

    def wait_for_error(self, of: Of = None, timeout: float = 10.0) -> Received:
        return self.wait_for(lambda r: r.errors(of), timeout, "an Error Message")[0]

    def _failure(self, what: str, timeout: float) -> str:
        came = "\n".join(f"  {received}" for received in self._received) or "  nothing"
        return f"{what} did not come within {timeout:g} s. What came:\n{came}"


def _at_least(count: int, found: list[Received]) -> list[Received]:
    return found if len(found) >= count else []
