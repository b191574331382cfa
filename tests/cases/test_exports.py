"""Case 56: an export that is read slowly, broken off, or fails half way. How the web server sends
what grows in a file is in tests/web/connection/test_answers.py, a full disk in
tests/web/test_call.py."""

import json
import socket
from collections.abc import Iterator
from contextlib import ExitStack, closing
from typing import Any

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.db import Error, connection
from django.test import Client

from msh.admin.framework import export
from msh.models import InboundMessage, SettingChange
from partners.models import Agreement, Credential, Partner, digest_of
from tests.peer import Peer, normal
from tests.waiting import wait_until
from tests.web import web_process

pytestmark = pytest.mark.django_db(transaction=True)

ROWS = 2000
PATH = "/admin/msh/settingchange/rows/"
WIDE = "x" * 5000
"""10 MB in all: more than sockets hold, so that a reader that stops stops the sending."""


@pytest.fixture(scope="module")
def web(django_db_setup: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    with web_process(tmp_path_factory.mktemp("web")) as port:
        yield port


@pytest.fixture
def rows(transactional_db: None) -> None:
    logged = [
        SettingChange(
            actor="ann", what="added", kind="x", name="x", reason=WIDE, before={}, after={}
        )
        for _ in range(ROWS)
    ]
    SettingChange.objects.bulk_create(logged, batch_size=500)


@pytest.fixture
def somebody() -> Client:
    client = Client()
    client.force_login(
        User.objects.create_superuser("admin"), backend="django.contrib.auth.backends.ModelBackend"
    )
    return client


def begun(web: int, client: Client, form: str) -> socket.socket:
    """A connection on which an export was asked for."""
    session = client.cookies[settings.SESSION_COOKIE_NAME].value
    csrf = "a" * 32
    cookies = f"{settings.SESSION_COOKIE_NAME}={session};{settings.CSRF_COOKIE_NAME}={csrf}"
    body = f"format={form}".encode()
    head = (
        f"POST {PATH} HTTP/1.1\r\nHost: localhost\r\nCookie: {cookies}\r\nX-CSRFToken: {csrf}\r\n"
        f"Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {len(body)}\r\n"
        "Connection: close\r\n\r\n"
    )
    asking = socket.create_connection(("127.0.0.1", web), timeout=60)
    asking.sendall(head.encode() + body)
    return asking


def open_transactions() -> int:
    """Of the web server: this session has none that it would count."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
            " AND pid <> pg_backend_pid() AND xact_start IS NOT NULL AND backend_type ="
            " 'client backend'"
        )
        (count,) = cursor.fetchone()
    return int(count)


def test_transaction_ends_while_the_reader_has_stopped(
    web: int, rows: None, somebody: Client
) -> None:
    """The file is complete all the same: it waits on the disk of the server."""
    with closing(begun(web, somebody, "csv")) as asking:
        first = asking.recv(1000)
        assert first.startswith(b"HTTP/1.1 200")
        wait_until(lambda: open_transactions() == 0, what="the end of the transaction")
        size, last = len(first), b""
        while piece := asking.recv(1 << 20):
            size, last = size + len(piece), piece
    assert size > ROWS * len(WIDE)
    assert last.endswith(b"0\r\n\r\n")


def test_nothing_is_left_of_a_reader_that_has_gone(web: int, rows: None, somebody: Client) -> None:
    with closing(begun(web, somebody, "csv")) as asking:
        assert asking.recv(1000)
    wait_until(lambda: open_transactions() == 0, what="the end of the transaction")
    with closing(begun(web, somebody, "json")) as asking:
        assert asking.recv(1000).startswith(b"HTTP/1.1 200")


AT_ONCE = 10


def test_ten_exports_that_nobody_reads_leave_partners_their_threads(
    web: int, rows: None, somebody: Client
) -> None:
    """A message of a partner is stored and answered while all of them are made or wait for their
    turn, by a server of four threads; each file is complete when it is read."""
    partner = Partner.objects.create(name="acme", uri="http://acme.example/ebxml/")
    Credential.objects.create(partner=partner, sha256=digest_of("token"))
    Agreement.objects.create(partner=partner, tpa_id="tpa-4711", our_party="1", their_party="2")
    url = f"http://127.0.0.1:{web}/ebxml/"
    with ExitStack() as stack:
        asked = [stack.enter_context(closing(begun(web, somebody, "csv"))) for _ in range(AT_ONCE)]
        with Peer(url, msh_uri=settings.MSH_URI, uri=partner.uri, token="token") as peer:
            for number in range(1, 6):
                draft = normal(sequence_number=number, from_party="2", to_party="1")
                assert peer.send(draft).status == 204
        assert InboundMessage.objects.count() == 5
        for asking in asked:
            size, last = 0, b""
            while piece := asking.recv(1 << 20):
                size, last = size + len(piece), piece
            assert size > ROWS * len(WIDE)
            assert last.endswith(b"0\r\n\r\n")


@pytest.mark.parametrize("form", ["csv", "json"])
def test_export_whose_database_goes_is_no_shorter_file(
    somebody: Client, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    """It ends with an error, which the web server makes a broken transfer: what was read is no
    valid JSON."""
    monkeypatch.setattr(export, "AT_ONCE", 2)
    for _ in range(6):
        SettingChange.objects.create(
            actor="ann", what="added", kind="x", name="x", reason="r", before={}, after={}
        )
    answer: Any = somebody.post(PATH, {"format": form})
    pieces = answer.streaming_content
    read = next(pieces)
    with pytest.raises(Error), connection.cursor() as cursor:
        cursor.execute("SELECT pg_terminate_backend(pg_backend_pid())")
    try:
        with pytest.raises(Error):
            read += b"".join(pieces)
    finally:
        connection.close()
    assert read.count(b"ann") == 1  # the other row of the two is that of the export
    if form == "json":
        with pytest.raises(json.JSONDecodeError):
            json.loads(read)
