"""The application behind the real server: what browsers and programs get of it."""

import csv
import io
import os
import signal
import socket
from collections.abc import Iterator
from contextlib import closing
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path

import drf_spectacular_sidecar
import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.test import Client

from msh.models import SettingChange
from tests.waiting import children, wait_until
from tests.web import web_process
from tests.web.slow import allow_sockets

pytestmark = pytest.mark.django_db(transaction=True)

SCRIPT = "drf_spectacular_sidecar/swagger-ui-dist/swagger-ui-bundle.js"
CONNECTIONS = 40
ROWS = 5000
"""More than an export reads at a time."""


@pytest.fixture(scope="module")
def web(django_db_setup: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    folder, most = tmp_path_factory.mktemp("web"), str(CONNECTIONS)
    with web_process(folder, threads=2, MSH_WEB_CONNECTIONS=most) as port:
        yield port


def ask(web: int, method: str, path: str, **options: object) -> tuple[HTTPResponse, bytes]:
    with closing(HTTPConnection("127.0.0.1", web, timeout=30)) as connection:
        connection.request(method, path, **options)  # type: ignore[arg-type]
        response = connection.getresponse()
        return response, response.read()


def test_a_large_file_comes_whole(web: int) -> None:
    folder = Path(drf_spectacular_sidecar.__file__).parent / "static"
    response, body = ask(web, "GET", f"/static/{SCRIPT}")
    assert (response.status, body) == (200, (folder / SCRIPT).read_bytes())


def test_a_part_of_a_file_and_its_head(web: int) -> None:
    response, body = ask(web, "GET", f"/static/{SCRIPT}", headers={"Range": "bytes=10-19"})
    assert (response.status, len(body)) == (206, 10)
    response, body = ask(web, "HEAD", f"/static/{SCRIPT}")
    assert int(response.headers["Content-Length"]) > 1_000_000
    assert body == b""


def test_a_large_form_of_who_is_logged_in_is_taken(web: int) -> None:
    client = Client()
    client.force_login(
        User.objects.create_superuser("admin"),
        backend="django.contrib.auth.backends.ModelBackend",
    )
    cookie = f"{settings.SESSION_COOKIE_NAME}={client.cookies[settings.SESSION_COOKIE_NAME].value}"
    form = b"text=" + b"x" * 3_000_000
    headers = {"Cookie": cookie, "Content-Type": "application/x-www-form-urlencoded"}
    response, body = ask(web, "POST", "/admin/logout/", body=form, headers=headers)
    assert response.status == 403, body  # by the console, for the CSRF token is missing
    response, body = ask(web, "POST", "/admin/logout/", body=form)
    assert (response.status, body) == (
        413,
        b"the body is too large for a client that is not logged in\n",
    )


def test_an_export_begins_before_it_is_complete(web: int) -> None:
    """It has no length, and its last row arrives."""
    logged = [SettingChange(actor="ann", what="added", kind="Export", name="x", reason=f"row {n}",
                            before={}, after={}) for n in range(ROWS)]  # fmt: skip
    SettingChange.objects.bulk_create(logged)
    client = Client()
    client.force_login(
        User.objects.create_superuser("admin"),
        backend="django.contrib.auth.backends.ModelBackend",
    )
    session = client.cookies[settings.SESSION_COOKIE_NAME].value
    token = "a" * 32
    headers = {
        "Cookie": f"{settings.SESSION_COOKIE_NAME}={session};{settings.CSRF_COOKIE_NAME}={token}",
        "Content-Type": "application/x-www-form-urlencoded",
        "X-CSRFToken": token,
    }
    path = "/admin/msh/settingchange/rows/"
    response, body = ask(web, "POST", path, body=b"format=csv", headers=headers)
    assert (response.status, response.headers["Transfer-Encoding"]) == (200, "chunked")
    rows = list(csv.DictReader(io.StringIO(body.decode(), newline="")))
    assert [row["reason"] for row in rows][-ROWS:] == [f"row {n}" for n in reversed(range(ROWS))]


def test_somebody_with_too_many_connections_loses_his_own(web: int) -> None:
    allow_sockets(1000)
    with closing(HTTPConnection("127.0.0.1", web, timeout=30)) as kept:
        kept.request("GET", "/health/live")
        assert kept.getresponse().read()
        many = [
            socket.create_connection(("127.0.0.1", web), 30, source_address=("127.0.0.9", 0))
            for _ in range(3 * CONNECTIONS)
        ]
        kept.request("GET", "/health/live")
        assert kept.getresponse().status == 200
        for one in many:
            one.close()


def test_a_process_that_dies_is_started_again(django_db_setup: None, tmp_path: Path) -> None:
    with web_process(tmp_path, threads=1) as port:
        [parent] = [pid for pid in children(os.getpid()) if f"{port}".encode() in _command(pid)]
        [worker] = children(parent)
        os.kill(worker, signal.SIGKILL)
        wait_until(lambda: children(parent) not in ([], [worker]), what="another process")
        wait_until(lambda: _lives(port), what="an answer")


def _command(pid: int) -> bytes:
    return Path(f"/proc/{pid}/cmdline").read_bytes()


def _lives(port: int) -> bool:
    try:
        return ask(port, "GET", "/health/live")[0].status == 200
    except OSError:
        return False
