"""`conversations`: those in order, and the console's actions on them by its flows."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from msh.models import History, InboundConversation, OutboundConversation
from msh.protocol.flight import serial
from partners.models import Agreement, Partner
from tests.api.application import Answer, Application
from tests.api.conftest import Tokens
from tests.api.test_access import assert_problem
from tests.endpoint.ebms2 import agree
from tests.flows.conversations_in.conversation import take
from tests.flows.flying import REFUSED, Sky, make_sky

pytestmark = pytest.mark.django_db

OUT = ("view_outboundlink", "reset_sequence_outboundlink")
IN = ("view_inboundlink", "expect_inboundlink")
REASON = {"reason": "agreed by phone"}


@pytest.fixture
def agreement() -> Agreement:
    partner = Partner.objects.create(name="hospital", uri="http://peer.example/ebms/")
    return agree(partner, ordered=True)


@pytest.fixture
def sky() -> Sky:
    return make_sky(ordered=True)


@pytest.fixture
def operator(token: Tokens) -> Application:
    return token("operate", may=(*OUT, *IN))


def ended(sky: Sky, conversation: str, *, refused: bool = False) -> OutboundConversation:
    """One message of it was acknowledged, or refused."""
    message = sky.submit(conversation_id=conversation)
    (job,) = sky.poll()
    if refused:
        sky.end(job, REFUSED)
    else:
        sky.answer(message)
    return OutboundConversation.objects.get(conversation_id=conversation)


def waiting(agreement: Agreement, *numbers: int, name: str = "talk") -> InboundConversation:
    take(agreement, *numbers, conversation=name)
    return InboundConversation.objects.get(conversation_id=name)


def act(by: Application, path: str, **fields: Any) -> Answer:
    return by.post(f"conversations/{path}", {**REASON, **fields})


def test_conversations_to_partners(sky: Sky, operator: Application) -> None:
    running, stopped = ended(sky, "calm"), ended(sky, "talk", refused=True)
    first, second = operator.get("conversations/out").json["results"]
    about = {"partner": sky.partner.name, "tpa_id": sky.agreement.tpa_id}
    assert first == {
        **about,
        "id": running.pk,
        "conversation_id": "calm",
        "next_number": 1,
        "resets": False,
        "state": "running",
        "stopped_by": [],
        "broken": False,
        "used_at": first["used_at"],
    }
    assert (second["state"], second["stopped_by"]) == ("stopped", stopped.stopped_by)
    assert stopped.stopped_by

    def found(**query: Any) -> list[int]:
        page = operator.get("conversations/out", **query).json
        return [one["id"] for one in page["results"]]

    assert found(waiting="true") == [stopped.pk]
    assert found(waiting="false") == [running.pk]
    assert found(conversation_id="calm", tpa_id=sky.agreement.tpa_id) == [running.pk]
    assert found(conversation_id="calm", tpa_id="another") == []
    assert found(limit=1) == [running.pk]
    assert found(after=running.pk) == [stopped.pk]


def test_conversations_from_partners(agreement: Agreement, operator: Application) -> None:
    calm, lacking = waiting(agreement, 0, name="calm"), waiting(agreement, 2, 3)
    first, second = operator.get("conversations/in").json["results"]
    assert (first["id"], first["next_number"], first["held"]) == (calm.pk, 1, 0)
    assert (first["held_since"], first["due"], first["called"]) == (None, None, False)
    assert (second["id"], second["next_number"], second["held"]) == (lacking.pk, 0, 2)
    assert (second["partner"], second["tpa_id"]) == ("hospital", agreement.tpa_id)
    assert None not in (second["held_since"], second["due"])
    (only,) = operator.get("conversations/in", waiting="true").json["results"]
    assert only == second
    (only,) = operator.get("conversations/in", waiting="false").json["results"]
    assert only == first


@pytest.mark.requirement("EB-124")
def test_a_conversation_is_restarted(sky: Sky, operator: Application) -> None:
    row = ended(sky, "talk")
    answer = act(operator, f"out/{row.pk}/restart-conversation")
    assert answer.json == {
        "id": row.pk,
        "partner": sky.partner.name,
        "tpa_id": sky.agreement.tpa_id,
        "conversation_id": "talk",
        "next_number": 0,
        "text": "The next message has number 0 with Reset.",
    }
    entry = History.objects.get(event="ConversationRestarted")
    assert entry.actor == operator.name
    assert entry.detail.endswith(f"agreed by phone (API token {operator.name})")
    again = act(operator, f"out/{row.pk}/restart-conversation")
    assert_problem(again, 409, "Cannot restart conversation talk", "already restarted")
    answer = act(operator, f"out/{row.pk}/start-order", last=41)
    assert answer.json["next_number"] == 42


@pytest.mark.requirement("EB-130", "EB-132")
def test_what_is_done_about_a_missing_message(agreement: Agreement, operator: Application) -> None:
    row = waiting(agreement, 0, 2, 5)
    path = f"in/{row.pk}"
    InboundConversation.objects.filter(pk=row.pk).update(due=timezone.now() - timedelta(hours=1))
    answer = act(operator, f"{path}/extend-wait")
    assert answer.json["text"] == "Wait extended. Number 1 comes next; 2 messages are held."
    assert InboundConversation.objects.filter(pk=row.pk, due__gt=timezone.now()).exists()
    assert act(operator, f"{path}/skip-missing").json["next_number"] == 3
    answer = act(operator, f"{path}/drop-held")
    assert answer.json["text"] == "Dropped. Number 3 comes next; 0 messages are held."
    assert_problem(act(operator, f"{path}/drop-held"), 409, "Conversation talk")
    assert act(operator, f"{path}/start-order", last=8).json["next_number"] == 9
    assert_problem(act(operator, f"{path}/start-order", last=3), 409, "Conversation talk")


def test_an_action_sent_twice_is_done_once(
    agreement: Agreement, sky: Sky, operator: Application
) -> None:
    """A client that got no answer sends it again: the next hole is not skipped too."""
    hole, row = waiting(agreement, 0, 2, 5), ended(sky, "talk")
    skip, start = f"in/{hole.pk}/skip-missing", f"out/{row.pk}/start-order"
    assert act(operator, skip, if_next_number=1).status == 200
    again = act(operator, skip, if_next_number=1)
    assert_problem(again, 409, "number 3 comes next, not 1", "check it again")
    assert act(operator, start, last=6, if_next_number=1).status == 200
    assert_problem(act(operator, start, last=6, if_next_number=1), 409, "number 7 comes next")
    restart = f"out/{row.pk}/restart-conversation"
    assert_problem(act(operator, restart, if_next_number=6), 409, "number 7 comes next, not 6")
    hole.refresh_from_db()
    assert hole.next_number == 3


def test_lists_need_permission(token: Tokens) -> None:
    for direction, permission in (("out", OUT[0]), ("in", IN[0])):
        answer = token("operate").get(f"conversations/{direction}")
        assert_problem(answer, 403, f"msh.{permission}")


def test_what_cannot_be(agreement: Agreement, operator: Application) -> None:
    row = waiting(agreement, 0)
    assert_problem(act(operator, "in/999/skip-missing"), 404)
    assert_problem(act(operator, f"in/{row.pk}/start-order"), 422, "last")
    too_high = act(operator, f"in/{row.pk}/start-order", last=serial.LAST + 1)
    assert_problem(too_high, 422, "last")
    assert_problem(act(operator, f"in/{row.pk}/extend-wait", last=1), 422, "last")
    assert_problem(act(operator, f"in/{row.pk}/extend-wait", reason=""), 422, "reason")
    assert_problem(operator.get("conversations/in", partner="x"), 400, "conversation_id")
