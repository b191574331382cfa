"""Conversations that we receive in order: holes that stay, and what operators do."""

from datetime import timedelta

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from msh.flows.errors import NotPossible
from msh.flows.operations import change_incident
from msh.flows.operations.watch import watch
from msh.models import History, InboundConversation, InboundMessage, Incident
from partners.models import Agreement, Partner
from tests.endpoint.ebms2 import agree
from tests.flows.conversations_in.conversation import (
    HORIZON,
    OPERATOR,
    WHY,
    delivered,
    make_due,
    of,
    open_incidents,
    run,
    take,
)

pytestmark = pytest.mark.django_db


@pytest.mark.requirement("EB-130", "EB-132")
def test_operator_is_called_for_a_hole_after_the_horizon(agreement: Agreement) -> None:
    take(agreement, 0, 2)
    take(agreement, 7, conversation="late")
    due = of().due
    assert due is not None
    assert due - of().last_at == timedelta(seconds=HORIZON)
    watch()
    assert open_incidents() == []

    make_due(conversation_id="talk")
    watch()
    watch()

    detail = "conversation talk: number 1 is missing: 1 message waits for number 1"
    assert open_incidents() == [("predecessor_missing", detail)]
    make_due(conversation_id="late")
    watch()
    assert Incident.objects.get().count == 2
    take(agreement, 1)
    assert len(open_incidents()) == 1  # of the other conversation
    take(agreement, *range(7), conversation="late")
    assert open_incidents() == []
    assert delivered()[-1] == "late-7"


@pytest.mark.requirement("EB-132")
def test_an_incident_is_not_resolved_while_its_hole_is_open(agreement: Agreement) -> None:
    take(agreement, 0, 2)
    make_due()
    watch()
    incident = Incident.objects.get()

    with pytest.raises(NotPossible, match="talk of partner hospital lacks number 1"):
        change_incident.resolve(incident, OPERATOR)

    assert len(open_incidents()) == 1
    take(agreement, 1)
    assert open_incidents() == []


def test_hole_that_is_not_due_is_left_alone(agreement: Agreement) -> None:
    take(agreement, 0, 2)
    before = of().last_at

    watch()

    assert of().last_at == before


@pytest.mark.requirement("EB-132")
def test_hole_behind_a_clock_that_was_set_back_is_due(agreement: Agreement) -> None:
    take(agreement, 0, 2)
    InboundConversation.objects.update(due=timezone.now() + timedelta(seconds=3 * HORIZON))

    watch()

    assert len(open_incidents()) == 1


@pytest.mark.requirement("EB-132")
def test_operator_delivers_past_the_hole(agreement: Agreement) -> None:
    take(agreement, 0, 2, 3, 6)
    make_due()
    watch()

    answer = run("skip-missing", *WHY)

    assert answer == {
        "tpa_id": "cpa-1",
        "partner": "hospital",
        "conversation": "talk",
        "direction": "in",
        "next_number": 4,
        "held": 1,
        "text": "Skipped. Number 4 comes next; 1 message is held.",
    }
    assert delivered() == ["talk-0", "talk-2", "talk-3"]
    assert open_incidents() == []
    assert of().due is not None  # for the next hole
    entry = History.objects.get(event="MissingSkipped")
    assert (entry.subject, entry.direction) == ("link", "in")
    assert entry.detail.startswith("conversation talk: next number 1 → 4, held 3 → 1; the partner")
    released = History.objects.filter(event="MessageReleased").order_by("pk")
    assert [one.message_id for one in released] == ["talk-2", "talk-3"]
    assert {one.actor for one in (*released, entry)} == {entry.actor} != {"msh"}


@pytest.mark.requirement("EB-132")
def test_operator_drops_what_is_held(agreement: Agreement) -> None:
    take(agreement, 0, 2)
    take(agreement, 0, 2, conversation="other")
    make_due(conversation_id="talk")
    watch()

    assert run("drop-held", *WHY)["held"] == 0

    assert InboundMessage.objects.get(message_id="talk-2").state == "rejected"
    assert open_incidents() == []
    take(agreement, 1)
    take(agreement, 1, conversation="other")
    assert sorted(delivered()) == ["other-0", "other-1", "other-2", "talk-0", "talk-1"]
    for command in ("drop-held", "skip-missing", "extend-wait"):
        with pytest.raises(CommandError, match="nothing is held"):
            run(command, *WHY)


@pytest.mark.requirement("EB-132")
def test_operator_waits_on(agreement: Agreement) -> None:
    take(agreement, 0, 2)
    make_due()
    watch()

    assert run("extend-wait", *WHY)["held"] == 1

    assert open_incidents() == []
    assert of().due is not None
    make_due()
    watch()
    assert len(open_incidents()) == 1


@pytest.mark.requirement("EB-130")
def test_operator_lets_a_conversation_begin_with_any_number(agreement: Agreement) -> None:
    take(agreement, 5, 6)

    answer = run("start-order", "--direction", "in", "--last", "4")

    assert (answer["direction"], answer["last"]) == ("in", 4)
    assert delivered() == ["talk-5", "talk-6"]
    run("start-order", "--direction", "in", "--last", "41", conversation="new")
    take(agreement, 42, conversation="new")
    assert delivered()[2:] == ["new-42"]
    for last in ("41", "42", "-1", "100000000"):
        with pytest.raises(CommandError):
            run("start-order", "--direction", "in", "--last", last, conversation="new")
    Agreement.objects.update(ordered=False)
    with pytest.raises(CommandError, match="not ordered"):
        run("start-order", "--direction", "in", "--last", "50", conversation="new")


@pytest.mark.requirement("EB-130")
def test_agreement_of_a_conversation_is_named(agreement: Agreement) -> None:
    with pytest.raises(CommandError, match="No agreement cpa-2"):
        call_command("extend-wait", "cpa-2", "talk", *WHY)
    other = Partner.objects.create(name="clinic", uri="http://clinic.example/ebms/")
    agree(other, their_party="333333333")
    take(agreement, 0, 2)
    with pytest.raises(CommandError, match="--partner"):
        run("skip-missing", *WHY)

    run("skip-missing", "--partner", "hospital", *WHY)

    assert delivered() == ["talk-0", "talk-2"]
