"""The hostile partner: a process of its own, `python -m demo.siege.hostile PLAN.json`.

It reads lines from standard input: the names of the scenarios to run from now on, blank for none;
it ends with the input, and then writes a JSON object of what it did to standard output. It uses
the standard library and knows nothing of the MSH that it attacks but what a partner is told.
"""

import asyncio
import bz2
import json
import sys
import zlib
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from itertools import cycle
from pathlib import Path
from typing import Any

from demo.http11 import HOST, NotUnderstoodError

from .messages import Account, Content, body_of, header_of
from .peer import Peer, csrf_cookie, head

HEADER_LIMIT = 1024 * 1024
ONE_PARSER_ONLY = ("<\U00010000/>", "<a\u0220/>", "<\u1e9e/>", '<x \U00010000="1"/>')
"""Names of the fifth edition of XML 1.0 that the fourth does not know."""
SLOW = {"bodies": 20, "forms": 40, "uploads": 40}
"""Sockets of each kind, to each MSH."""
DRIP_EVERY = 1.0
STOP_WITHIN = 10.0
ERRORS_AT_ONCE = 1500
ERRORS_A_SECOND = 10
COPIES_A_SECOND = 20
UNPACKED = 150_000_000


class Hostile:
    """`accounts`: scenario to agreement, of one MSH. `bombs`: charset to payload."""

    def __init__(self, peer: Peer, accounts: dict[str, Account], bombs: dict[str, bytes]) -> None:
        self.peer = peer
        self.accounts = accounts
        self.bombs = bombs
        self._pending = False

    async def names(self) -> None:
        """Header names that only one of two parsers takes, for a party behind the MSH."""
        account = self.accounts["names"]
        for extra in cycle(ONE_PARSER_ONLY):
            await self.peer.reliable("names", account, Content("", extra=extra))
            content = Content(self.peer.message_id("names"), extra=extra)
            await self.peer.post("names", account, body_of(account, content))
            await asyncio.sleep(1)

    async def large(self) -> None:
        """Headers as large as they may be, for a party behind the MSH, which adds to them."""
        account = self.accounts["large"]
        bare = header_of(account, Content("x" * 40, 1))
        room = HEADER_LIMIT - len(bare) - len("<p></p>")
        marks = (20_000 - bare.count(b"<") - bare.count(b"=")) // 2
        extras = [
            *(f"<p>{'p' * (room - left)}</p>" for left in (120, 200, 400)),
            *("<m></m>" * (marks - left) for left in (2, 6, 12)),
        ]
        for extra in cycle(extras):
            await self.peer.reliable("large", account, Content("", extra=extra))
            await asyncio.sleep(2)

    async def slow(self) -> None:
        """Bodies, log-in forms and uploads without a token that come a byte a second."""
        account = self.accounts["slow"]
        port = account.port
        bodies = head(
            account.path,
            f"Authorization: Bearer {account.token}",
            'Content-Type: multipart/related; type="application/vnd.eb+xml"; boundary="x"',
            "Content-Length: 100000",
        )
        uploads = head(
            "/api/v1/messages", "Content-Type: application/json", "Content-Length: 60000000"
        )
        heads = {"bodies": bodies, "uploads": uploads}
        with suppress(OSError, NotUnderstoodError, TimeoutError):
            async with asyncio.timeout(10):
                heads["forms"] = head(
                    "/admin/login/",
                    f"Cookie: {await csrf_cookie(port)}",
                    "Content-Type: application/x-www-form-urlencoded",
                    "Content-Length: 1000",
                )
        await asyncio.gather(
            *(
                self._drip(port, kind, head)
                for kind, head in heads.items()
                for _ in range(SLOW[kind])
            )
        )

    async def _drip(self, port: int, kind: str, head: bytes) -> None:
        while True:
            writer: asyncio.StreamWriter | None = None
            try:
                reader, writer = await asyncio.open_connection(HOST, port)
                writer.write(head)
                self.peer.counts[f"slow: {kind} begun"] += 1
                while not reader.at_eof():
                    writer.write(b"a")
                    await writer.drain()
                    # wait_for() may take a cancellation for its own before Python 3.12
                    with suppress(TimeoutError):
                        async with asyncio.timeout(DRIP_EVERY):
                            if await reader.read(4096):
                                self.peer.counts[f"slow: {kind} answered"] += 1
            except OSError:
                self.peer.counts[f"slow: {kind} broken off"] += 1
            finally:
                if writer:
                    writer.transport.abort()
            await asyncio.sleep(1)

    async def charset(self) -> None:
        """Payloads whose charset is a codec that unpacks, or takes for ever."""
        account = self.accounts["charset"]
        for charset, payload in cycle(self.bombs.items()):
            kind = f"text/plain; charset={charset}"
            content = Content("", payload=payload, content_type=kind)
            await self.peer.reliable("charset", account, content)
            await asyncio.sleep(3)

    async def latin1(self) -> None:
        """Messages for a consumer that answers with a header in Latin-1: see Peer."""
        while True:
            await self.peer.reliable("latin1", self.accounts["latin1"], Content(""))
            await asyncio.sleep(1)

    async def signals(self) -> None:
        """Messages out of sequence from an address where nobody listens: each gets an Error."""
        account = self.accounts["signals"]

        async def send(_: int) -> None:
            content = Content(self.peer.message_id("signals"), number=900_000)
            await self.peer.post("signals", account, body_of(account, content))

        if not self._pending:
            self._pending = True
            await _at_once(send, ERRORS_AT_ONCE)
        await _paced(send, ERRORS_A_SECOND)

    async def copies(self) -> None:
        """Copies of one message that the MSH has acknowledged."""
        account = self.accounts["copies"]
        message_id = f"hostile-copies-{account.port}@hostile.example"
        body = body_of(account, Content(message_id, number=1))

        async def send(_: int) -> None:
            await self.peer.post("copies", account, body)

        await _paced(send, COPIES_A_SECOND)


