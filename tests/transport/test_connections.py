"""Which connection a POST takes, if there are several."""

import asyncio
from collections import Counter
from collections.abc import Callable

from msh.transport.http import HttpTransport
from msh.transport.job import Job

ANSWER = b"HTTP/1.1 204 No Content\r\n\r\n"


class _Partner:
    """Counts the POSTs of each connection. Answers the first `together` only when all have come."""

    def __init__(self, together: int) -> None:
        self.posts: Counter[object] = Counter()
        self._all_have_come = asyncio.Barrier(together)

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await _read(reader):
            self.posts[writer] += 1
            if self.posts[writer] == 1:
                await self._all_have_come.wait()
            writer.write(ANSWER)
        writer.close()


async def _read(reader: asyncio.StreamReader) -> bytes:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return b""
    size = head.lower().partition(b"content-length:")[2].split()[0]
    return head + await reader.readexactly(int(size))


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
        return sorted(partner.posts.values())

    assert asyncio.run(scenario()) == [1, 7]
