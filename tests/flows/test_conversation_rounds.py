"""Conversations that are sent in order, when several do something at once, or one raises an error,
or has a long queue."""

from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from django.db import connection, transaction
from django.utils import timezone

from msh.flows.errors import NotPossible
from msh.flows.hints import EVERYTHING
from msh.flows.operations import change_conversation, change_flight
from msh.flows.operations.change_conversation import restart_conversation
from msh.flows.operations.prune import prune_all
from msh.flows.sending.sending_loop import SendingLoop
from msh.models import Flight, OutboundConversation, OutboundMessage
from msh.store.flights import polling
from msh.store.flights.flights import Flights
from msh.store.history import Actor
from tests.sessions import in_another_session, meet

from .byhand import PLENTY, Carrying
from .flying import REFUSED, Sky, make_sky, round_of
from .test_conversations_out import WRONG, begun, ids, of, orders, state_of, submit

pytestmark = pytest.mark.django_db(transaction=True)

ANN = Actor("ann", "she says so")


@pytest.fixture
def sky() -> Sky:
    return make_sky(ordered=True)


def taken(loop: SendingLoop) -> list[str]:
    carrier: Any = loop.carrier
    return ids(carrier.take())


@pytest.mark.requirement("EB-123")
def test_an_acknowledgment_and_a_poll_at_once(sky: Sky) -> None:
    first, second = submit(sky, "talk", 2)
    sky.poll()
    jobs = meet(lambda: sky.answer(first), sky.poll)
    assert ids([*jobs, *sky.poll()]) == [second.message_id]


@pytest.mark.requirement("EB-120")
def test_two_workers_give_each_number_once(sky: Sky, loop: SendingLoop) -> None:
    begun(sky, "talk")
    submit(sky, "talk", 6)
    with transaction.atomic():
        ours = sky.poll()
        in_another_session(lambda: loop.round(EVERYTHING))
    loop.round(EVERYTHING)
    sent = OutboundMessage.objects.exclude(order_number=None).order_by("pk")
    assert list(sent.values_list("order_number", flat=True)) == list(range(len(ours) + 3))
    assert taken(loop) == of(list(OutboundMessage.objects.order_by("pk")[5:]))


@pytest.mark.requirement("EB-120")
def test_what_an_operator_holds_at_this_moment_is_not_overtaken(sky: Sky) -> None:
    older, later = submit(sky, "talk", 2)
    jobs = meet(lambda: change_flight.hold(older, ANN), sky.poll)
    assert jobs == []
    change_flight.resume(older, ANN)
    assert ids(sky.poll()) == [older.message_id]
    assert sky.state(later) == "ready"


@pytest.mark.requirement("EB-120")
def test_new_message_that_somebody_holds_at_this_moment_is_waited_for(sky: Sky) -> None:
    """Whoever holds it alone: an operator would hold the link too, which a round passes over."""
    older, later = submit(sky, "talk", 2)
    jobs = meet(lambda: Flights.lock_one(sky.partner.pk, older.message_id), sky.poll)
    assert ids(jobs) == [older.message_id]
    assert sky.state(later) == "ready"


