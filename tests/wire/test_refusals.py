"""Each refusal of the wire has the code of what has to be done about it, and the status with it."""

import pytest

from msh import wire
from msh.protocol.ebms.errors import NotAMessage
from msh.protocol.errors import Unreadable
from msh.protocol.reason import Refusal
from msh.wire.ebms2.envelope import parse as parse_ebms2
from tests.wire.samples import EXAMPLE

RELATED = 'multipart/related; type="application/vnd.eb+xml"; boundary=edge'
HEAD = b"--edge\r\nContent-ID: <h@x>\r\nContent-Type: application/vnd.eb+xml\r\n\r\n"
END = b"\r\n--edge--\r\n"
BROKEN = [
    (Refusal.MEDIA_TYPE, "", b"x"),
    (Refusal.MEDIA_TYPE, "application/json", b"{}"),
    (Refusal.PACKAGE, "multipart/related; boundary=", HEAD + END),
    (Refusal.PACKAGE, RELATED, b"no boundary"),
    (Refusal.PACKAGE, RELATED, b"--edge--\r\n"),
    (Refusal.PACKAGE, RELATED, HEAD.replace(b"Content-ID:", b"Content-ID") + b"<a/>" + END),
    (Refusal.PACKAGE, RELATED, b"--edge\r\nX: " + b"x" * 20_000 + END),
    (Refusal.PACKAGE, f"{RELATED}; start=none", HEAD + b"<a/>" + END),
    (Refusal.INCOMPLETE, RELATED, HEAD + b"<a/>"),
    (Refusal.DOCUMENT, RELATED, HEAD + b"<a>" + END),
    (Refusal.DOCUMENT, RELATED, HEAD + b"<!DOCTYPE a><a/>" + END),
    (Refusal.DOCUMENT, RELATED, HEAD + b"<a>\xff</a>" + END),
    (Refusal.DOCUMENT, RELATED, HEAD + EXAMPLE.replace("SenderURI", "X").encode() + END),
]


@pytest.mark.parametrize(("code", "content_type", "body"), BROKEN)
def test_of_the_draft(code: Refusal, content_type: str, body: bytes) -> None:
    with pytest.raises(Unreadable) as caught:
        wire.parse(content_type, body)
    assert caught.value.refusal is code
    assert caught.value.status == (415 if code is Refusal.MEDIA_TYPE else 400)


@pytest.mark.parametrize(
    ("code", "content_type", "body"),
    [
        (Refusal.MEDIA_TYPE, "application/soap+xml", b"<a/>"),
        (Refusal.MEDIA_TYPE, 'multipart/related; type="image/png"; boundary=edge', HEAD + END),
        (Refusal.PACKAGE, 'multipart/related; type="text/xml"; boundary=edge', b"no boundary"),
        (Refusal.DOCUMENT, "text/xml", b"<a/>"),
        (Refusal.DOCUMENT, "text/xml; charset=UTF-16", b"<a/>"),
    ],
)
def test_of_ebms2(code: Refusal, content_type: str, body: bytes) -> None:
    with pytest.raises(NotAMessage) as caught:
        parse_ebms2(content_type, body)
    assert caught.value.refusal is code
    assert caught.value.status == (415 if code is Refusal.MEDIA_TYPE else 500)


@pytest.mark.parametrize("mail", [b"", b"Subject: x\r\n\r\nhello\r\n"])
def test_of_mail(mail: bytes) -> None:
    with pytest.raises(Unreadable) as caught:
        wire.package_of(mail)
    assert caught.value.refusal is Refusal.PACKAGE


@pytest.mark.parametrize(
    ("code", "status"),
    [
        (Refusal.AGREEMENT, 403),
        (Refusal.TOO_LARGE, 413),
        (Refusal.MEDIA_TYPE, 415),
        (Refusal.REQUEST, 400),
    ],
)
def test_the_status_follows(code: Refusal, status: int) -> None:
    assert Unreadable("it is wrong", code).status == status
