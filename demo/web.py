"""HTTP as the proxy speaks it: one request after the other over a connection."""

import asyncio

from .http11 import Request, Response, exchange, read_request, read_start, response_bytes
from .sighting import sight
from .speech import Speech

_EMPTY = (("Content-Length", "0"),)


class HttpListener:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader

    async def start(self) -> str:
        return await read_start(self._reader)

    async def request(self, start: str) -> Request:
        return await read_request(start, self._reader)


HTTP = Speech(
    listen=HttpListener,
    exchange=exchange,
    encode=response_bytes,
    sight=sight,
    unavailable=Response(503, "Service Unavailable", _EMPTY, b""),
    unreachable=Response(502, "Bad Gateway", _EMPTY, b""),
    taken=Response(204, "No Content", (), b""),
)
