"""What the headers of a request may cost before anybody is asked who sends it."""

import http.client
from collections.abc import Mapping
from urllib.parse import urlsplit

import pytest

from tests.peer import Peer, normal

pytestmark = pytest.mark.django_db(transaction=True)

FORM = b'--x\r\nContent-Disposition: form-data; name="username"\r\n\r\n%s\r\n--x--\r\n'


def ask(
    web: str, path: str, headers: Mapping[str, str], body: bytes | None = None
) -> tuple[int, bytes]:
    """Status and body. Fails if there is no answer within a minute."""
    connection = http.client.HTTPConnection(urlsplit(web).netloc, timeout=60)
    try:
        connection.request("GET" if body is None else "POST", path, body, dict(headers))
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


@pytest.mark.parametrize("path", ["/admin/login/", "/api/v1/messages", "/ebxml/", "/health/ready"])
@pytest.mark.parametrize("name", ["Content-Type", "Accept"])
def test_long_header_that_is_expensive_to_read_is_refused(web: str, path: str, name: str) -> None:
    """Django's reader needs time in the square of its length: 13 s for 128 KiB."""
    status, body = ask(web, path, {name: 'text/plain; x="' + ";" * 4_000})
    assert (status, body) == (400, b"")


@pytest.mark.parametrize(
    "content_type",
    [
        "text/plain; charset=bz2",
        "text/plain; charset=rot13",
        "text/plain; charset*=bz2''utf-8",
        "text/plain; charset=punycode",
    ],
)
def test_charset_of_a_request_is_not_looked_up(web: str, content_type: str) -> None:
    status, _ = ask(web, "/admin/login/?next=%C3%BC", {"Content-Type": content_type})
    assert status == 200
    status, _ = ask(web, "/ebxml/link-status?x=%C3%BC", {"Content-Type": content_type})
    assert status == 401


def test_form_in_a_charset_that_is_expensive_to_decode_is_answered(web: str) -> None:
    """Punycode needs time in the square of the length, and no log-in stands before it."""
    headers = {
        "Content-Type": "multipart/form-data; boundary=x; charset=punycode",
        "Cookie": f"{csrf_cookie(web)}={'a' * 32}",
    }
    status, _ = ask(web, "/admin/login/", headers, FORM % (b"ab" * 25_000))
    assert status in (400, 403)


def csrf_cookie(web: str) -> str:
    """The name of the console's CSRF cookie."""
    connection = http.client.HTTPConnection(urlsplit(web).netloc, timeout=60)
    try:
        connection.request("GET", "/admin/login/")
        response = connection.getresponse()
        response.read()
        return (response.getheader("Set-Cookie") or "").partition("=")[0]
    finally:
        connection.close()


@pytest.mark.parametrize("name", ["charset", "x"])
def test_parameter_in_an_unknown_charset_is_refused_with_its_reason(peer: Peer, name: str) -> None:
    response = peer.send(normal(content_type=f"application/xml; {name}*=no-such''%20"))
    assert (response.status, response.body) == (400, b"")
    assert "unknown charset" in response.error
