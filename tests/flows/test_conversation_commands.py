"""The commands on a conversation that is sent in order."""

import json
from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from msh.models import History
from msh.protocol.ebms.message import MessageOrder

from .flying import make_sky
from .test_conversations_out import CONTINUE, orders, submit

pytestmark = pytest.mark.django_db


def said_by(*command: str) -> dict[str, object]:
    out = StringIO()
    call_command(*command, "--json", stdout=out)
    answer: dict[str, object] = json.loads(out.getvalue())
    return answer


@pytest.mark.requirement("EB-124")
def test_the_commands_name_agreement_and_conversation() -> None:
    sky = make_sky(ordered=True)
    about = (sky.agreement.tpa_id, "talk")
    assert said_by("start-order", *about, "--direction", "out", "--last", "41") == {
        "tpa_id": sky.agreement.tpa_id,
        "partner": sky.partner.name,
        "conversation": "talk",
        "direction": "out",
        "last": 41,
        "text": "Started.",
    }
    (message,) = submit(sky, "talk")
    assert orders(sky.poll()) == [MessageOrder(42, CONTINUE)]
    for command in (("restart-conversation",), ("start-order", "--direction=out", "--last=9")):
        with pytest.raises(
            CommandError,
            match="1 message of the conversation is neither acknowledged nor cancelled",
        ):
            call_command(command[0], *about, *command[1:], "--reason", "why")
    sky.answer(message)
    said = said_by("restart-conversation", *about, "--reason", "they lost it")
    assert said["conversation"] == "talk"
    assert History.objects.get(event="ConversationRestarted").detail.endswith("they lost it")
    with pytest.raises(CommandError, match="No agreement x"):
        call_command("restart-conversation", "x", "talk", "--reason", "why")
    with pytest.raises(CommandError, match="The last number is 0 to 99999999"):
        call_command("start-order", *about, "--direction=out", "--last=100000000")
