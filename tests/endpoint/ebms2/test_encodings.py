"""Content-Transfer-Encoding and Content-Encoding in the head of the HTTP request."""

import base64
import binascii
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from msh.models import InboundMessage
from tests.endpoint.ebms2 import Send
from tests.peer.ebms2 import Outgoing, message

ENCODED: dict[str, Callable[[bytes], bytes]] = {
    "base64": base64.encodebytes,
    "BASE64 ": base64.b64encode,
    "quoted-printable": binascii.b2a_qp,
}


@dataclass(frozen=True)
class Encoded(Outgoing):
    content: bytes = b""

    @property
    def body(self) -> bytes:
        return self.content


def with_body(out: Outgoing, content: bytes) -> Outgoing:
    fields = {name: getattr(out, name) for name in out.__dataclass_fields__}
    return Encoded(**fields, content=content)


ONE_ENTITY = message(payloads=())
PACKAGE = message()


@pytest.mark.requirement("EB-005")
@pytest.mark.parametrize("encoding", ENCODED)
def test_one_entity_may_have_a_transfer_encoding(send: Send, encoding: str) -> None:
    content = ENCODED[encoding](ONE_ENTITY.body)

    response = send(with_body(ONE_ENTITY, content), **{"Content-Transfer-Encoding": encoding})

    assert response.status == 204
    assert InboundMessage.objects.get().message_id == ONE_ENTITY.message_id


@pytest.mark.parametrize("out", [ONE_ENTITY, PACKAGE])
@pytest.mark.parametrize("encoding", ["binary", "8bit", "7bit", "Binary", " 8BIT (none)"])
def test_no_encoding_at_all_changes_nothing(send: Send, out: Outgoing, encoding: str) -> None:
    assert send(out, **{"Content-Transfer-Encoding": encoding}).status == 204
    assert InboundMessage.objects.get().message_id == out.message_id


@pytest.mark.parametrize(
    ("out", "encoding"),
    [
        (with_body(PACKAGE, base64.encodebytes(PACKAGE.body)), "base64"),
        (PACKAGE, "base64"),
        (ONE_ENTITY, "base64"),
        (ONE_ENTITY, "x-uuencode"),
        (ONE_ENTITY, "binary, base64"),
    ],
)
def test_what_cannot_be_decoded_is_refused_with_the_name_of_the_header(
    send: Send, out: Outgoing, encoding: str
) -> None:
    response = send(out, **{"Content-Transfer-Encoding": encoding})
    assert "Content-Transfer-Encoding" in response.error
    assert response.status in (400, 500)
    assert not InboundMessage.objects.exists()


@pytest.mark.parametrize("encoding", ["gzip", "br", "gzip, identity"])
def test_a_content_encoding_is_415_and_says_what_is_taken(send: Send, encoding: str) -> None:
    response = send(PACKAGE, **{"Content-Encoding": encoding})
    assert response.status == 415
    assert response.headers["Accept-Encoding"] == "identity"
    assert not InboundMessage.objects.exists()


def test_another_type_is_415_without_a_word_about_encodings(send: Send) -> None:
    response = send(PACKAGE, **{"Content-Type": "text/plain"})
    assert (response.status, response.headers.get("Accept-Encoding")) == (415, None)
