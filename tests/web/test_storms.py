"""Clients that reset their connections, or end them half, leave web processes as they were."""

import http.client
import os
import socket
import struct
import threading
import uuid
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import pytest

from partners.models import Credential, Partner, digest_of
from tests.waiting import children, wait_until
from tests.web import web_process
from tests.web.slow import allow_sockets
from tests.web.test_accepting import command, links_of

pytestmark = pytest.mark.django_db(transaction=True)

RESETS = 600
BODY = 1_600_000
THREADS = 20
UNREADABLE = 415
"""The answer to a body that was read, and whose type no dialect has."""
ASKED = 60


class Web(NamedTuple):
    port: int
    processes: list[int]
    log: Path


@pytest.fixture(scope="module", params=[1, 2])
def web(
    django_db_setup: None,
    tmp_path_factory: pytest.TempPathFactory,
    request: pytest.FixtureRequest,
) -> Iterator[Web]:
    allow_sockets(2000)
    folder = tmp_path_factory.mktemp("web")
    with web_process(folder, workers=request.param, threads=4) as port:
        (parent,) = [pid for pid in children(os.getpid()) if f"--port\0{port}" in command(pid)]
        wait_until(lambda: len(children(parent)) == request.param)
        yield Web(port, children(parent), folder / "web.log")


@pytest.fixture
def token(transactional_db: None) -> str:
    """Another one in each test: a process remembers whose the last one was."""
    partner = Partner.objects.create(name="acme", uri="http://peer.example/ebxml/")
    token = uuid.uuid4().hex
    Credential.objects.create(partner=partner, sha256=digest_of(token))
    return token


def reset(port: int, sent: bytes = b"") -> None:
    """Connect, send, and reset the connection."""
    one = socket.create_connection(("127.0.0.1", port), 30)
    one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    with suppress(OSError):
        one.sendall(sent)
    one.close()


def post(port: int, token: str) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    try:
        connection.request(
            "POST",
            "/ebxml/",
            b"x" * BODY,
            {"Authorization": f"Bearer {token}", "Content-Type": "text/plain"},
        )
        return connection.getresponse().status
    finally:
        connection.close()


def live(port: int) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request("GET", "/health/live")
        return connection.getresponse().status
    finally:
        connection.close()


def open_files(web: Web) -> list[int]:
    return [len(links_of(pid)) for pid in web.processes]


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"POST /ebxml/ HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nhalf",
        b"GET /health/ready HTTP/1.1\r\nHost: x\r\n\r\n" * 3,
    ],
)
def test_resets_and_bodies_leave_the_processes_as_they_were(
    web: Web, token: str, sent: bytes
) -> None:
    assert post(web.port, token) == UNREADABLE
    wait_until(lambda: [live(web.port) for _ in range(10)] == [200] * 10)
    before = open_files(web)
    statuses: list[int] = []
    threads = [
        threading.Thread(target=lambda: statuses.append(post(web.port, token)))
        for _ in range(THREADS)
    ]
    for _ in range(RESETS // 2):
        reset(web.port, sent)
    for thread in threads:
        thread.start()
    for _ in range(RESETS // 2):
        reset(web.port, sent)
    half_closed = []
    for _ in range(50):
        one = socket.create_connection(("127.0.0.1", web.port), 30)
        one.sendall(sent[:60])
        one.shutdown(socket.SHUT_WR)
        half_closed.append(one)
    for thread in threads:
        thread.join()
    assert statuses == [UNREADABLE] * THREADS
    assert [live(web.port) for _ in range(ASKED * len(web.processes))] == [200] * (
        ASKED * len(web.processes)
    )
    for one in half_closed:
        one.close()

    def are_closed() -> bool:
        pairs = zip(open_files(web), before, strict=True)
        return all(now <= then + 5 for now, then in pairs)

    wait_until(are_closed, what=lambda: f"{before} open files, there are {open_files(web)}")
    log = web.log.read_text()
    assert "Traceback" not in log
    assert "exception" not in log
