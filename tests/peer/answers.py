"""How the peer answers a POST: a status, late, not at all, or by hanging up."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from http.client import responses
from typing import Literal

Moment = Literal["head", "body", "answer"]


@dataclass(frozen=True)
class Answer:
    """One scripted answer. `delay` in seconds, after the request was read and before the answer.

    `hangs_up` names what is *not* done any more: "head" closes before a byte is read, "body"
    after the head, "answer" after the whole request. `resets` makes it a TCP reset.
    `holds` never answers until `Peer.release()`.
    """

    status: int = 204
    reason: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    delay: float = 0.0
    hangs_up: Moment | None = None
    resets: bool = False
    holds: bool = False
    keeps_alive: bool = True

    def as_bytes(self) -> bytes:
        headers = dict(self.headers)
        if self.status not in {204, 304}:
            headers.setdefault("Content-Length", str(len(self.body)))
        if not self.keeps_alive:
            headers.setdefault("Connection", "close")
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        phrase = self.reason or responses.get(self.status, "Scripted")
        head = f"HTTP/1.1 {self.status} {phrase}\r\n{lines}\r\n"
        return head.encode("latin-1") + self.body


def status(
    code: int,
    *,
    delay: float = 0.0,
    retry_after: str | int | None = None,
    reason: str = "",
    body: bytes = b"",
    keeps_alive: bool = True,
    headers: Mapping[str, str] | None = None,
) -> Answer:
    """Answer with a status. `reason` goes into the X-MSH-Error header too."""
    all_headers = dict(headers or {})
    if retry_after is not None:
        all_headers["Retry-After"] = str(retry_after)
    if reason:
        all_headers["X-MSH-Error"] = reason
    return Answer(code, reason, all_headers, body, delay, keeps_alive=keeps_alive)


def hang_up(before: Moment = "answer", *, delay: float = 0.0) -> Answer:
    """Close the connection before reading the head, before the body, or before answering."""
    return Answer(hangs_up=before, delay=delay)


def reset(before: Moment = "answer", *, delay: float = 0.0) -> Answer:
    """As hang_up, but by a TCP reset."""
    return Answer(hangs_up=before, delay=delay, resets=True)


def silence() -> Answer:
    """Read everything, say nothing, keep the connection until `Peer.release()`."""
    return Answer(holds=True)
