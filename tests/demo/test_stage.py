"""The stage: what is asked of it before an MSH runs."""

import asyncio
import subprocess
import sys

import pytest

from demo.http11 import HOST
from demo.stage import free_port

PROGRAM = "import sys; from demo.stage import free_port; print(free_port(int(sys.argv[1])))"


def test_a_port_is_kept_until_our_server_takes_it() -> None:
    """Two demos on one computer: the second one does not take what the first one is to use."""
    port = free_port(0)
    assert free_port(port) != port
    said = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(port)], capture_output=True, check=True
    )
    assert int(said.stdout) != port

    async def serve() -> int:
        async with await asyncio.start_server(lambda *_: None, HOST, port) as server:
            return int(server.sockets[0].getsockname()[1])

    assert asyncio.run(serve()) == port


def test_what_another_program_listens_at_is_not_taken() -> None:
    async def serve() -> None:
        async with await asyncio.start_server(lambda *_: None, HOST, 0) as server:
            port = server.sockets[0].getsockname()[1]
            assert free_port(port) != port
            with pytest.raises(OSError, match="in use"):
                await asyncio.start_server(lambda *_: None, HOST, port)

    asyncio.run(serve())
