"""Mails as relays and mail programs fold them."""

import base64

import pytest

from msh.wire import package_of
from msh.wire.ebms2 import envelope
from tests.cases import package, payload, root_of
from tests.peer.ebms2 import message

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