def test_new_messages_that_a_round_leaves_are_a_reason_for_another(
    sky: Sky, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(polling, "SORTED_AT_ONCE", 1)
    submit(sky, "a", 2)
    for left in (1, 1, 0):  # the second round cannot know that there is no third message
        with transaction.atomic():
            flights, _ = round_of(PLENTY, (), [sky.partner.pk], everything=False)
            flights.write()
        assert flights.transmits == ({sky.partner.pk} if left else set())


@pytest.mark.requirement("EB-124")
def test_a_failure_and_a_claim_at_once(sky: Sky) -> None:
    """The failure is not committed when the poll begins: the poll waits for the conversation."""
    begun(sky, "talk")
    bad, behind = submit(sky, "talk", 2)
    sky.poll(Carrying(left=1))
    assert meet(lambda: sky.answer(bad, WRONG, acknowledged=False), sky.poll) == []
    assert (state_of("talk"), sky.state(behind)) == ("stopped", "ready")


@pytest.mark.requirement("EB-124")
def test_a_restart_and_a_claim_at_once(sky: Sky) -> None:
    """The claim is counted among what is outstanding, or has Reset."""
    begun(sky, "talk")
    submit(sky, "talk")
    jobs = meet(
        partial(change_conversation.restart_conversation, sky.agreement, "talk", ANN), sky.poll
    )
    (order,) = orders([*jobs, *sky.poll()])
    assert order is not None
    assert order.status == "Reset"


def test_the_last_two_that_stood_still_go_on_at_once(sky: Sky) -> None:
    """Each is the last one for itself: one of them sees the other, and resolves the incident."""
    first, second = *submit(sky, "a"), *submit(sky, "b")
    for job in sky.poll():
        sky.end(job, REFUSED)
    assert "conversation_stopped" in sky.incidents()
    meet(lambda: sky.answer(first), lambda: sky.answer(second))
    assert "conversation_stopped" not in sky.incidents()


@pytest.mark.requirement("EB-124")
def test_an_acknowledgment_and_new_numbers_at_once(sky: Sky) -> None:
    """What is outstanding is counted when the Acknowledgment is written."""
    begun(sky, "talk")
    (sent,) = submit(sky, "talk")
    sky.poll()

    def restart_it() -> bool:
        restart_conversation(sky.agreement, "talk", ANN)
        return True

    assert meet(lambda: sky.answer(sent), restart_it)
    assert state_of("talk") == "beginning"


@pytest.mark.requirement("EB-124")
def test_a_claim_and_a_restart_at_once(sky: Sky) -> None:
    begun(sky, "talk")
    submit(sky, "talk")
    restart = partial(change_conversation.restart_conversation, sky.agreement, "talk", ANN)
    with pytest.raises(
        NotPossible, match="1 message of the conversation is neither acknowledged nor cancelled"
    ):
        meet(sky.poll, restart)
    assert state_of("talk") == "running"


@pytest.mark.requirement("EB-124", "EB-134")
@pytest.mark.parametrize("numbered", [True, False])
def test_an_error_in_one_message_stops_only_its_conversation(
    numbered: bool, sky: Sky, loop: SendingLoop
) -> None:
    begun(sky, "talk")
    bad, behind = submit(sky, "talk", 2)
    if numbered:
        change_flight.hold(behind, ANN)
        sky.poll()
        sky.let_pass(200)
        change_flight.resume(behind, ANN)
    (good,) = submit(sky, "good")
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE msh_outboundmessage SET terms = '{\"timeout\": true}' WHERE id = %s", [bad.pk]
        )
    for _ in range(2):
        loop.round(EVERYTHING)

    assert taken(loop) == [good.message_id]
    assert (sky.state(bad), sky.state(behind)) == ("held", "ready")
    head = OutboundConversation.objects.get(conversation_id="talk").head
    assert head == (behind.pk if numbered else None)
    assert ("conversation_stopped" in sky.incidents()) is numbered
    OutboundMessage.objects.filter(pk=bad.pk).update(terms=None)
    change_flight.resume(bad, ANN)
    loop.round(EVERYTHING)
    assert taken(loop) == of([bad, behind])
    assert sky.incidents() == []


def age(days: int) -> None:
    OutboundConversation.objects.update(used_at=timezone.now() - timedelta(days=days))


def test_retention_forgets_what_is_idle_and_nothing_else(sky: Sky) -> None:
    for name in ("idle", "busy", "stopped"):
        begun(sky, name)
    submit(sky, "busy")
    sky.poll()
    submit(sky, "stopped")
    (job,) = sky.poll()
    sky.end(job, REFUSED)
    age(800)
    prune_all()
    names = OutboundConversation.objects.order_by("conversation_id")
    assert list(names.values_list("conversation_id", flat=True)) == ["busy", "stopped"]


def test_a_message_that_is_sorted_keeps_its_conversation_from_retention(sky: Sky) -> None:
    begun(sky, "talk")
    age(800)
    submit(sky, "talk")
    meet(sky.poll, prune_all)
    assert OutboundConversation.objects.get().state == "running"
    assert not Flight.objects.filter(ordered_in=None).exists()
