"""Rounds of the sending loop with flights: wake-ups, polls, errors that stop only one message."""

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from django.db import OperationalError, connection, transaction
from psycopg.errors import LockNotAvailable, QueryCanceled

from msh.flows.hints import EVERYTHING, NOTHING, Hints
from msh.flows.sending import flights as flight_kind
from msh.flows.sending import sending_loop
from msh.flows.sending.kinds import Ended, FlightCopy
from msh.flows.sending.outcomes import Served
from msh.flows.sending.sending_loop import SendingLoop
from msh.flows.wake_up import WakeUp
from msh.models import Flight, InboundLink, InboundMessage, OutboundLink
from msh.protocol.attempt import AttemptOutcome, AttemptResult
from msh.store.flights import polling as flight_polling
from msh.store.flights.flights import Flights
from msh.store.sending import polling as lane_polling
from msh.transport.carrier import Finished
from tests.peer.ebms2 import message
from tests.sessions import in_another_session

from .byhand import TRANSMITTED, KeepingCarrier
from .flying import Sky, make_sky
from .world import make_world

pytestmark = pytest.mark.django_db(transaction=True)

SILENT = AttemptResult(AttemptOutcome.FAILED, detail="no answer")


def carrier_of(loop: SendingLoop) -> KeepingCarrier:
    carrier: Any = loop.carrier
    assert isinstance(carrier, KeepingCarrier)
    return carrier


def test_a_submitted_message_is_named_to_the_loop_and_sent(
    sky: Sky, loop: SendingLoop, named: list[dict[WakeUp, Hints]]
) -> None:
    message = sky.submit()
    ((hints,),) = [asked.values() for asked in named]
    assert hints == Hints(flights=frozenset({sky.partner.pk}))
    assert Hints.of_token(hints.token().encode()) == hints

    assert loop.round(hints)

    (job,) = carrier_of(loop).take()
    assert sky.state(message) == "waiting"
    loop.take(Finished(job, TRANSMITTED))
    assert loop.is_busy()
    assert loop.round(NOTHING)
    assert not loop.is_busy()
    assert Flight.objects.get().carried
    named.clear()
    sky.answer(message)
    assert named == [{WakeUp.TRANSMIT: Hints(flights=frozenset({sky.partner.pk}))}]


def test_a_poll_finds_flights_that_nobody_has_named(sky: Sky, loop: SendingLoop) -> None:
    sky.submit()
    loop.round(EVERYTHING)
    assert len(carrier_of(loop).take()) == 1


def test_a_lane_and_flights_are_served_in_one_round(loop: SendingLoop) -> None:
    make_world().submit()
    make_sky().submit()
    loop.round(EVERYTHING)
    assert len(carrier_of(loop).take()) == 2


@pytest.mark.parametrize(("window", "gathers"), [(1, False), (16, True)])
def test_rounds_gather_while_several_messages_of_a_partner_are_under_way(
    loop: SendingLoop, monkeypatch: pytest.MonkeyPatch, window: int, gathers: bool
) -> None:
    """With one at a time each would wait for nothing."""
    monkeypatch.setattr(Served, "WITHIN", 600.0)
    sky = make_sky(window=window)
    for _ in range(16):
        sky.submit()
    loop.round(EVERYTHING)
    assert (loop._served.gather(time.monotonic()) > 0) is gathers


@pytest.mark.requirement("EB-085")
def test_the_window_holds_when_two_workers_claim_at_once(loop: SendingLoop) -> None:
    sky = make_sky(window=4)
    for _ in range(8):
        sky.submit()
    named = Hints(flights=frozenset({sky.partner.pk}))
    with transaction.atomic():
        assert len(sky.poll()) == 4  # a worker that has not committed yet
        in_another_session(lambda: loop.round(named))
        assert carrier_of(loop).take() == []
        transaction.set_rollback(True)
    loop.round(EVERYTHING)
    loop.round(EVERYTHING)
    assert len(carrier_of(loop).take()) == 4
    assert Flight.objects.filter(under_way=True).count() == 4


def test_one_message_that_raises_an_error_stops_only_itself(
    sky: Sky,
    loop: SendingLoop,
) -> None:
    bad, good = sky.submit(), sky.submit()
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE msh_outboundmessage SET terms = '{\"timeout\": true}' WHERE id = %s", [bad.pk]
        )

    loop.round(EVERYTHING)

    (job,) = carrier_of(loop).take()
    assert isinstance(job.key, FlightCopy)
    assert job.key.message_id == good.message_id
    assert sky.state(bad) == "held"
    assert sky.incidents() == ["processing_failed"]
    loop.take(Finished(job, TRANSMITTED))
    loop.round(EVERYTHING)
    assert Flight.objects.get(message=good).carried


def test_an_outcome_that_raises_an_error_holds_its_message(
    sky: Sky,
    loop: SendingLoop,
) -> None:
    message = sky.submit()
    loop.round(EVERYTHING)
    (job,) = carrier_of(loop).take()
    with connection.cursor() as cursor:
        cursor.execute("UPDATE msh_outboundmessage SET terms = '[]' WHERE id = %s", [message.pk])
    loop.take(Finished(job, TRANSMITTED))
    loop.round(NOTHING)
    assert sky.state(message) == "held"
    assert not loop.is_busy()


def test_a_poll_of_lanes_that_fails_keeps_no_flight(
    loop: SendingLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    def too_long(*_: object) -> None:
        raise OperationalError from QueryCanceled()

    monkeypatch.setattr(lane_polling, "lock_work", too_long)
    make_sky().submit()
    loop.round(EVERYTHING)
    assert len(carrier_of(loop).take()) == 1


def test_an_outcome_is_counted_once_though_the_next_one_finds_no_database(
    sky: Sky, loop: SendingLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    sky.submit()
    sky.submit()
    loop.round(EVERYTHING)
    for job in carrier_of(loop).take():
        loop.take(Finished(job, SILENT))
    record, calls = flight_kind.record, 0

    def lost_at_the_second(flights: Flights, ended: Sequence[Ended]) -> None:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise OperationalError("the connection is lost")
        record(flights, ended)

    def locked(*_: object, **__: object) -> None:
        raise OperationalError from LockNotAvailable()

    with monkeypatch.context() as patch:
        patch.setattr(flight_kind, "record", lost_at_the_second)
        patch.setattr(flight_polling, "lock_flights", locked)
        with pytest.raises(OperationalError):
            loop.round(NOTHING)
    loop.round(NOTHING)
    assert OutboundLink.objects.get(partner=sky.partner).failures == 2
    assert not loop.is_busy()


def test_a_message_in_an_answer_waits_for_its_link(
    loop: SendingLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It comes once."""
    monkeypatch.setattr(sending_loop, "RECORD_AGAIN", 0.0)
    sky = make_sky()
    sent = sky.submit()
    loop.round(EVERYTHING)
    (job,) = carrier_of(loop).take()
    answer = sky.from_partner(message())
    loop.take(
        Finished(job, replace(TRANSMITTED, status=200, answer=(answer.content_type, answer.body)))
    )
    InboundLink.objects.get_or_create(partner=sky.partner)
    with transaction.atomic():
        list(InboundLink.objects.select_for_update())
        in_another_session(lambda: loop.round(NOTHING))
    assert not InboundMessage.objects.exists()
    assert loop.is_busy()
    loop.round(NOTHING)
    assert InboundMessage.objects.count() == 1
    assert sent.attempts.get().outcome == "transmitted"
    assert not loop.is_busy()
