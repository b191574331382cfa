"""Why a message waits, read from its rows, and where it is shown: command, console, API."""

import io
import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone
from pytest_django import Settings

from msh import health
from msh.flows.operations import change_link
from msh.flows.operations.inspection.why_not_sent import (
    explanation_of,
)
from msh.models import OutboundLink, OutboundMessage
from msh.protocol.attempt import AttemptOutcome, AttemptResult
from msh.store.history import Actor
from msh.store.operations import queue_place
from msh.store.operations.queue_place import MOST, Place
from tests.flows.byhand import TRANSMITTED
from tests.flows.costs import cost_of, multiply, statements_of
from tests.flows.world import LOST, World, make_world

pytestmark = pytest.mark.django_db


def answer(world: World, *, result: AttemptResult = TRANSMITTED) -> None:
    (job,) = world.poll()
    world.end(job, result)


def test_rows_are_read_as_they_are() -> None:
    world = make_world()
    first, second, third = (world.submit() for _ in range(3))
    assert explanation_of(second.pk).endswith("In the queue 1 message is before it.")

    answer(world, result=LOST)
    assert f"{LOST.detail}. The next copy is sent at" in explanation_of(first.pk)
    behind = explanation_of(third.pk)
    assert behind.startswith(f"Message {first.message_id} (number 1) is in flight before it: 1 att")
    assert behind.endswith("In the queue 1 message is before it.")

    change_link.suspend(world.there, Actor("ann", "planned"))
    assert "Suspended by an operator" in explanation_of(third.pk)
    assert OutboundLink.objects.get(partner=world.there).suspended_for == "operator"


def test_rewound_messages_are_before_the_queue() -> None:
    world = make_world()
    again = [world.submit() for _ in range(2)]
    world.settle()
    queued = world.submit()
    OutboundMessage.objects.filter(pk__in=[one.pk for one in again]).update(state="rewound")

    assert "2 messages are before it, 2 of them to be sent again" in explanation_of(queued.pk)
    assert "1 message is before it, 1 of them to be sent again" in explanation_of(again[1].pk)
    assert "before it" not in explanation_of(again[0].pk)


def test_best_effort_message_names_its_own_attempt() -> None:
    """Not that of the message in flight."""
    world = make_world()
    world.submit()
    answer(world, result=LOST)
    message = world.submit(semantics="BestEffort")
    assert "is waiting for a worker" in explanation_of(message.pk)
    (job,) = world.poll()
    assert "Its one attempt is in progress" in explanation_of(message.pk)
    world.end(job, AttemptResult(AttemptOutcome.FAILED, detail="503 busy"))
    assert ": failed, 503 busy." in explanation_of(message.pk)


@pytest.fixture
def signs() -> Any:
    """The signs of life of worker and beat, which are none at first."""
    redis = health._redis()
    redis.delete(health._SWEPT, health._BEATEN)
    yield redis
    redis.delete(health._SWEPT, health._BEATEN)


def test_overdue_message_says_whether_a_worker_is_running(signs: Any) -> None:
    message = make_world().submit()
    OutboundMessage.objects.update(submitted_at=timezone.now() - timedelta(hours=1))
    health.note_beat()  # it polls no link
    assert "The worker has not run for a day" in explanation_of(message.pk)
    signs.execute_command(*health.SIGN_OF_WORKER)
    assert "A worker is running" in explanation_of(message.pk)


def test_overdue_message_names_redis_if_it_does_not_answer(settings: Settings) -> None:
    message = make_world().submit()
    OutboundMessage.objects.update(submitted_at=timezone.now() - timedelta(hours=1))
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    health._redis.cache_clear()
    try:
        assert "Redis does not answer" in explanation_of(message.pk)
    finally:
        health._redis.cache_clear()


def test_terms_that_cannot_be_read_are_named() -> None:
    world = make_world()
    message = world.submit()
    answer(world)
    OutboundMessage.objects.update(terms={"timeout": "soon"})
    assert "terms of the message in flight cannot be read" in explanation_of(message.pk)


@pytest.mark.parametrize(
    ("semantics", "ended", "look"),
    [
        ("OnceAndOnlyOnce", "cancelled", queue_place.place_in_queue),
        ("BestEffort", "sent", queue_place.place_of_best_effort),
    ],
)
def test_what_is_before_a_message_is_counted_by_index_up_to_a_limit(
    semantics: str, ended: str, look: Callable[[int, int], Place]
) -> None:
    """However many messages of the link have ended."""
    first = make_world().submit(semantics=semantics)
    multiply(first, 10 * MOST, message_id="'ended-' || n", state=f"'{ended}'")
    multiply(first, 3 * MOST, message_id="'queued-' || n")
    last = OutboundMessage.objects.latest("pk")

    (statement,) = statements_of(lambda: look(last.link_id, last.pk))

    assert cost_of(statement, by_index=False) < 5 * MOST
    assert f"at least {MOST} messages are before it" in explanation_of(last.pk)


def test_trace_begins_with_the_explanation(capsys: pytest.CaptureFixture[str]) -> None:
    world = make_world()
    message = world.submit()
    call_command("trace", message.message_id)
    first, header, *_ = capsys.readouterr().out.splitlines()
    assert first.startswith(f"To {world.there.name}: The link is idle and nothing is in flight")
    assert header.startswith("at ")

    out = io.StringIO()
    call_command("trace", message.message_id, "--json", stdout=out)
    told = json.loads(out.getvalue())
    (about,) = told["messages"]
    assert (about["partner"], about["state"]) == (world.there.name, "queued")
    assert about["explanation"] in first
    assert [row["event"] for row in told["history"]] == ["MessageSubmitted"]

    with pytest.raises(CommandError, match="it was never stored here, or it was pruned"):
        call_command("trace", "no-such-message")
