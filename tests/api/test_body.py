"""A body counts when all of it has come; and who sends one learns why it is not taken."""

import json
import socket
from collections.abc import Iterator
from http.client import HTTPConnection
from io import BytesIO
from typing import Any

import pytest
from django.test import Client

from msh.models import OutboundMessage, OutboundPayload
from tests.api.application import Application, order
from tests.api.conftest import Tokens
from tests.flows.world import World, make_world
from tests.web import web_process

pytestmark = pytest.mark.django_db(transaction=True)

FORM = "multipart/form-data; boundary=frontier"
DOCUMENT = b"<order>" + b"x" * 200_000 + b"</order>"


@pytest.fixture(scope="module")
def web(django_db_setup: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    with web_process(tmp_path_factory.mktemp("web"), threads=1) as port:
        yield port


@pytest.fixture
def world(transactional_db: None) -> World:
    return make_world()


@pytest.fixture
def shop(transactional_db: None, token: Tokens) -> Application:
    return token("send", "read", "consume")


def form(world: World, message_id: str) -> bytes:
    """With one payload, the DOCUMENT."""
    fields = {**order(world, message_id)}
    del fields["payloads"]
    lines = [
        line
        for name, value in fields.items()
        for line in (f'--frontier\r\nContent-Disposition: form-data; name="{name}"', "", value)
    ]
    file = 'Content-Disposition: form-data; name="payload"; filename="order.xml"'
    lines += ["--frontier", file, "Content-Type: application/xml", "", ""]
    return "\r\n".join(lines).encode() + DOCUMENT + b"\r\n--frontier--\r\n"


def head(shop: Application, path: str, content_type: str, length: int) -> bytes:
    lines = (
        f"POST /api/v1/{path} HTTP/1.1",
        "Host: 127.0.0.1",
        f"Authorization: Bearer {shop.secret}",
        f"Content-Type: {content_type}",
        f"Content-Length: {length}",
    )
    return "\r\n".join((*lines, "", "")).encode()


def post(port: int, shop: Application, path: str, body: bytes, content_type: str) -> Any:
    """Status and JSON, as the usual client has it: it sends all, then it reads."""
    connection = HTTPConnection("127.0.0.1", port, timeout=30)
    headers = {"Authorization": f"Bearer {shop.secret}", "Content-Type": content_type}
    connection.request("POST", f"/api/v1/{path}", body, headers)
    response = connection.getresponse()
    document = json.loads(response.read())
    connection.close()
    return response.status, document


@pytest.mark.requirement("001-02", "001-05")
def test_upload_that_breaks_off_is_no_message(web: int, world: World, shop: Application) -> None:
    whole = form(world, "m-1")
    with socket.create_connection(("127.0.0.1", web)) as dying:
        dying.sendall(head(shop, "messages", FORM, len(whole)) + whole[: len(whole) // 2])
    status, document = post(web, shop, "messages", whole, FORM)
    assert (status, document["message_id"]) == (201, "m-1")
    assert DOCUMENT in bytes(OutboundPayload.objects.get().wire)


@pytest.mark.parametrize(
    ("path", "content_type", "body"),
    [
        ("messages", "application/json", b"{}"),
        ("messages", FORM, b"--frontier--"),
        ("messages/bulk", "application/x-ndjson", b'{"message_id": "m-1"}\n'),
        ("deliveries/take", "application/json", b'{"consumer": "shop"}'),
    ],
)
def test_less_than_was_announced_is_nothing(
    shop: Application, path: str, content_type: str, body: bytes
) -> None:
    """Each of these is whole by what it says itself."""
    cut: dict[str, Any] = {"wsgi.input": BytesIO(body), "CONTENT_LENGTH": str(len(body) + 1)}
    shown = {"Authorization": f"Bearer {shop.secret}"}
    answer: Any = Client().generic(
        "POST", f"/api/v1/{path}", body, content_type, headers=shown, **cut
    )
    assert (answer.status_code, answer.json()["status"]) == (400, 400)
    assert f"{len(body) + 1} were announced" in answer.json()["detail"]


@pytest.mark.requirement("001-02")
@pytest.mark.parametrize("end", [b"", b"\r\n--frontier", b"\r\n--frontier--\r\nmore"])
def test_form_without_its_end_is_no_message(world: World, shop: Application, end: bytes) -> None:
    begun = form(world, "m-1").removesuffix(b"\r\n--frontier--\r\n")
    answer = shop.ask("POST", "messages", begun + end, FORM)
    assert (answer.status, answer.json["title"]) == (400, "Bad request")
    assert "--frontier--" in answer.json["detail"]
    assert not OutboundMessage.objects.exists()


LARGE = b"x" * 12_000_000  # more than a connection holds that nobody reads


@pytest.mark.parametrize(
    ("path", "secret", "status"),
    [("messages/bulk", "wrong", 401), ("deliveries/take", "", 413), ("nothing", "", 404)],
)
def test_refusal_of_a_large_body_is_seen(
    web: int, shop: Application, path: str, secret: str, status: int
) -> None:
    asking = Application(secret or shop.secret)
    assert post(web, asking, path, LARGE, "application/json")[0] == status


def test_refusal_does_not_wait_for_a_body_that_never_comes(web: int, db: None) -> None:
    head = b"POST /api/v1/messages HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000\r\n\r\n"
    with socket.create_connection(("127.0.0.1", web), timeout=30) as silent:
        silent.sendall(head)
        assert silent.recv(100).startswith(b"HTTP/1.1 401 ")


@pytest.mark.parametrize(
    ("path", "encoding", "taken"),
    [("messages", "gzip", "identity"), ("messages/bulk", "br", "identity, gzip")],
)
def test_an_encoding_that_is_not_taken_is_named_with_those_that_are(
    web: int, shop: Application, path: str, encoding: str, taken: str
) -> None:
    """RFC 9110 15.5.16."""
    connection = HTTPConnection("127.0.0.1", web, timeout=30)
    headers = {"Authorization": f"Bearer {shop.secret}", "Content-Encoding": encoding}
    connection.request("POST", f"/api/v1/{path}", b"{}", headers)
    response = connection.getresponse()
    assert (response.status, response.headers["Accept-Encoding"]) == (415, taken)
    connection.close()
