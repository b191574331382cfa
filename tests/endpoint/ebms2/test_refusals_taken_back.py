"""A refusal that is kept, and taken back by an operator."""

import json

import pytest
from django.core.management import CommandError, call_command

from msh.models import History, InboundMessage, Signal
from partners.models import Partner
from tests.endpoint.ebms2 import Send, answers
from tests.peer.ebms2 import SYNC_REPLY, message

pytestmark = pytest.mark.django_db(transaction=True)

WHY = ("--reason", "the agreement was wrong")


@pytest.mark.requirement("EB-101", "EB-112")
def test_same_bytes_are_accepted_once_after_the_refusal_is_taken_back(
    send: Send, ebms2: Partner, capsys: pytest.CaptureFixture[str]
) -> None:
    out = message(extra=SYNC_REPLY)
    refused = send(out)
    ebms2.agreements.update(sync_reply="mshSignalsOnly")
    assert send(out).error == refused.error

    call_command("take-back-refusal", ebms2.name, "--message", out.message_id, *WHY, "--json")

    assert json.loads(capsys.readouterr().out)["refused"] == refused.error
    assert [send(out).status for _ in range(3)] == [200] * 3
    assert InboundMessage.objects.get().duplicates == 2
    assert [one.action for one in answers(out)] == ["MessageError", "Acknowledgment"]
    row = History.objects.of_message(out.message_id).get(event="RefusalTakenBack")
    assert "the agreement was wrong" in row.detail


def test_refusal_that_is_right_is_kept_again(send: Send, ebms2: Partner) -> None:
    out = message(time_to_live="2020-01-01T00:00:00Z")
    send(out)
    call_command("take-back-refusal", ebms2.name, "--message", out.message_id, *WHY)

    send(out)

    assert Signal.objects.get().content_digest is not None
    send(out.but(action="Cancel"))
    assert [one.errors[0][0] for one in answers(out)] == ["TimeToLiveExpired", "Inconsistent"]


def test_what_was_not_refused_cannot_be_taken_back(send: Send, ebms2: Partner) -> None:
    out = message()
    send(out)
    with pytest.raises(CommandError, match="No refusal of a message"):
        call_command("take-back-refusal", ebms2.name, "--message", out.message_id, *WHY)
