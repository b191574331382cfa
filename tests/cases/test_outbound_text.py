"""Special characters in what we send: the same text at the partner, or 422 that names the field."""

import email
import json
from typing import Any

import pytest

from msh.models import OutboundMessage
from tests.api.application import Application
from tests.api.conftest import shop, token
from tests.api.test_ebms2 import note
from tests.flows.flying import Sky, make_sky
from tests.peer.ebms2 import Envelope
from tests.wire.reading_parameters import file_name_of

__all__ = ["shop", "token"]

pytestmark = pytest.mark.django_db

SENT = [
    "Tom & Jerry <1>.pdf \"x\" 'y' \u2705",
    "]]> <!-- --> &amp; &#0; ${x} %s %41",
    "\xe5\u4e2d\U0001f600 \u0301e",
    "a" * 255,
]
REFUSED = [
    "a\r\nX-Injected: 1",
    "a\nb",
    "a\x00b",
    "\ufffe",
    "\ud800",
    "\u202eabc",
    "a" * 10_000,
    " a",
    "\x85",
]


def submission(sky: Sky, field: str, text: str) -> dict[str, Any]:
    payload: dict[str, Any] = {"content": "<a/>", "content_type": "text/xml"}
    whole = note(sky, "case@us.example", payloads=[payload])
    (payload if field in ("label", "description", "content_type") else whole)[field] = text
    return whole


def sent(sky: Sky) -> tuple[Envelope, email.message.Message]:
    """The envelope and the payload part, as another reader takes the POST apart."""
    (job,) = sky.poll()
    head = f"Content-Type: {job.content_type}\r\n\r\n".encode()
    package: Any = email.message_from_bytes(head + job.body)
    root, part = package.get_payload()
    content: Any = root.get_payload(decode=True)
    return Envelope(content), part


@pytest.mark.requirement("EB-018", "EB-051")
@pytest.mark.parametrize("text", SENT)
@pytest.mark.parametrize(
    ("field", "path"),
    [
        ("label", ""),
        ("description", "eb:Reference/eb:Description"),
        ("action", "eb:Action"),
        ("conversation_id", "eb:ConversationId"),
        ("from_role", "eb:From/eb:Role"),
        ("service_type", ""),
        ("message_id", "eb:MessageData/eb:MessageId"),
    ],
)
def test_text_that_can_be_sent_comes_out_as_it_went_in(
    shop: Application, field: str, path: str, text: str
) -> None:
    sky = make_sky()

    assert shop.post("messages", submission(sky, field, text)).status == 201

    envelope, part = sent(sky)
    if path:
        assert envelope.text(path) == text
    if field == "service_type":
        (service,) = envelope.all("eb:Service")
        assert text in service.attrib.values()
    if field == "label":
        assert file_name_of(str(part["Content-Disposition"])) == text
    assert set(part.keys()) <= {"Content-ID", "Content-Type", "Content-Disposition"}


@pytest.mark.requirement("EB-051")
@pytest.mark.parametrize("text", REFUSED)
@pytest.mark.parametrize("field", ["label", "action", "conversation_id", "from_role", "message_id"])
def test_text_that_cannot_be_sent_is_refused_at_submission(
    shop: Application, field: str, text: str
) -> None:
    sky = make_sky()
    body = json.dumps(submission(sky, field, text)).encode()

    answer = shop.post("messages", body)

    assert answer.status in (400, 422)
    assert field in answer.content.decode() or "surrogate" in answer.content.decode()
    assert not OutboundMessage.objects.exists()
    assert sky.poll() == []


@pytest.mark.parametrize(
    "text",
    ["text/plain\r\nX-Injected: 1", "text/\xe5", "a", "text/plain; x=\x00", "a/b;" + "c" * 300],
)
def test_content_type_that_no_header_can_hold_is_refused(shop: Application, text: str) -> None:
    sky = make_sky()

    answer = shop.post("messages", submission(sky, "content_type", text))

    assert answer.status in (400, 422)
    assert not OutboundMessage.objects.exists()


@pytest.mark.requirement("EB-051")
def test_label_with_a_path_is_one_name(shop: Application) -> None:
    sky = make_sky()
    assert shop.post("messages", submission(sky, "label", "12/2026 \\a.pdf")).status == 201

    _, part = sent(sky)

    assert part.get_filename() == "12_2026 _a.pdf"
