"""One GET: where it goes, and what is not taken for an answer."""

import gzip
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from msh.transport.enquiry import ANSWER_LIMIT, EnquiryFailed, NoAnswerInTime, ask, link_status_url
from msh.transport.job import Access

ANSWERS = {
    "/good": (200, {}, b"{}"),
    "/moved": (302, {"Location": "/good"}, b""),
    "/refused": (403, {"X-MSH-Error": "not from there"}, b""),
    "/large": (200, {}, b"x" * (ANSWER_LIMIT + 1)),
    "/full": (200, {}, b"x" * ANSWER_LIMIT),
    "/packed": (200, {"Content-Encoding": "gzip"}, gzip.compress(b"x" * 50)),
    "/bomb": (200, {"Content-Encoding": "gzip"}, gzip.compress(b"x" * (ANSWER_LIMIT + 1))),
    "/odd": (200, {"Content-Encoding": "br"}, b"x"),
}


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        if self.path == "/silent":
            self.server.woken.wait(30)  # type: ignore[attr-defined]
            return
        status, headers, body = ANSWERS[self.path]
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        server.woken = threading.Event()  # type: ignore[attr-defined]
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.woken.set()  # type: ignore[attr-defined]
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(
    ("address", "url"),
    [
        ("http://a.example/ebxml/", "http://a.example/ebxml/link-status"),
        ("https://a.example:8443/ebxml", "https://a.example:8443/ebxml/link-status"),
        ("http://a.example/in/ebxml/b/?x=1", "http://a.example/in/ebxml/b/link-status"),
        ("http://a.example", "http://a.example/link-status"),
    ],
)
def test_it_is_asked_beside_the_endpoint(address: str, url: str) -> None:
    assert link_status_url(address) == url
    asked = link_status_url(address, ["a&b", "ü"])
    assert asked == f"{url}?message_id=a%26b&message_id=%C3%BC"


def test_mail_cannot_be_asked() -> None:
    with pytest.raises(EnquiryFailed, match="only MSHs reached by HTTP"):
        link_status_url("mailto:a@b.example")


@pytest.mark.parametrize("path", ["/good", "/full"])
def test_the_body_is_the_answer(server: str, path: str) -> None:
    assert ask([f"{server}{path}"], "", 10, Access()) == [ANSWERS[path][2]]


def test_an_answer_that_is_compressed_is_read(server: str) -> None:
    assert ask([f"{server}/packed"], "", 10, Access()) == [b"x" * 50]


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("/moved", "302"),
        ("/refused", "403 not from there"),
        ("/large", "more than 65536 bytes"),
        ("/bomb", "has more than 65536 bytes"),
        ("/odd", "Content-Encoding br"),
        ("/silent", "no answer within 0.2 s"),
    ],
)
def test_anything_else_is_none(server: str, path: str, why: str) -> None:
    failed = NoAnswerInTime if path == "/silent" else EnquiryFailed
    with pytest.raises(failed, match=why) as raised:
        ask([f"{server}{path}"], "", 0.2 if path == "/silent" else 10, Access())
    assert raised.type is failed
