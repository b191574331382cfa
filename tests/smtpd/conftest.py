"""Our mail server in threads of the test, on the test's own database connection.

The test waits for each reply, so no two of them use the connection at the same time.
"""

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from unittest.mock import patch

import pytest
from django.db import DEFAULT_DB_ALIAS, connection, connections

from msh.allowance import guesses, refusals
from msh.smtpd import Handler, Listening, make_server
from msh.smtpd.bounds import Limits


@contextmanager
def serving(listening: Listening, limits: Limits | None = None) -> Iterator[int]:
    """The port on which it listens meanwhile."""
    loop = asyncio.new_event_loop()
    with _on_our_connection() as threads:
        handler = Handler(threads, limits)
        server = loop.run_until_complete(
            loop.create_server(lambda: make_server(listening, handler), listening.host, 0)
        )
        thread = threading.Thread(target=loop.run_forever)
        thread.start()
        try:
            yield server.sockets[0].getsockname()[1]
        finally:
            asyncio.run_coroutine_threadsafe(_end(server), loop).result()
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            loop.close()


@contextmanager
def _on_our_connection() -> Iterator[ThreadPoolExecutor]:
    ours = connections[DEFAULT_DB_ALIAS]
    ours.inc_thread_sharing()
    try:
        with (
            patch("msh.smtpd.close_old_connections"),  # ours is in the test's transaction
            ThreadPoolExecutor(
                1, initializer=lambda: connections.__setitem__(DEFAULT_DB_ALIAS, ours)
            ) as threads,
        ):
            yield threads
    finally:
        ours.dec_thread_sharing()


async def _end(server: asyncio.Server) -> None:
    server.close()
    tasks = asyncio.all_tasks() - {asyncio.current_task()}  # connections still open
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


@pytest.fixture(autouse=True)
def _nothing_spent() -> Iterator[None]:
    """Tests come from one address."""
    yield
    for allowance in (guesses, refusals):
        allowance.forget()


@pytest.fixture
def port(db: None) -> Iterator[int]:
    """Of a server that needs no TLS, because it listens on loopback."""
    assert connection.in_atomic_block
    with serving(Listening("127.0.0.1", 0)) as port:
        yield port
