"""Special characters in what we send: they arrive as submitted, or are refused at once."""

import json

import pytest
from django.test import Client

from msh.models import OutboundMessage
from tests.admin.conftest import url
from tests.api.application import Application, order
from tests.api.conftest import Tokens
from tests.flows.world import World

pytestmark = pytest.mark.django_db

LABEL = "Tom & Jerry <1>.pdf \"x\" 'y' ✅"


def test_special_characters_reach_the_page_as_they_were_submitted(
    administrator: Client, token: Tokens, world: World
) -> None:
    shop: Application = token("send", "read")
    content = [{"content": "<a/>", "label": LABEL}]
    fields = {"conversation_id": "conv & <31>", "payloads": content}
    assert shop.post("messages", order(world, "case-31", **fields)).status == 201
    message = OutboundMessage.objects.get()
    assert (message.conversation_id, message.payloads.get().label) == ("conv & <31>", LABEL)
    page = administrator.get(url(OutboundMessage, "change", message.pk)).content.decode()
    assert "Tom &amp; Jerry &lt;1&gt;.pdf" in page
    assert "conv &amp; &lt;31&gt;" in page
    (job,) = world.poll()
    world.hand_over(job)


@pytest.mark.parametrize(
    "payload",
    [
        {"content": "x", "label": "a\r\nX-Injected: 1"},
        {"content": "x", "content_type": "text/plain\r\nX-Injected: 1"},
        {"content": "x", "label": "\ufffe"},
        {"content": "x", "label": "a\u0000b"},
        {"content": "x", "label": "\ud800"},
        {"content": "\ud800"},
    ],
    ids=["label CRLF", "type CRLF", "U+FFFE", "NUL", "surrogate", "surrogate content"],
)
def test_what_cannot_be_sent_is_refused_at_submission(
    token: Tokens, world: World, payload: dict[str, str]
) -> None:
    shop: Application = token("send")
    body = json.dumps(order(world, "case-31b", payloads=[payload])).encode()
    assert shop.ask("POST", "messages", body, "application/json").status in (400, 422)
    assert not OutboundMessage.objects.exists()
