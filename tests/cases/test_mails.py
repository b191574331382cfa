"""Mails as relays and mail programs fold them, and one that hides another."""

import base64
import socket

import pytest

from msh.models import InboundMessage
from msh.smtpd import Listening
from msh.wire import package_of
from msh.wire.ebms2 import envelope
from tests.cases import package, payload, root_of
from tests.flows.flying import Sky
from tests.peer.ebms2 import message
from tests.smtpd.conftest import serving
from tests.smtpd.test_ebms2 import THEM, US, of, sky

__all__ = ["sky"]

FOLDED = [
    'Content-Type:\r\n multipart/related; type="text/xml"; boundary="peer-boundary"',
    'Content-Type: multipart/related;\r\n\ttype="text/xml";\r\n\tboundary="peer-boundary"',
    'Content-Type: multipart/related\r\n ;type = "text/xml"\r\n ;boundary\r\n =\r\n peer-boundary',
    'Content-Type: multipart/related (a (b) c);\r\n (the; boundary="x") boundary=peer-boundary',
    "Content-Type: multipart/related; type=text/xml; boundary*0=peer-;\r\n boundary*1=boundary",
    "Content-Type: multipart/related; type=text/xml; boundary*=us-ascii''peer%2Dboundary",
    'CONTENT-TYPE: Multipart/Related; Type="TEXT/XML"; Boundary=peer-boundary;',
]


@pytest.mark.requirement("EB-161")
@pytest.mark.parametrize("content_type", FOLDED)
def test_content_type_of_a_mail_folded_in_any_way(content_type: str) -> None:
    out = message()
    head = f"From: a@b\r\n{content_type}\r\nMIME-Version: 1.0 (x)\r\n\r\n".encode()

    received = envelope.parse(*package_of(head + package(root_of(out), payload())))

    assert received.message.header.message_id == out.message_id
    assert [one.content for one in received.payloads] == [b"<order/>"]
    assert received.defects == ()


@pytest.mark.requirement("EB-161")
@pytest.mark.parametrize("encoding", ["base64 (MIME)", '"base64"', "BASE64\t"])
def test_transfer_encoding_of_a_mail_with_a_comment(encoding: str) -> None:
    out = message()
    head = f"{FOLDED[0]}\r\nContent-Transfer-Encoding: {encoding}\r\n\r\n".encode()
    body = base64.encodebytes(package(root_of(out), payload()))

    received = envelope.parse(*package_of(head + body))

    assert received.message.header.message_id == out.message_id


def _talk(port: int, *pieces: bytes) -> bytes:
    """What the server says to a whole dialogue, sent at once after the greeting."""
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        said = connection.recv(1000)
        connection.sendall(b"".join(pieces))
        while piece := connection.recv(10_000):
            said += piece
    return said


@pytest.mark.django_db
@pytest.mark.parametrize("end", [b"\n.\r\n", b"\r\n.\n", b"\n.\n", b"\r.\r\n", b"\r\n.\r"])
def test_one_mail_never_holds_another(sky: Sky, end: bytes) -> None:
    """A dot on a line of its own ends a mail only between CRLFs."""
    first, second = (of(sky, message(payloads=())) for _ in range(2))
    begin = b"".join(
        (
            b"EHLO them.example\r\nAUTH PLAIN ",
            base64.b64encode(b"\0them\0secret"),
            f"\r\nMAIL FROM:<{THEM}>\r\nRCPT TO:<{US}>\r\nDATA\r\n".encode(),
        )
    )
    head = b'Content-Type: text/xml; charset="UTF-8"\r\n\r\n'
    hidden = begin.partition(b"\r\nMAIL")[1] + begin.partition(b"\r\nMAIL")[2]
    listening = Listening("127.0.0.1", 0)
    with serving(listening) as port:
        said = _talk(
            port,
            begin + head + first.body + end + hidden.removeprefix(b"\r\n"),
            head + second.body + b"\r\n.\r\nQUIT\r\n",
        )

    assert said.count(b"\r\n354") == 1
    assert not InboundMessage.objects.filter(message_id=second.message_id).exists()
