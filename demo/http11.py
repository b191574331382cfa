"""As much of HTTP/1.1 as a proxy between two polite programs needs."""

import asyncio
import socket
import struct
from contextlib import suppress
from dataclasses import dataclass

HOST = "127.0.0.1"
LARGEST_BODY = 64 * 1024 * 1024
HOP_BY_HOP = frozenset({"connection", "keep-alive", "host", "expect"})


class NotUnderstoodError(Exception):
    """What came is no request or answer that this proxy understands."""


@dataclass(frozen=True, slots=True)
class Request:
    method: str
    path: str
    headers: tuple[tuple[str, str], ...]
    body: bytes


@dataclass(frozen=True, slots=True)
class Response:
    status: int
    reason: str
    headers: tuple[tuple[str, str], ...]
    body: bytes


async def read_start(reader: asyncio.StreamReader) -> str:
    """The first line of a request; empty when the client has hung up."""
    try:
        return (await reader.readline()).decode("latin-1").strip()
    except ConnectionError:
        return ""


async def read_request(start: str, reader: asyncio.StreamReader) -> Request:
    """The rest of the request that began with the line `start`."""
    method, path, _ = _three(start)
    headers = await _read_headers(reader)
    return Request(method, path, headers, await reader.readexactly(_length(headers) or 0))


async def exchange(host: str, port: int, request: Request) -> Response:
    """Send the request to a server over a new connection and return the answer.

    Raises OSError or NotUnderstoodError when there is none.
    """
    reader, writer = await asyncio.open_connection(host, port)
    try:
        writer.write(_request_bytes(host, port, request))
        await writer.drain()
        return await _read_response(reader)
    except asyncio.IncompleteReadError as error:
        raise NotUnderstoodError("The answer ended early.") from error
    finally:
        await close(writer)


def response_bytes(response: Response) -> bytes:
    headers = [pair for pair in response.headers if pair[0].lower() not in HOP_BY_HOP]
    lines = [f"HTTP/1.1 {response.status} {response.reason}", *(f"{k}: {v}" for k, v in headers)]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + response.body


async def close(writer: asyncio.StreamWriter) -> None:
    """End the connection in the ordinary way."""
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()


def reset(writer: asyncio.StreamWriter) -> None:
    """End the connection with a TCP reset."""
    connection: socket.socket = writer.get_extra_info("socket")
    with suppress(OSError):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


def _request_bytes(host: str, port: int, request: Request) -> bytes:
    headers = [pair for pair in request.headers if pair[0].lower() not in HOP_BY_HOP]
    headers += [("Host", f"{host}:{port}"), ("Connection", "close")]
    lines = [f"{request.method} {request.path} HTTP/1.1", *(f"{k}: {v}" for k, v in headers)]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + request.body


async def _read_response(reader: asyncio.StreamReader) -> Response:
    _, status, reason = _three((await reader.readline()).decode("latin-1").strip())
    headers = await _read_headers(reader)
    length = 0 if status in ("204", "304") else _length(headers)
    body = await (reader.read() if length is None else reader.readexactly(length))
    if length is None:
        headers += (("Content-Length", str(len(body))),)
    return Response(int(status), reason, headers, body)


async def _read_headers(reader: asyncio.StreamReader) -> tuple[tuple[str, str], ...]:
    headers: list[tuple[str, str]] = []
    while line := (await reader.readline()).decode("latin-1").strip():
        name, _, value = line.partition(":")
        headers.append((name, value.strip()))
    return tuple(headers)


def _length(headers: tuple[tuple[str, str], ...]) -> int | None:
    named = {name.lower(): value for name, value in headers}
    if "transfer-encoding" in named:
        raise NotUnderstoodError("Only bodies with a Content-Length are passed on.")
    length = int(named["content-length"]) if "content-length" in named else None
    if length is not None and length > LARGEST_BODY:
        raise NotUnderstoodError("The body is larger than this proxy passes on.")
    return length


def _three(line: str) -> tuple[str, str, str]:
    first, _, rest = line.partition(" ")
    second, _, third = rest.partition(" ")
    if not first or not second:
        raise NotUnderstoodError(f"Not a line of HTTP: {line!r}")
    return first, second, third
