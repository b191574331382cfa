"""As much of SMTP as a mail host between two polite programs needs. Standard library only."""

import asyncio
import re
from contextlib import suppress

from .http11 import LARGEST_BODY, NotUnderstoodError, Request, Response, close
from .sighting import sight_mail
from .speech import Speech

_END = b".\r\n"
_GREETING = b"220 proxy.demo.example\r\n"
_EHLO = b"250-proxy.demo.example\r\n250-AUTH PLAIN\r\n250 SIZE 67108864\r\n"
_ADDRESS = re.compile(r"<[^>]*>")
_REPLIES = {"HELO": b"250 hello\r\n", "EHLO": _EHLO, "AUTH": b"235 shown\r\n"}
_OK, _GO_ON = b"250 OK\r\n", b"354 go on\r\n"
_BYE, _WHAT = b"221 bye\r\n", b"500 what?\r\n"


class SmtpListener:
    """What is shown by AUTH goes on with the mail: the proxy checks no credentials."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._greeted = False
        self._shown = ""

    async def start(self) -> str:
        if not self._greeted:
            self._greeted = True
            self._writer.write(_GREETING)
        while line := await self._line():
            verb, _, rest = line.partition(" ")
            if verb.upper() == "MAIL":
                return line
            if verb.upper() == "QUIT":
                self._writer.write(_BYE)
                return ""
            if verb.upper() == "AUTH":
                self._shown = rest
            self._writer.write(_REPLIES.get(verb.upper(), _WHAT))
        return ""

    async def request(self, start: str) -> Request:
        self._writer.write(_OK)
        to = await self._expect("RCPT", _OK)
        await self._expect("DATA", _GO_ON)
        headers = (("auth", self._shown), ("to", _address(to)))
        return Request("MAIL", _address(start), headers, await self._mail())

    async def _mail(self) -> bytes:
        """As it came, dots doubled and all."""
        lines: list[bytes] = []
        size = 0
        while (line := await self._reader.readuntil(b"\r\n")) != _END:
            size += len(line)
            if size > LARGEST_BODY:
                raise NotUnderstoodError("The mail is larger than this proxy passes on.")
            lines.append(line)
        return b"".join(lines)

    async def _expect(self, verb: str, reply: bytes) -> str:
        line = await self._line()
        if not line.upper().startswith(verb):
            raise NotUnderstoodError(f"{verb} is missing: {line!r}")
        self._writer.write(reply)
        return line

    async def _line(self) -> str:
        try:
            return (await self._reader.readline()).decode("latin-1").strip()
        except ConnectionError:
            return ""


async def exchange(host: str, port: int, request: Request) -> Response:
    """One mail transaction; the first reply that is no yes ends it and is the answer."""
    reader, writer = await asyncio.open_connection(host, port)
    try:
        return await _transact(reader, writer, request)
    except (asyncio.IncompleteReadError, ValueError) as error:
        raise NotUnderstoodError("The answer ended early.") from error
    finally:
        with suppress(OSError):
            writer.write(b"QUIT\r\n")
        await close(writer)


async def _transact(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: Request
) -> Response:
    named = dict(request.headers)
    commands = [
        "EHLO proxy.demo.example",
        *([f"AUTH {named['auth']}"] if named["auth"] else []),
        f"MAIL FROM:{request.path}",
        f"RCPT TO:{named['to']}",
        "DATA",
    ]
    response = await _reply(reader)
    for command in commands:
        if response.status >= 400:
            return response
        writer.write(f"{command}\r\n".encode("latin-1"))
        response = await _reply(reader)
    if response.status >= 400:
        return response
    writer.write(request.body + _END)
    await writer.drain()
    return await _reply(reader)


async def _reply(reader: asyncio.StreamReader) -> Response:
    while True:
        line = (await reader.readuntil(b"\r\n")).decode("latin-1").rstrip()
        if line[3:4] != "-":
            return Response(int(line[:3]), line[4:], (), b"")


def _encode(response: Response) -> bytes:
    return f"{response.status} {response.reason}\r\n".encode("latin-1")


def _address(command: str) -> str:
    found = _ADDRESS.search(command)
    if found is None:
        raise NotUnderstoodError(f"No address: {command!r}")
    return found[0]


SMTP = Speech(
    listen=SmtpListener,
    exchange=exchange,
    encode=_encode,
    sight=sight_mail,
    unavailable=Response(451, "come again", (), b""),
    unreachable=Response(451, "nobody is there", (), b""),
    taken=Response(250, "taken", (), b""),
    stores=True,
)
