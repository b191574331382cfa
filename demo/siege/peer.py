"""The hostile partner's side of the wire: it posts, and it listens. Standard library only."""

import asyncio
import json
import re
from collections import Counter
from itertools import count

from demo.http11 import HOST, NotUnderstoodError, Request, close, exchange, read_request, read_start
from demo.sighting import ACKNOWLEDGEMENT, ERROR, sight

from .messages import CONTENT_TYPE, Account, Content, body_of

ACK_WITHIN = 4.0
"""Seconds after which it goes on with its next message, acknowledged or not."""
POST_WITHIN = 20.0
CONSUMER = "/consumer"
SILENT = "/silent/"
_LATIN_1 = b"HTTP/1.1 200 OK\r\nX-MSH-External-Id: Auftrag-\xdc\xe4\r\nContent-Length: 0\r\n\r\n"
_TAKEN = b"HTTP/1.1 204 No Content\r\n\r\n"
_CSRF_COOKIE = re.compile(r"^(msh_csrf\w*|csrftoken)=(\w+)", re.IGNORECASE)


class Peer:
    """Takes Acks and Errors with 204, answers a consumer's POST in Latin-1, and below SILENT says
    nothing for ever. `counts` are of what it did and of what came back."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self._waiting: dict[str, asyncio.Future[str]] = {}
        self._numbers: dict[str, int] = {}
        self._misses: Counter[str] = Counter()
        self._ids = count(1)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while start := await read_start(reader):
                request = await read_request(start, reader)
                if request.path.startswith(SILENT):
                    self.counts["held in silence"] += 1
                    await reader.read(1)
                    return
                if request.path.startswith(CONSUMER):
                    self.counts["consumed"] += 1
                    writer.write(_LATIN_1)
                else:
                    self._take(request)
                    writer.write(_TAKEN)
                await writer.drain()
        except (NotUnderstoodError, OSError, asyncio.IncompleteReadError):
            pass
        finally:
            await close(writer)

    def message_id(self, scenario: str) -> str:
        return f"hostile-{scenario}-{next(self._ids)}@hostile.example"

    async def post(self, scenario: str, account: Account, body: bytes) -> int:
        """The status; 0 for none."""
        headers = (
            f"Authorization: Bearer {account.token}",
            f"Content-Type: {CONTENT_TYPE}",
            f"Content-Length: {len(body)}",
        )
        try:
            async with asyncio.timeout(POST_WITHIN):
                status = await _status(account.port, head(account.path, *headers) + body)
        except (OSError, ValueError, IndexError):
            status = 0
        self.counts[f"{scenario}: {status or 'no answer'}"] += 1
        return status

    async def reliable(self, scenario: str, account: Account, content: Content) -> str:
        """Send with the next number of its lane; what came back: an Ack, an Error, or nothing.

        A number that is not acknowledged is tried once more; then it is taken to be used.
        """
        lane = account.sender_uri
        number = self._numbers.setdefault(lane, 1)
        message_id = self.message_id(scenario)
        answered: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._waiting[message_id] = answered
        numbered = Content(message_id, number, content.extra, content.payload, content.content_type)
        try:
            if await self.post(scenario, account, body_of(account, numbered)) not in (200, 204):
                return "refused"
            async with asyncio.timeout(ACK_WITHIN):
                kind = await answered
        except TimeoutError:
            kind = "nothing"
        finally:
            self._waiting.pop(message_id, None)
        self.counts[f"{scenario}: {kind}"] += 1
        self._misses[lane] = 0 if kind == ACKNOWLEDGEMENT else self._misses[lane] + 1
        if kind == ACKNOWLEDGEMENT or self._misses[lane] > 1:
            self._numbers[lane], self._misses[lane] = number + 1, 0
        return kind

    def _take(self, request: Request) -> None:
        seen = sight(request.body)
        waiting = self._waiting.get(seen.ref_to_message_id)
        if seen.kind in (ACKNOWLEDGEMENT, ERROR) and waiting and not waiting.done():
            waiting.set_result(seen.kind)


def head(path: str, *headers: str) -> bytes:
    """The head of a POST."""
    return "\r\n".join([f"POST {path} HTTP/1.1", f"Host: {HOST}", *headers, "", ""]).encode()


async def _status(port: int, request: bytes) -> int:
    """Of the answer, which is not read any further. A server that does not read what it is sent
    does not keep this from ending."""
    reader, writer = await asyncio.open_connection(HOST, port)
    try:
        writer.write(request)
        await writer.drain()
        return int((await reader.readline()).split()[1])
    finally:
        writer.transport.abort()


async def csrf_cookie(port: int) -> str:
    """A cookie of the log-in page, as in "name=value". Raises OSError or NotUnderstoodError."""
    answer = await exchange(HOST, port, Request("GET", "/admin/login/", (), b""))
    for name, value in answer.headers:
        if name.lower() == "set-cookie" and _CSRF_COOKIE.match(value):
            return value.partition(";")[0]
    raise NotUnderstoodError(f"No CSRF cookie: {json.dumps(answer.headers)}")
