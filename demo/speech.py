"""What the proxy needs of a protocol that transmits messages: HTTP (`http11`) or mail
(`smtp`)."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

from .http11 import Request, Response
from .sighting import Sighting


class Listener(Protocol):
    """One connection of a client. Raises NotUnderstoodError, or ConnectionError."""

    async def start(self) -> str:
        """The line with which a request begins; empty when the client has hung up."""
        ...

    async def request(self, start: str) -> Request:
        """The rest of the request that began with the line `start`."""
        ...


@dataclass(frozen=True, slots=True)
class Speech:
    """`exchange` passes a request to a host and port and returns the answer, or raises OSError
    or NotUnderstoodError. `stores`: an answer may come before the request was passed on, as mail
    hosts do; `taken` is that answer."""

    listen: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Listener]
    exchange: Callable[[str, int, Request], Awaitable[Response]]
    encode: Callable[[Response], bytes]
    sight: Callable[[bytes], Sighting]
    unavailable: Response
    unreachable: Response
    taken: Response
    stores: bool = False
