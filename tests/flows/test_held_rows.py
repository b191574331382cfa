"""A row that somebody holds, perhaps a person's session for an hour, stops only its own partner."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import transaction

from msh.flows.hints import EVERYTHING, NOTHING, Hints
from msh.flows.sending import promised as promises
from msh.flows.sending.sending_loop import SendingLoop
from msh.models import Attempt, Flight, OutboundLink, OutboundMessage
from msh.protocol.attempt import AttemptOutcome, AttemptResult
from msh.transport.carrier import Finished
from msh.transport.job import Job
from tests.sessions import beside, in_another_session, somebody_waits_for_us
from tests.waiting import wait_until

from .byhand import KeepingCarrier, hold_no_longer
from .flying import Sky, make_sky
from .wake_ups.conftest import PROMISED, SENT, promised, state_of
from .world import World, make_world

__all__ = ["promised"]

pytestmark = pytest.mark.django_db(transaction=True)

FAILED = AttemptResult(AttemptOutcome.FAILED, status=503, detail="Service Unavailable")


def sent_by(loop: SendingLoop) -> list[Job]:
    carrier: Any = loop.carrier
    assert isinstance(carrier, KeepingCarrier)
    return carrier.take()


def ended(loop: SendingLoop, count: int = 1) -> list[World]:
    """Worlds whose message was sent; its outcome is not recorded."""
    worlds = [make_world(timeout=600, retry_interval=600) for _ in range(count)]
    for world in worlds:
        world.submit()
    loop.round(EVERYTHING)
    for job in sent_by(loop):
        loop.take(Finished(job, FAILED))
    return worlds


def outcome_of(world: World) -> str:
    return Attempt.objects.get(message__link__partner=world.there).outcome


@contextmanager
def holding(rows: Any) -> Iterator[None]:
    with transaction.atomic():
        assert list(rows.select_for_update(of=("self",)))
        yield


def round_without_waiting(loop: SendingLoop, hints: Hints) -> None:
    """Fails if it waits for the lock that the test's session holds."""
    with beside(lambda: loop.round(hints)) as doing:
        wait_until(lambda: doing.done() or somebody_waits_for_us())
        assert doing.done(), "the round waits for the held row"
        doing.result()


def ended_flight(loop: SendingLoop) -> Sky:
    """Its message was sent; the outcome is not recorded."""
    sky = make_sky()
    sky.submit()
    loop.round(EVERYTHING)
    for job in sent_by(loop):
        loop.take(Finished(job, FAILED))
    return sky


@pytest.mark.parametrize("polls", [False, True], ids=["named", "polled"])
def test_the_link_of_flights_that_somebody_holds_keeps_no_other_waiting(
    loop: SendingLoop, polls: bool
) -> None:
    held = ended_flight(loop)
    other = make_sky()
    message = other.submit()
    hints = Hints(flights=frozenset({held.partner.pk, other.partner.pk}))

    with holding(OutboundLink.objects.filter(pk=held.link.pk)):
        round_without_waiting(loop, EVERYTHING if polls else hints)
        (job,) = sent_by(loop)
        assert job.key.message_id == message.message_id  # type: ignore[attr-defined]
        assert loop.is_busy()

    assert Attempt.objects.get(message__link=held.link).outcome == ""
    release_all(loop)
    loop.round(NOTHING)
    assert Attempt.objects.get(message__link=held.link).outcome == "failed"
    assert OutboundLink.objects.get(pk=held.link.pk).failures == 1


def test_a_flight_that_somebody_holds_stops_one_round_briefly(
    loop: SendingLoop, caplog: pytest.LogCaptureFixture
) -> None:
    held = ended_flight(loop)
    caplog.set_level(logging.WARNING)
    with holding(Flight.objects.filter(link=held.link)):
        with beside(lambda: loop.round(NOTHING)) as doing:
            doing.result(timeout=60)
        assert "repeated one by one" in caplog.text
        caplog.clear()
        in_another_session(lambda: make_sky().submit())
        round_without_waiting(loop, EVERYTHING)
        assert caplog.text == ""
    assert len(sent_by(loop)) == 1

    release_all(loop)
    loop.round(NOTHING)
    assert Attempt.objects.get(message__link=held.link).outcome == "failed"


