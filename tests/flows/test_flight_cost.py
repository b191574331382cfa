"""What a round of flights costs: it does not grow with the queue of a partner."""

from typing import Any

import pytest
from django.db import connection, transaction

from msh.flows.operations import change_flight
from msh.models import OutboundMessage
from msh.store.engine import Call
from msh.store.flights import conversation_sql, flight_sql, gate_sql
from msh.store.history import Actor
from msh.store.sending import polling
from tests.sql import analyze

from .byhand import PLENTY, Carrying
from .costs import cost_of, multiply, statements_of
from .flying import Sky, make_sky, round_of

pytestmark = pytest.mark.django_db

SEARCHES = {
    gate_sql.LOCK_BUSY_GATES,
    gate_sql.LOAD_GATES,
    flight_sql.LOCK_TIMED,
    flight_sql.LOCK_READY,
    flight_sql.LOCK_HEADS,
    conversation_sql.LOCK_UNSORTED,
    conversation_sql.LOAD_QUEUES,
}
OF_CONVERSATIONS = 3
GROWTH = 200
"""Indexes get a level more; reading the queue would cost thousands."""


def searches_of_a_round() -> list[Call[Any]]:
    def act() -> None:
        round_of(PLENTY, (), (), everything=True)
        transaction.set_rollback(True)

    return [call for call in statements_of(act) if call.statement in SEARCHES]


def cost_of_a_round() -> int:
    return sum(map(cost_of, searches_of_a_round()))


def grow(sky: Sky, count: int) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO msh_outboundmessage (link_id, agreement_id, message_id, semantics, state,"
            " conversation_id, service_interface, action, ref_to_message_id, submitted_at,"
            " content_digest, size, boundary)"
            " SELECT link_id, agreement_id, message_id || n, semantics, state, conversation_id,"
            " service_interface, action, ref_to_message_id, submitted_at, content_digest, size,"
            " boundary FROM msh_outboundmessage, generate_series(1, %s) n"
            " WHERE agreement_id = %s",
            [count, sky.agreement.pk],
        )
        cursor.execute(
            "INSERT INTO msh_flight (message_id, link_id, due)"
            " SELECT id, link_id, submitted_at FROM msh_outboundmessage message"
            " WHERE NOT EXISTS (SELECT FROM msh_flight WHERE message_id = message.id)"
        )
        analyze("msh_outboundmessage", "msh_flight")


def test_a_long_queue_of_one_partner_does_not_slow_a_round() -> None:
    skies = [make_sky() for _ in range(3)]
    for sky in skies:
        sky.submit()
    analyze()
    before = cost_of_a_round()
    assert len(searches_of_a_round()) == len(SEARCHES) - OF_CONVERSATIONS

    grow(skies[0], 5_000)

    assert cost_of_a_round() < before + GROWTH


def test_a_long_queue_of_a_conversation_that_stands_still_does_not_slow_a_round() -> None:
    """Nor do many conversations that stand still."""
    sky = make_sky(ordered=True)
    stopped, waits = sky.submit(conversation_id="stopped"), sky.submit(conversation_id="goes on")
    behind = sky.submit(conversation_id="stopped")
    sky.poll()
    change_flight.hold(stopped, Actor("ann", "wait"))
    sky.answer(waits)
    sky.submit(conversation_id="goes on")
    sky.poll(Carrying(left=0))
    before = cost_of_a_round()
    assert {call.statement for call in searches_of_a_round()} == SEARCHES

    multiply_queue(behind, 5_000)

    assert cost_of_a_round() < before + GROWTH
    assert len(sky.poll()) == 1


def multiply_queue(behind: OutboundMessage, count: int) -> None:
    """In its conversation; and as many others that stand still."""
    conversation = behind.flight.ordered_in
    assert conversation is not None
    multiply(behind, count, message_id="message_id || n")
    multiply(conversation, count, conversation_id="conversation_id || n")
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO msh_flight (message_id, link_id, due, waits_turn, ordered_in_id)"
            " SELECT id, link_id, submitted_at, true, %s FROM msh_outboundmessage"
            " WHERE conversation_id = 'stopped' AND id > %s",
            [conversation.pk, behind.pk],
        )
        analyze("msh_outboundmessage", "msh_flight")


def test_where_there_are_no_flights_a_poll_of_links_is_all() -> None:
    with transaction.atomic():
        assert not polling.lock_work((), polling.Slots(4, 256)).has_flights
    make_sky().submit()
    with transaction.atomic():
        assert polling.lock_work((), polling.Slots(4, 256)).has_flights


def test_a_copy_costs_no_more_statements_than_this(sky: Sky) -> None:
    sky.submit()
    assert len(statements_of(sky.poll)) <= 14
