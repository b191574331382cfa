"""What public bug reports of other gateways are about, each with its right answer."""

import gzip

import pytest
from django.contrib.auth.models import User
from django.test import Client

from msh.models import InboundMessage, Signal
from partners.models import Partner
from tests.endpoint.ebms2 import Send
from tests.peer.ebms2 import SYNC_REPLY, Envelope, message

pytestmark = pytest.mark.django_db(transaction=True)


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
