"""Which connection a POST takes, if there are several, and how a host is found."""

import asyncio
import socket
import threading
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import pytest

from msh.protocol.attempt import AttemptResult
from msh.transport.http import HttpTransport
from msh.transport.job import Job

ANSWER = b"HTTP/1.1 204 No Content\r\n\r\n"


class _Partner:
    """Keeps the bodies that came on each connection. Answers the first `together` only when all
    have come."""

    def __init__(self, together: int) -> None:
        self.bodies: defaultdict[object, list[bytes]] = defaultdict(list)
        self._all_have_come = asyncio.Barrier(together)

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while body := await _read(reader):
            self.bodies[writer].append(body)
            if len(self.bodies[writer]) == 1:
                await self._all_have_come.wait()
            writer.write(ANSWER)
        writer.close()


async def _read(reader: asyncio.StreamReader) -> bytes:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return b""
    size = head.lower().partition(b"content-length:")[2].split()[0]
    return await reader.readexactly(int(size))


def test_a_post_takes_the_connection_that_was_used_last(job: Callable[..., Job]) -> None:
    """So the same process of the partner takes the messages of a pair. aiohttp takes turns."""

    async def scenario() -> list[int]:
        partner = _Partner(together=2)
        server = await asyncio.start_server(partner.answer, "127.0.0.1", 0)
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
        transport = HttpTransport()
        await asyncio.gather(transport.post(job(url=url)), transport.post(job(url=url)))
        for _ in range(6):
            await transport.post(job(url=url))
        await transport.close()
        server.close()
        return sorted(map(len, partner.bodies.values()))

    assert asyncio.run(scenario()) == [1, 7]


def test_a_partner_keeps_its_connection(job: Callable[..., Job]) -> None:
    """Also if another one at the same address has sent since: two pairs of one MSH may be served
    by two of its processes, of which each knows its own."""

    async def scenario() -> list[list[bytes]]:
        partner = _Partner(together=2)
        server = await asyncio.start_server(partner.answer, "127.0.0.1", 0)
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
        transport = HttpTransport()
        to = [job(url=url, partner_id=who, body=b"%d" % who) for who in (1, 2)]
        await asyncio.gather(*map(transport.post, to))
        for turn in (0, 0, 1, 1, 0, 1, 0):
            await transport.post(to[turn])
        await transport.close()
        server.close()
        return sorted(partner.bodies.values())

    assert asyncio.run(scenario()) == [[b"1"] * 5, [b"2"] * 4]


def test_a_name_server_is_asked_once_at_a_time_for_a_host(
    job: Callable[..., Job], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that does not answer would else hold a thread for each POST."""
    asked: list[object] = []
    answers = threading.Event()

    def resolve(host: object, port: object, *_: object, **__: object) -> list[Any]:
        asked.append(host)
        answers.wait(30)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]

    async def scenario(url: str) -> list[AttemptResult | None]:
        transport = HttpTransport()
        posts = [transport.post(job(url=url, partner_id=who)) for who in range(4)]
        under_way = [asyncio.create_task(post) for post in posts]
        for _ in range(100):
            await asyncio.sleep(0)
        answers.set()
        results = await asyncio.gather(*under_way)
        await transport.close()
        return results

    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        monkeypatch.setattr(socket, "getaddrinfo", resolve)
        results = asyncio.run(scenario(f"http://slow.example:{closed.getsockname()[1]}/"))
    assert {one.detail.rpartition(": ")[2] for one in results if one} == {"Connection refused"}
    assert asked == ["slow.example"]
