"""What an operator does to one message that flies."""

import json
from collections.abc import Callable
from datetime import timedelta
from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from msh.flows.errors import NotPossible
from msh.flows.operations import (
    cancel,
    change_flight,
    change_inbound_link,
    change_link,
    resynchronise,
)
from msh.flows.operations.change_flight import FlightChange
from msh.flows.receiving import link_status
from msh.models import Flight, Incident, OutboundMessage
from msh.protocol.kinds import Verdict
from msh.store.history import Actor
from partners.models import Partner

from .flying import REFUSED, Sky, make_sky
from .world import make_world

pytestmark = [pytest.mark.django_db, pytest.mark.requirement("EB-092")]

ANN = Actor("ann", "she says so")


@pytest.fixture
def sky() -> Sky:
    return make_sky(retries=1)


def test_a_message_is_held_and_resumed(sky: Sky) -> None:
    held, other = sky.submit(), sky.submit()
    done = change_flight.hold(held, ANN)
    assert done.state == "held"
    (job,) = sky.poll()
    assert job.key.message_id == other.message_id  # type: ignore[attr-defined]

    assert change_flight.resume(held, ANN).state == "queued"

    (job,) = sky.poll()
    assert job.key.message_id == held.message_id  # type: ignore[attr-defined]
    assert ("OperatorSuspended", "queued", "held") in sky.history(held)
    assert ("OperatorResumed", "held", "queued") in sky.history(held)


@pytest.mark.parametrize("on_failure", ["hold", "fail"])
def test_an_incident_of_several_messages_ends_with_the_last_that_is_held(on_failure: str) -> None:
    """Unless it counts one that has failed: nobody resumes that."""
    sky = make_sky(on_failure="hold", retries=0)
    messages = [sky.submit(), sky.submit()]

    def give_up() -> None:
        for job in sky.poll():
            sky.end(job)
        sky.let_pass(61)
        sky.poll()

    give_up()
    assert (Incident.objects.get().count, sky.incidents()) == (2, ["retries_spent"])
    sky.partner.agreements.update(on_failure=on_failure)
    if on_failure == "fail":
        failed = sky.submit()
        give_up()
        assert sky.state(failed) == "failed"

    change_flight.resume(messages[0], ANN)
    assert sky.incidents() == ["retries_spent"]
    change_flight.resume(messages[1], ANN)

    assert sky.incidents() == ([] if on_failure == "hold" else ["retries_spent"])


def test_send_now_spends_no_retry(sky: Sky) -> None:
    message, job = sky.start()
    sky.end(job)
    assert sky.poll() == []
    change_flight.send_now(message, ANN)
    (again,) = sky.poll()
    assert again.body == job.body
    sky.end(again)
    assert Flight.objects.get(message=message).copies == 1


def test_fresh_retries_after_they_were_spent(sky: Sky) -> None:
    message = sky.submit()
    for _ in range(2):
        sky.post()
        change_flight.reset_retries(message, ANN)
        sky.let_pass(61)
    assert len(sky.poll()) == 1


def test_what_was_never_sent_is_cancelled_without_a_verdict(sky: Sky) -> None:
    message = sky.submit()
    cancel.cancel(message, None, ANN)
    message.refresh_from_db()
    assert (message.state, message.outcome) == ("cancelled", "not_received")
    assert sky.events(message) == [("cancelled", "not_received")]
    assert sky.flight(message) is None


def test_one_that_was_sent_needs_a_verdict_and_a_proof(sky: Sky) -> None:
    message, job = sky.start()
    sky.end(job)
    with pytest.raises(NotPossible, match="did the partner receive it"):
        cancel.cancel(message, None, ANN)
    with pytest.raises(NotPossible, match="it may have been received"):
        cancel.cancel(message, Verdict.NOT_RECEIVED, ANN)

    cancel.cancel(message, Verdict.UNKNOWN, ANN)

    assert sky.state(message) == "cancelled"
    sky.answer(message)
    assert OutboundMessage.objects.get(pk=message.pk).outcome == "received"


@pytest.mark.parametrize("verb", list(change_flight.VERBS.values()))
def test_a_message_that_has_ended_is_left_alone(sky: Sky, verb: FlightChange) -> None:
    message, job = sky.start()
    sky.end(job, REFUSED)
    with pytest.raises(NotPossible, match="it is failed: it has already ended"):
        verb(message, ANN)
    assert sky.state(message) == "failed"


@pytest.mark.requirement("EB-084")
def test_past_its_persist_duration_nobody_has_it_sent_again() -> None:
    sky = make_sky(persist_duration=100, on_failure="hold", retries=0)
    message, job = sky.start()
    sky.end(job)
    sky.let_pass(101)
    sky.poll()
    assert sky.state(message) == "held"
    with pytest.raises(NotPossible, match="it is past its PersistDuration"):
        change_flight.send_now(message, ANN)


def test_a_message_of_the_draft_has_no_verbs_of_its_own() -> None:
    message = make_world().submit()
    with pytest.raises(NotPossible, match="use the actions of the link"):
        change_flight.send_now(message, ANN)


def test_the_command_acts_on_one_message(sky: Sky) -> None:
    message, job = sky.start()
    sky.end(job)
    out = StringIO()
    about = ("--message", message.message_id, "--reason", "they ask for it", "--json")

    call_command("send-now", sky.partner.name, *about, stdout=out)

    answer = json.loads(out.getvalue())
    assert (answer["message_id"], answer["state"]) == (message.message_id, "in_flight")
    assert Flight.objects.get(message=message).due < timezone.now() + timedelta(seconds=1)  # type: ignore[operator]
    with pytest.raises(CommandError, match="was submitted here"):
        call_command("send-now", sky.partner.name, "--message", "x", "--reason", "y")


@pytest.mark.parametrize(
    "act",
    [
        lambda partner: change_link.start_link(partner, "out", 5, ANN),
        lambda partner: resynchronise.reset_sequence(partner, ANN),
        lambda partner: change_inbound_link.expect(partner, 5, ANN),
        lambda partner: change_inbound_link.allow_reset(partner, ANN),
        lambda partner: change_inbound_link.hold_resets(partner, ANN),
        link_status.enquire,
    ],
)
def test_what_only_numbers_have_is_refused(sky: Sky, act: Callable[[Partner], object]) -> None:
    with pytest.raises(NotPossible, match="have no sequence numbers: its agreements"):
        act(sky.partner)