SCENARIOS = ("names", "large", "slow", "charset", "latin1", "signals", "copies")
"""The hostile partner's; `windows` is what applications have sent to it, which it never takes."""


def make_bombs() -> dict[str, bytes]:
    """By charset; the first two unpack to UNPACKED bytes. Takes seconds."""
    zeros = b"0" * UNPACKED
    return {
        "bz2": bz2.compress(zeros),
        "zlib": zlib.compress(zeros),
        "punycode": b"a-" + b"9" * 200_000,
        "rot13": b"abc",
        "utf-8": b"\xff\xfe",
    }


async def _at_once(send: Callable[[int], Awaitable[None]], total: int, width: int = 8) -> None:
    numbers = iter(range(total))

    async def work() -> None:
        for number in numbers:
            await send(number)

    await asyncio.gather(*(work() for _ in range(width)))


async def _paced(send: Callable[[int], Awaitable[None]], a_second: int) -> None:
    number = 0
    while True:
        await asyncio.gather(send(number), asyncio.sleep(1 / a_second))
        number += 1


async def attack(
    port: int, targets: Sequence[dict[str, Account]], orders: asyncio.StreamReader
) -> None:
    """Run what the lines of `orders` name, until they end."""
    peer = Peer()
    bombs = await asyncio.to_thread(make_bombs)
    hostiles = [Hostile(peer, accounts, bombs) for accounts in targets]
    running: list[asyncio.Task[None]] = []
    async with await asyncio.start_server(peer.serve, HOST, port):
        while line := await orders.readline():
            await _stop(running, peer)
            running = [
                asyncio.create_task(getattr(hostile, name)(), name=name)
                for name in line.decode().split()
                if name in SCENARIOS
                for hostile in hostiles
            ]
        await _stop(running, peer)
    sys.stdout.write(json.dumps(dict(sorted(peer.counts.items()))) + "\n")


async def _stop(running: list[asyncio.Task[None]], peer: Peer) -> None:
    for task in running:
        task.cancel()
    if running:
        await asyncio.wait(running, timeout=STOP_WITHIN)
    for task in running:
        if not task.done():
            task.print_stack()
            peer.counts[f"the script failed: {task.get_name()} does not end"] += 1
        failed = None if not task.done() or task.cancelled() else task.exception()
        if failed:
            peer.counts[f"the script failed: {type(failed).__name__}: {failed}"] += 1


async def _main(plan: dict[str, Any]) -> None:
    targets = [
        {name: Account(**account) for name, account in target.items()} for target in plan["targets"]
    ]
    orders = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(orders), sys.stdin)
    await attack(plan["port"], targets, orders)


if __name__ == "__main__":
    asyncio.run(_main(json.loads(Path(sys.argv[1]).read_text())))
