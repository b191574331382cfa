"""What public bug reports of other gateways are about, each with its right answer."""

import gzip
from dataclasses import dataclass

import pytest
from django.contrib.auth.models import User
from django.test import Client

from msh.models import InboundMessage, Signal
from partners.models import Partner
from tests.endpoint.ebms2 import Send, answers
from tests.peer.ebms2 import SYNC_REPLY, Envelope, acknowledgment, message

pytestmark = pytest.mark.django_db(transaction=True)


@dataclass(frozen=True)
class Raw:
    body: bytes
    content_type: str


@pytest.mark.requirement("EB-006", "EB-026")
def test_root_part_without_charset_is_utf_8(send: Send) -> None:
    said = "<eb:Description xml:lang='sv'>Å 50 €</eb:Description></eb:MessageHeader>"
    out = message()
    document = out.body.replace(b"text/xml; charset=UTF-8", b"text/xml")
    body = document.replace(b"</eb:MessageHeader>", said.encode())

    assert send(Raw(body, out.content_type)).status == 204

    assert said.encode() in bytes(InboundMessage.objects.get().header)
    assert [one.action for one in answers(out)] == ["Acknowledgment"]


@pytest.mark.requirement("EB-003")
def test_first_part_is_the_root_though_it_has_no_header(send: Send) -> None:
    out = message()
    headers = b"Content-ID: <envelope@peer>\r\nContent-Type: text/xml; charset=UTF-8\r\n"
    body = out.body.replace(headers, b"")
    assert body != out.body

    assert send(Raw(body, 'multipart/related; boundary="peer-boundary"')).status == 204

    (payload,) = InboundMessage.objects.get().payloads.all()
    assert bytes(payload.content) == b"<order/>"


@pytest.mark.requirement("EB-043", "EB-073", "EB-094")
def test_one_cpa_may_have_messages_of_several_kinds(send: Send, ebms2: Partner) -> None:
    """Each is answered in its own way."""
    ebms2.agreements.update(sync_reply="mshSignalsOnly", lenient=["EB-043"])
    reliable = message(action="New")
    best_effort = message(action="Query", ack_requested="", eliminates=False)
    on_connection = message(action="Price", extra=SYNC_REPLY)

    responses = [send(one) for one in (reliable, best_effort, on_connection)]

    assert [one.status for one in responses] == [204, 204, 200]
    assert Envelope(responses[2].body).ref_to_message_id == on_connection.message_id
    pending = Signal.objects.filter(pending__gt=0).values_list("ref_to_message_id", flat=True)
    assert list(pending) == [reliable.message_id]
    assert InboundMessage.objects.count() == 3


def test_ids_are_compared_within_their_kind(send: Send) -> None:
    """One value for MessageId, ConversationId and what another message refers to."""
    one = "case@peer.example"
    first = message(message_id=one, conversation_id=one)
    second = message(conversation_id=one, ref_to_message_id=one)

    for out in (first, second, acknowledgment(one, conversation_id=one)):
        assert (send(out).status, send(out).error) == (204, "")

    stored = InboundMessage.objects.order_by("pk").values_list("message_id", "duplicates")
    assert list(stored) == [(one, 1), (second.message_id, 1)]
    assert [each.action for each in answers(first)] == ["Acknowledgment"]


@pytest.mark.requirement("EB-010")
def test_text_that_is_gzip_is_kept_and_shown_as_what_it_is(send: Send) -> None:
    content = gzip.compress(b"lines\n" * 100, mtime=0)
    kind = "text/plain; charset=utf-8"
    out = message(payloads=(("lines@peer", kind, content),))

    send(out)

    stored = InboundMessage.objects.get()
    payload = stored.payloads.get()
    assert (bytes(payload.content), payload.content_type) == (content, kind)
    browser = Client()
    root = User.objects.create_superuser("root")
    browser.force_login(root, backend="django.contrib.auth.backends.ModelBackend")
    assert browser.get(f"/admin/msh/inboundmessage/{stored.pk}/change/").status_code == 200
