"""What a round of flights costs: it does not grow with the queue of a partner."""

from typing import Any

import pytest
from django.db import connection, transaction

from msh.flows.sending import flight_round
from msh.store.engine import Call
from msh.store.flights import flight_sql, gate_sql
from msh.store.sending import polling

from .byhand import PLENTY
from .costs import cost_of, statements_of
from .flying import Sky, make_sky

pytestmark = pytest.mark.django_db

SEARCHES = (
    gate_sql.LOCK_BUSY_GATES,
    gate_sql.LOAD_GATES,
    flight_sql.LOCK_TIMED,
    flight_sql.LOCK_READY,
)
GROWTH = 200
"""Indexes get a level more; reading the queue would cost thousands."""


def searches_of_a_round() -> list[Call[Any]]:
    def act() -> None:
        flight_round.round_of(PLENTY, (), (), everything=True)
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
        cursor.execute("ANALYZE msh_outboundmessage; ANALYZE msh_flight")


def test_a_long_queue_of_one_partner_does_not_slow_a_round() -> None:
    skies = [make_sky() for _ in range(3)]
    for sky in skies:
        sky.submit()
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
    before = cost_of_a_round()
    assert len(searches_of_a_round()) == len(SEARCHES)

    grow(skies[0], 5_000)

    assert cost_of_a_round() < before + GROWTH


def test_where_there_are_no_flights_a_poll_of_links_is_all() -> None:
    with transaction.atomic():
        assert not polling.lock_work((), polling.Places(4, 256)).has_flights
    make_sky().submit()
    with transaction.atomic():
        assert polling.lock_work((), polling.Places(4, 256)).has_flights


def test_a_copy_costs_no_more_statements_than_this() -> None:
    sky = make_sky()
    sky.submit()
    assert len(statements_of(sky.poll)) <= 14
