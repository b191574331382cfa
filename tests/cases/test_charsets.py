"""Charsets of envelopes: what a header and an XML declaration may say."""

import pytest

from msh.models import InboundMessage
from tests.cases import NAMED, package, part, payload
from tests.cases.conftest import Post
from tests.endpoint.ebms2 import answers, assert_fault
from tests.peer.ebms2 import message

pytestmark = pytest.mark.django_db(transaction=True)

RELATED = "multipart/related; type=text/xml; boundary=peer-boundary"


def envelope(name: str, codec: str, conversation: str = "\xe5\xf8 1") -> tuple[str, bytes]:
    """A MessageId, and an envelope that declares its charset; "" for no declaration."""
    out = message(conversation_id=conversation)
    head = f'<?xml version="1.0" encoding="{name}"?>' if name else ""
    return out.message_id, (head + out.envelope).encode(codec)


@pytest.mark.requirement("EB-006", "EB-026")
@pytest.mark.parametrize(
    ("said", "declared", "codec"),
    [
        ("; charset=ISO-8859-1", "ISO-8859-1", "latin-1"),
        ('; charset="iso-8859-1"', "iso-8859-1", "latin-1"),
        ("; charset=UTF-16", "UTF-16", "utf-16"),
        ("; charset=UTF-16", "", "utf-16"),
        ("", "", "utf-8"),
        ("", "utf-8", "utf-8-sig"),
        ("; charset=utf-8", "", "utf-8"),
    ],
)
def test_envelope_in_another_charset(post: Post, said: str, declared: str, codec: str) -> None:
    """It is read, the answer is UTF-8, and what is stored is what came."""
    message_id, content = envelope(declared, codec)
    root = part(f"Content-ID: {NAMED}", f"Content-Type: text/xml{said}", content=content)

    assert post(package(root, payload()), RELATED).status == 204

    stored = InboundMessage.objects.get(message_id=message_id)
    assert stored.conversation_id == "\xe5\xf8 1"
    assert bytes(stored.header) == content


@pytest.mark.requirement("EB-006")
@pytest.mark.parametrize(
    ("said", "declared", "codec"),
    [
        ("; charset=ISO-8859-1", "UTF-8", "latin-1"),
        ("; charset=UTF-8", "ISO-8859-1", "latin-1"),
        ("; charset=windows-1252", "windows-1252", "cp1252"),
        ("", "", "latin-1"),
    ],
)
def test_charsets_that_contradict_each_other(
    post: Post, said: str, declared: str, codec: str
) -> None:
    _, content = envelope(declared, codec)
    root = part(f"Content-ID: {NAMED}", f"Content-Type: text/xml{said}", content=content)

    assert_fault(post(package(root, payload()), RELATED), 500, "Client")
    assert not InboundMessage.objects.exists()


@pytest.mark.requirement("EB-006")
def test_answer_to_latin_1_is_utf_8(post: Post) -> None:
    out = message(conversation_id="\xe5", payloads=())
    document = f'<?xml version="1.0" encoding="iso-8859-1"?>{out.envelope}'.encode("latin-1")

    assert post(document, "text/xml; charset=iso-8859-1").status == 204

    (answer,) = answers(out)
    assert answer.text("eb:ConversationId") == "\xe5"
