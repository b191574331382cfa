"""Bytes in, requests out: HTTP/1.1 as llhttp reads it, with limits."""

from collections import deque
from typing import cast

import httptools

from .request import Address, BadRequestError, Header, Request
from .spool import NoRoomError, Room, Spool

HEAD_LIMIT = 64 * 1024
"""Bytes of the request line and headers; and as many of a trailer after the body."""
_TOO_LONG = f"the request line and headers are limited to {HEAD_LIMIT} bytes"
_TRAILER_TOO_LONG = f"trailers and chunk extensions are limited to {HEAD_LIMIT} bytes"
PIPELINE_LIMIT = 50
"""Requests that may come in one piece before the first is answered."""


class Refused(Exception):
    """What came is refused with `status`."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class Parser:
    """`reading` is a request whose head has come, `whole` are those of which all has."""

    def __init__(self, client: Address, server: Address, room: Room) -> None:
        self._client = client
        self._server = server
        self._room = room
        self._llhttp = httptools.HttpRequestParser(self)
        self._url = b""
        self._headers: list[Header] = []
        self._size = 0  # of the head, or of the trailer after the body
        self._waiting = 0  # bytes that came after the last end of a head, piece of a body or end
        self._has_moved = False
        self.reading: Request | None = None
        self.whole: deque[Request] = deque()
        self.refused: Refused | None = None
        """Why nothing more can be read. What was whole before may be answered first."""

    def feed(self, data: bytes) -> bytes:
        """What is left of it and has to be fed again, later."""
        rest = b""
        self._has_moved = False
        try:
            self._llhttp.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            # Another protocol is offered, and not taken: what follows is HTTP as before.
            self._llhttp = httptools.HttpRequestParser(self)
            rest = data[upgrade.args[0] :]
        except httptools.HttpParserError as problem:
            self._refuse(400, f"this is not HTTP/1.1: {problem}")
        # llhttp keeps a line that has not ended, however long it is.
        self._waiting = 0 if self._has_moved else self._waiting + len(data)
        if self._waiting > HEAD_LIMIT:
            self._refuse_as_too_long()
        return rest

    def close(self) -> None:
        for request in (self.reading, *self.whole):
            if request is not None:
                request.close()

    def _refuse(self, status: int, reason: str) -> None:
        self.refused = self.refused or Refused(status, reason)

    def _refuse_as_too_long(self) -> str:
        reason = _TRAILER_TOO_LONG if self.reading else _TOO_LONG
        self._refuse(431, reason)
        return reason

    def _count(self, size: int) -> None:
        """However it comes: also whole in one piece."""
        self._size += size
        if self._size > HEAD_LIMIT:
            raise BadRequestError(self._refuse_as_too_long())

    # --- what llhttp calls --------------------------------------------------------------------
    def on_message_begin(self) -> None:
        self._url = b""
        self._headers = []
        self._size = 0

    def on_url(self, url: bytes) -> None:
        self._count(len(url))
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self._count(len(name) + len(value))
        if self.reading is None:  # else it is of a trailer, which nobody reads
            self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        self._has_moved = True
        self._size = 0
        try:
            self.reading = Request(
                self._llhttp, self._url, self._headers, self._client, self._server
            )
        except BadRequestError as problem:
            self._refuse(400, str(problem))
            raise

    def on_body(self, piece: bytes) -> None:
        self._has_moved = True
        request = cast("Request", self.reading)
        if request.is_too_large or self.refused:
            return
        if request.body is None:
            request.body = Spool(self._room)
        try:
            request.body.add(piece)
        except NoRoomError:
            self._refuse(503, "no memory left for the body")

    def on_message_complete(self) -> None:
        self._has_moved = True
        request = cast("Request", self.reading)
        self.reading = None
        request.complete = not request.is_too_large
        self.whole.append(request)
        if len(self.whole) > PIPELINE_LIMIT:
            self._refuse(400, "too many pipelined requests")
