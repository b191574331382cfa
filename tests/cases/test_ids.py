"""MessageIds of any form, as partners send them: taken as they are, answered as they are."""

import pytest

from msh.models import InboundMessage
from tests.endpoint.ebms2 import Send, answers
from tests.peer.ebms2 import message

pytestmark = pytest.mark.django_db(transaction=True)

IDS = [
    "a/b?c#d%20e_%25",
    "x/history",
    "y/payloads/1",
    "..",
    "../messages",
    "a b",
    "%",
    "_",
    "\u202eabc",
    "0",
    "None",
    "id;rm",
    "a" * 255,
    "\U0001f600" * 255,
    "<a@b>",
    "a&b<c>\"d'",
    "\xa0",
    "=cmd|' /C calc'!A0",
]


@pytest.mark.requirement("EB-036")
def test_ids_of_any_form_are_different_ids(send: Send, ebms2: object) -> None:
    """Each message is stored once under its own id, and its Acknowledgment refers to it."""
    for message_id in IDS:
        out = message(message_id=message_id)
        assert [send(out).status, send(out).status] == [204, 204], message_id
        (answer,) = answers(out)
        assert answer.ref_to_message_id == message_id

    stored = InboundMessage.objects.order_by("pk").values_list("message_id", "duplicates")
    assert list(stored) == [(message_id, 1) for message_id in IDS]


@pytest.mark.requirement("EB-036")
@pytest.mark.parametrize("message_id", [" lead", "trail ", "\n1\t"])
def test_white_space_around_an_id_does_not_count(send: Send, message_id: str) -> None:
    assert send(message(message_id=message_id)).status == 204
    assert InboundMessage.objects.get().message_id == message_id.strip()


@pytest.mark.parametrize("wide", ["\u4e2d", "\U0001f600", "\u20ac"])
def test_values_of_1024_wide_characters_are_stored(send: Send, wide: str) -> None:
    """No index has a limit that a value of a partner can reach."""
    value = "".join(chr(ord(wide) + number % 97) for number in range(1024))
    out = message(conversation_id=value, action=value, ref_to_message_id=value[:255])

    assert send(out).status == 204

    (answer,) = answers(out)
    assert (answer.action, answer.text("eb:ConversationId")) == ("Acknowledgment", value)
