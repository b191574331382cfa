"""What the web server itself refuses of a partner that it knows is an event of the link, too."""

import http.client
import json
import socket
import uuid
from collections.abc import Iterator
from contextlib import closing

import pytest

from msh.flows.operations import tokens
from msh.models import History, Scope
from msh.protocol.reason import Refusal
from partners.models import Credential, Partner, digest_of
from tests.waiting import wait_until
from tests.web import web_process

pytestmark = pytest.mark.django_db(transaction=True)

LIMIT = 100_000
HEAD = (
    b"POST /ebxml/ HTTP/1.1\r\nHost: x\r\nContent-Type: text/xml\r\nAuthorization: Bearer %s\r\n"
    b"Expect: 100-continue\r\n"
)
CHUNKED = b"Transfer-Encoding: chunked\r\n"
TOO_LONG = b"Content-Length: %d\r\n" % (2 * LIMIT)
BROKEN = b"4\r\nbody\r\nno number\r\n"


@pytest.fixture(scope="module")
def web(django_db_setup: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    folder = tmp_path_factory.mktemp("web")
    with web_process(folder, MSH_BODY_GRACE="0.3", MSH_MESSAGE_LIMIT=str(LIMIT)) as port:
        yield port


@pytest.fixture
def token(transactional_db: None) -> bytes:
    """Of acme. Another one in each test: the process remembers whose the last one was."""
    partner = Partner.objects.create(name="acme", uri="http://peer.example/ebxml/")
    token = uuid.uuid4().hex
    Credential.objects.create(partner=partner, sha256=digest_of(token))
    return token.encode()


def answer_to(web: int, token: bytes, framing: bytes, body: bytes) -> bytes:
    """The first line of the answer. The body is sent when the server asks for it: of one that is
    broken in the bytes of its head, nobody is known yet, and the server's own count has it."""
    with closing(socket.create_connection(("127.0.0.1", web), timeout=30)) as client:
        client.sendall(HEAD % token + framing + b"\r\n")
        answer = client.makefile("rb")
        line = answer.readline()
        if b" 100 " in line:
            answer.readline()
            client.sendall(body)
            line = answer.readline()
        return line.strip()


def events() -> list[tuple[str, str, str, int]]:
    rows = History.objects.filter(event="RequestRefused", subject="link", direction="in")
    return list(rows.values_list("partner__name", "code", "detail", "times"))


@pytest.mark.parametrize(
    ("framing", "body", "status", "code"),
    [
        (b"Content-Length: 100\r\n", b"some", 408, Refusal.INCOMPLETE),
        (CHUNKED, b"4\r\nbody\r\n", 408, Refusal.INCOMPLETE),
        (CHUNKED, BROKEN, 400, Refusal.REQUEST),
        (CHUNKED, b"%x\r\n%s\r\n" % (2 * LIMIT, b"x" * 2 * LIMIT), 413, Refusal.TOO_LARGE),
        (TOO_LONG, b"", 413, Refusal.TOO_LARGE),
    ],
)
def test_body_that_is_refused_is_one_event(
    web: int, token: bytes, framing: bytes, body: bytes, status: int, code: Refusal
) -> None:
    assert str(status).encode() in answer_to(web, token, framing, body)

    wait_until(lambda: bool(events()), what="the event")
    (event,) = events()
    assert event[:2] == ("acme", code)
    assert event[2].startswith(f"{status}: ")


def test_repetitions_are_counted(web: int, token: bytes) -> None:
    for _ in range(3):
        answer_to(web, token, CHUNKED, BROKEN)
    wait_until(lambda: sum(times for *_, times in events()) == 3, what="three events")
    assert len(events()) <= 2  # of two minutes at most


def test_stranger_is_no_event(web: int, token: bytes) -> None:
    answer_to(web, b"wrong", CHUNKED, BROKEN)
    answer_to(web, token, CHUNKED, BROKEN)
    wait_until(lambda: bool(events()), what="the event of the partner")
    assert sum(times for *_, times in events()) == 1


@pytest.mark.parametrize(
    ("host", "length", "status"),
    [(b"127.0.0.1", 100, 408), (b"elsewhere.example", 4, 400)],
    ids=["body", "host"],
)
def test_what_is_refused_of_the_api_has_an_id_and_an_address(
    web: int, transactional_db: None, host: bytes, length: int, status: int
) -> None:
    """Whatever refuses it: the web server, or Django before any view."""
    _, secret = tokens.make(f"shop-{status}", [Scope.SEND])
    head = (
        b"POST /api/v1/messages HTTP/1.1\r\nX-Request-Id: job-7\r\nHost: %s\r\n"
        b"Authorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    )
    with closing(socket.create_connection(("127.0.0.1", web), timeout=30)) as client:
        client.sendall(head % (host, secret.encode(), length) + b"some")
        response = http.client.HTTPResponse(client)
        response.begin()
        raw = response.read()
    assert response.headers["Content-Type"] == "application/problem+json", raw
    problem = json.loads(raw)
    assert (response.status, problem["status"]) == (status, status)
    assert problem["type"] == f"/api/problems#{problem['code']}"
    assert problem["request_id"] == response.headers["X-Request-Id"] == "job-7"
