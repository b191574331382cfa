"""Acts that a second person confirms: nothing is done before, and then exactly what was asked."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from msh.flows.errors import NotPossible, SecondPersonNeeded
from msh.flows.operations import (
    cancel,
    change_conversation,
    change_inbound_link,
    change_link,
    resynchronise,
)
from msh.four_eyes.flows import requests
from msh.four_eyes.flows.acts import ACTS
from msh.models import ActRequest, History, Incident, OutboundLink, OutboundMessage
from msh.protocol.four_eyes import Alone, Confirmed
from msh.protocol.kinds import Verdict
from msh.protocol.link_status import LinkStatus
from msh.store.history import Actor
from tests.admin.conftest import suspended_world
from tests.flows.flying import make_sky
from tests.flows.test_conversations_out import submit
from tests.flows.world import World, make_world
from tests.four_eyes.conftest import ANN, SUE, ask

pytestmark = pytest.mark.usefixtures("rule")


def used_world(messages: int = 2) -> World:
    world = make_world()
    for _ in range(messages):
        world.submit()
    world.settle()
    return world


def ask_reset(world: World) -> ActRequest:
    return ask(lambda: resynchronise.reset_sequence(world.there, ANN))


def test_nothing_is_done_before_and_the_history_names_both() -> None:
    world = used_world()
    row = ask_reset(world)
    assert world.link.next_number == 3
    assert row.text == f"the next message to {world.there.name} gets number 1 instead of 3."
    assert timedelta(minutes=59) < row.until - timezone.now() <= timedelta(hours=1)

    assert requests.confirm(row.pk, SUE) == "Done: the next message gets number 1."

    assert world.link.next_number == 1
    reset = History.objects.get(event="SequenceReset")
    assert reset.actor == "ann"
    assert f"(request {row.pk}, confirmed by sue: seen it too)" in reset.detail
    assert list(
        History.objects.filter(event__contains="SecondPerson").values_list("event", "actor")
    ) == [("SecondPersonAsked", "ann"), ("SecondPersonConfirmed", "sue")]
    row.refresh_from_db()
    assert (row.state, row.decided_by, row.words) == ("confirmed", "sue", "seen it too")
    with pytest.raises(NotPossible, match="was already confirmed"):
        requests.confirm(row.pk, SUE)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("ann", "your own request"),
        ("otto", "do not have the permissions"),
        ("nobody", "do not have the"),
    ],
)
def test_another_person_with_the_permission_of_the_act_confirms(name: str, why: str) -> None:
    world = used_world()
    row = ask_reset(world)
    for decide in (requests.confirm, requests.refuse):
        with pytest.raises(NotPossible, match=why):
            decide(row.pk, Actor(name, "fine"))
    assert world.link.next_number == 3


def test_a_request_lapses() -> None:
    world = used_world()
    row = ask_reset(world)
    ActRequest.objects.filter(pk=row.pk).update(until=timezone.now())
    with pytest.raises(NotPossible, match="The request has lapsed"):
        requests.confirm(row.pk, SUE)
    assert world.link.next_number == 3
    assert ask_reset(world).pk != row.pk


def test_nothing_is_done_if_the_facts_have_changed() -> None:
    world = used_world()
    row = ask_reset(world)
    world.submit()
    world.settle()
    with pytest.raises(NotPossible, match=r"is 3\. It is now: the next number is 4"):
        requests.confirm(row.pk, SUE)
    row.refresh_from_db()
    assert (row.state, world.link.next_number) == ("open", 4)


def test_a_confirmation_is_of_these_parameters_only() -> None:
    world = used_world()
    row = ask(lambda: change_inbound_link.expect(world.here, 9, ANN))
    confirmed = Actor("ann", "", Confirmed(row.confirmed_act))
    with pytest.raises(NotPossible, match="with other parameters"):
        change_inbound_link.expect(world.here, 10, confirmed)
    assert "3 to 8 (6 numbers)" in requests.confirm(row.pk, SUE)


def test_refused_or_withdrawn_it_is_not_done() -> None:
    world = used_world()
    first = ask_reset(world)
    assert ask_reset(world) == first  # asked twice, it is one request
    requests.refuse(first.pk, SUE)
    second = ask_reset(world)
    with pytest.raises(NotPossible, match="Only ann can withdraw it"):
        requests.withdraw(second.pk, SUE)
    requests.withdraw(second.pk, ANN)
    states = ActRequest.objects.order_by("pk").values_list("state", "decided_by")
    assert list(states) == [("refused", "sue"), ("withdrawn", "ann")]
    assert world.link.next_number == 3


def test_the_verdict_unknown_and_no_other() -> None:
    suspended_world(queued=0)
    message = OutboundMessage.objects.get()
    row = ask(lambda: cancel.cancel(message, Verdict.UNKNOWN, ANN))
    assert (row.message_id, row.about) == (message.message_id, f"outboundmessage:{message.pk}")
    requests.confirm(row.pk, SUE)
    assert OutboundMessage.objects.get().outcome == "unknown"
    other = suspended_world(queued=0)
    message = OutboundMessage.objects.get(link=other.link)
    cancel.cancel(message, Verdict.RECEIVED, ANN)


def test_the_verdict_unknown_on_a_message_that_flies() -> None:
    sky = make_sky()
    sky.submit()
    sky.poll()
    message = OutboundMessage.objects.select_related("link__partner").get()
    row = ask(lambda: cancel.cancel(message, Verdict.UNKNOWN, ANN))
    assert row.facts == f"message {message.message_id} is in_flight"
    requests.confirm(row.pk, SUE)
    assert OutboundMessage.objects.get().outcome == "unknown"


def test_a_rewind_by_whatever_name() -> None:
    world = used_world(messages=3)
    ids = list(OutboundMessage.objects.order_by("pk").values_list("message_id", flat=True))
    change_link.suspend(world.there, ANN)
    typed = LinkStatus(1, ids[0])
    row = ask(lambda: resynchronise.apply(world.there, typed, ANN))
    assert (row.act, row.verb) == ("resynchronise", "rewind")
    assert ACTS[row.act].title == "Resynchronise and resume"
    assert row.facts == (
        f"the partner accepted 1, MessageId {ids[0]}. The partner has nothing after number 1: it"
        " was restored from a backup, or it is a new installation. Numbers 2 to 3 (2 in all) are"
        " sent again, with the same bytes, one at a time; then the queue. Verdict: may duplicate"
        " numbers 2 to 3, in the partner's application, if it was not restored together with its"
        " MSH; queued messages that it has already: 0"
    )
    other = ask(lambda: resynchronise.rewind(world.there, LinkStatus(2, ids[1]), ANN))
    assert other.act == "rewind"
    with pytest.raises(NotPossible, match="with other parameters"):
        resynchronise.rewind(world.there, typed, Actor("ann", "", Confirmed(other.confirmed_act)))

    assert requests.confirm(row.pk, SUE) == "Done: the lost messages are sent again."

    states = OutboundMessage.objects.order_by("pk").values_list("state", flat=True)
    assert list(states) == ["acknowledged", "in_flight", "rewound"]


def test_what_the_partner_says_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    world = used_world(messages=3)
    ids = list(OutboundMessage.objects.order_by("pk").values_list("message_id", flat=True))
    change_link.suspend(world.there, ANN)
    row = ask(lambda: resynchronise.apply(world.there, LinkStatus(1, ids[0], 1), ANN))
    assert row.parameters["typed"] is None
    now = LinkStatus(2, ids[1], 1)
    monkeypatch.setattr(resynchronise, "enquire", lambda *of: now)
    with pytest.raises(NotPossible, match=f"It is now: the partner accepted 2, MessageId {ids[1]}"):
        requests.confirm(row.pk, SUE)
    assert world.link.state == "suspended"


def test_a_message_that_is_no_longer_in_flight_is_not_cancelled() -> None:
    suspended_world(queued=0)
    message = OutboundMessage.objects.get()
    row = ask(lambda: cancel.cancel(message, Verdict.UNKNOWN, ANN))
    OutboundLink.objects.update(
        in_flight=None, state="idle", suspended_for="", suspended_since=None, late_ack=False
    )
    OutboundMessage.objects.update(state="queued", sequence_number=None, epoch=None)
    with pytest.raises(NotPossible, match=r"It is now: message .* is queued"):
        requests.confirm(row.pk, SUE)
    assert OutboundMessage.objects.get().state == "queued"


def test_a_conversation_that_starts_again() -> None:
    sky = make_sky(ordered=True)
    about = (sky.agreement, "talk")
    (message,) = submit(sky, "talk")
    sky.poll()
    sky.answer(message)
    row = ask(lambda: change_conversation.restart_conversation(*about, ANN))
    again = ask(lambda: change_conversation.start_order_out(*about, last=9, actor=ANN))
    assert "its last number is 9" in again.text
    assert requests.confirm(row.pk, SUE) == ("Done: the next message has number 0 with Reset.")
    assert History.objects.get(event="ConversationRestarted").actor == "ann"
    with pytest.raises(NotPossible, match="It is now: "):
        requests.confirm(again.pk, SUE)


def test_a_conversation_whose_messages_are_given_up() -> None:
    sky = make_sky(ordered=True)
    row = ask(lambda: change_conversation.start_order_in(sky.agreement, "talk", 5, ANN))
    assert requests.confirm(row.pk, SUE) == (
        "Done: started. Number 6 comes next; 0 messages are held."
    )


def test_alone_where_the_setting_and_the_permission_allow_it(rule: Any) -> None:
    world = used_world()
    alone = Actor("ann", "nobody answers", Alone("03:00, nobody else on call"))
    with pytest.raises(NotPossible, match="may not go ahead alone"):
        resynchronise.reset_sequence(world.there, alone)
    rule.MSH_ACT_ALONE = True
    with pytest.raises(NotPossible, match="may not go ahead alone"):
        resynchronise.reset_sequence(world.there, Actor("otto", "x", alone.approval))
    assert world.link.next_number == 3

    resynchronise.reset_sequence(world.there, alone)

    assert world.link.next_number == 1
    said = f"ann went ahead alone: the next message to {world.there.name} gets number 1"
    assert History.objects.get(event="WentAheadAlone").detail.startswith(said)
    incident = Incident.objects.get(kind="went_ahead_alone")
    assert "Why alone: 03:00, nobody else on call" in incident.detail
    assert ActRequest.objects.get().state == "confirmed"
    change_link.suspend(world.there, ANN)
    change_link.resume(world.there, ANN)
    assert Incident.objects.get(kind="went_ahead_alone").resolved_at is None


def test_without_a_rule_nobody_is_asked(rule: Any) -> None:
    rule.MSH_SECOND_PERSON = ["prune", "reset:Operator"]
    world = used_world()
    resynchronise.reset_sequence(world.there, ANN)  # she has no role
    assert world.link.next_number == 1
    with pytest.raises(SecondPersonNeeded):
        resynchronise.reset_sequence(used_world().there, Actor("root", "a command"))


def test_each_act_says_who_may_confirm_it() -> None:
    incomplete: list[Any] = [name for name, act in ACTS.items() if not act.permissions]
    assert incomplete == []
