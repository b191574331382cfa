"""Operators' verbs say what they have done, and what can be done where they make no sense."""

import json

import pytest
from django.core.management import CommandError, call_command

from msh.flows.errors import NotPossible
from msh.flows.operations import change_link
from msh.models import OutboundLink
from msh.store.history import Actor
from tests.admin.conftest import late_world, suspended_world, waiting_world

pytestmark = pytest.mark.django_db

ANN = Actor("ann", "they are back")


@pytest.mark.requirement("000-030", "000-033")
@pytest.mark.parametrize(
    ("queued", "state", "then"),
    [
        (2, "waiting", "message 2, the first of the queue, is sent now"),
        (0, "idle", "the queue is empty"),
    ],
)
def test_resume_after_a_late_acknowledgement_goes_on_with_the_queue(
    queued: int, state: str, then: str
) -> None:
    world, first = late_world(queued)
    world.settle()
    done = change_link.resume(world.there, ANN)
    assert done.text == f"the message in flight was acknowledged late and is complete; {then}"
    assert done.state == state
    assert [job for job in world.poll() if first.message_id.encode() in job.body] == []


def test_command_and_list_say_that_it_was_acknowledged_late(
    capsys: pytest.CaptureFixture[str],
) -> None:
    world, _ = late_world()
    world.settle()
    call_command("links", "--json")
    outward = next(
        row for row in json.loads(capsys.readouterr().out) if row["partner"] == world.there.name
    )
    assert (outward["state"], outward["late_ack"], outward["queued"]) == ("suspended", True, 1)
    call_command("resume", world.there.name, "--reason", "they are back")
    assert capsys.readouterr().out == (
        f"{world.there.name}: resumed. The message in flight was acknowledged late and is complete;"
        " message 2, the first of the queue, is sent now.\n"
    )


def test_refused_action_names_the_possible_ones() -> None:
    waiting, suspended = waiting_world(retries_spent=1), suspended_world()
    with pytest.raises(NotPossible, match=r"waiting.*reset its retries or send it now"):
        change_link.resume(waiting.there, ANN)
    for verb in (change_link.send_now, change_link.reset_retries):
        with pytest.raises(NotPossible, match=r"suspended.*Resume the link"):
            verb(suspended.there, ANN)
    late, _ = late_world()
    late.settle()
    with pytest.raises(NotPossible, match=r"acknowledged late.*Resume the link"):
        change_link.send_now(late.there, ANN)
    with pytest.raises(CommandError, match="Resume the link"):
        call_command("send-now", late.there.name, "--reason", "hurry")
    assert OutboundLink.objects.get(partner=late.there).state == "suspended"


COMMANDS = ["suspend", "resume", "send-now", "reset-retries", "reset-sequence"]


@pytest.mark.parametrize("command", COMMANDS)
def test_command_on_a_link_that_has_another_message_in_flight_does_nothing(command: str) -> None:
    world = suspended_world() if command == "resume" else waiting_world(retries_spent=1)
    before = OutboundLink.objects.values().get(pk=world.link.pk)
    with pytest.raises(CommandError, match=f"message {world.link.in_flight} is in flight"):
        call_command(command, world.there.name, "--reason", "x", "--if-message", "m-1")
    assert OutboundLink.objects.values().get(pk=world.link.pk) == before


def test_command_with_precondition_on_the_link(capsys: pytest.CaptureFixture[str]) -> None:
    world = suspended_world()
    call_command("links", "--json")
    (seen,) = (
        row
        for row in json.loads(capsys.readouterr().out)
        if (row["partner"], row["direction"]) == (world.there.name, "out")
    )
    assert seen["in_flight"] == str(world.link.in_flight)
    resume = ["resume", world.there.name, "--reason", "they are back"]
    about = ["--if-message", seen["in_flight"], "--if-suspended-since"]
    change_link.resume(world.there, ANN)
    change_link.suspend(world.there, Actor("bob", "STOP: they restore"))
    with pytest.raises(CommandError, match=r"suspended since .*bob: STOP: they restore"):
        call_command(*resume, *about, seen["suspended_since"])
    now = str(world.link.suspended_since)
    call_command(*resume, *about, now)
    with pytest.raises(CommandError, match="it is not suspended"):
        call_command("suspend", *resume[1:], *about, now)
    assert world.link.state == "waiting"