def release_all(loop: SendingLoop) -> None:
    """The time is over for which the loop leaves alone what it could not have."""
    hold_no_longer(loop)
    loop._resting.clear()


@pytest.mark.parametrize("polls", [False, True], ids=["named", "polled"])
def test_a_link_that_somebody_holds_keeps_no_other_waiting(loop: SendingLoop, polls: bool) -> None:
    (held,), other = ended(loop), make_world()
    message = other.submit()

    with holding(OutboundLink.objects.filter(partner=held.there)):
        round_without_waiting(
            loop, EVERYTHING if polls else Hints(links=frozenset({other.there.pk}))
        )
        (job,) = sent_by(loop)
        assert job.key.message_id == message.message_id  # type: ignore[attr-defined]
        assert loop.is_busy()

    assert outcome_of(held) == ""
    release_all(loop)
    loop.round(NOTHING)
    assert outcome_of(held) == "failed"
    assert not loop._outcomes


def test_outcomes_beside_it_are_recorded(loop: SendingLoop) -> None:
    held, other = ended(loop, 2)
    with holding(OutboundLink.objects.filter(partner=held.there)):
        round_without_waiting(loop, NOTHING)
    assert (outcome_of(held), outcome_of(other)) == ("", "failed")


def test_a_promised_copy_of_a_held_link_stays_under_way(
    promised: tuple[World, Hints], loop: SendingLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(promises, "KEPT_FROM", 600.0)  # each poll writes that it has begun
    world, hints = promised
    loop.round(hints)
    (job,) = sent_by(loop)
    job.note_begin()

    with holding(OutboundLink.objects.filter(partner=world.there)):
        round_without_waiting(loop, EVERYTHING)
    assert state_of(world) == PROMISED

    loop.round(EVERYTHING)
    assert state_of(world) == SENT


@pytest.mark.parametrize("polls", [False, True], ids=["named", "polled"])
def test_another_row_that_somebody_holds_stops_one_round_briefly(
    loop: SendingLoop, caplog: pytest.LogCaptureFixture, polls: bool
) -> None:
    """What the round could not write rests, and with it the link: the next rounds do without."""
    (held,), other = ended(loop), make_world()
    other.submit()
    hints = EVERYTHING if polls else Hints(links=frozenset({other.there.pk}))
    caplog.set_level(logging.WARNING)

    with holding(Attempt.objects.filter(message__link__partner=held.there)):
        with beside(lambda: loop.round(hints)) as doing:
            doing.result(timeout=60)
        assert "repeated one by one" in caplog.text
        caplog.clear()
        for _ in range(3):
            in_another_session(lambda: make_world().submit())
            round_without_waiting(loop, EVERYTHING)
        assert caplog.text == ""
    assert len(sent_by(loop)) == 4

    release_all(loop)
    loop.round(NOTHING)
    assert outcome_of(held) == "failed"


def test_a_link_whose_message_somebody_holds_is_not_polled_again_and_again(
    loop: SendingLoop, caplog: pytest.LogCaptureFixture
) -> None:
    held = make_world()
    message = held.submit()
    with holding(OutboundMessage.objects.filter(pk=message.pk)):
        with beside(lambda: loop.round(EVERYTHING)) as doing:
            doing.result(timeout=60)
        caplog.clear()
        in_another_session(lambda: make_world().submit())
        round_without_waiting(loop, EVERYTHING)
        round_without_waiting(loop, Hints(links=frozenset({held.there.pk})))
        assert caplog.text == ""
    assert len(sent_by(loop)) == 1

    release_all(loop)
    loop.round(EVERYTHING)
    assert [job.key.message_id for job in sent_by(loop)] == [message.message_id]  # type: ignore[attr-defined]
