"""Rewind, adopt: the rows they leave, in a world of one database."""

from datetime import timedelta
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import transaction
from django.utils import timezone

from msh.flows.errors import NotPossible
from msh.flows.operations import cancel, change_link, resynchronise
from msh.models import (
    Attempt,
    History,
    InboundLink,
    InboundMessage,
    Incident,
    OutboundLink,
    OutboundMessage,
    OutboundPayload,
)
from msh.protocol.kinds import Verdict
from msh.protocol.link_status import LinkStatus
from msh.protocol.resynchronisation import Repair
from msh.store.engine import run
from msh.store.operations import retention_sql
from tests.sessions import in_another_session

from .recovering import ANN, events, numbers, suspend
from .world import World

# Rows have another version only in another transaction, and a process remembers links by it.
pytestmark = pytest.mark.django_db(transaction=True)


def forget_after(world: World, number: int) -> None:
    """The receiving side is restored from a backup made after this number."""
    kept = InboundMessage.objects.filter(link__partner=world.here)
    kept.filter(sequence_number__gt=number).delete()
    last = kept.filter(sequence_number=number).first()
    InboundLink.objects.filter(partner=world.here).update(
        last_number=number or None, last_message_id=last.message_id if last else ""
    )


def said_by_partner(world: World, *message_ids: str) -> LinkStatus:
    link = InboundLink.objects.get(partner=world.here)
    known = InboundMessage.objects.filter(link=link, message_id__in=message_ids)
    has = set(known.values_list("message_id", flat=True))
    return LinkStatus(
        link.last_number,
        link.last_message_id,
        known={message_id: message_id in has for message_id in message_ids},
    )


@pytest.mark.requirement("000-005", "000-027", "000-043")
@pytest.mark.parametrize("kept", [2, 0])
@pytest.mark.parametrize("more", [0, 1])
def test_restored_partner_gets_the_same_bytes_and_numbers_again(
    world: World, kept: int, more: int
) -> None:
    messages = [world.submit(f"<order n='{n}'/>") for n in range(5)]
    world.settle()
    ids = [message.message_id for message in messages]
    heads = {m.pk: (m.head, m.sequence_number) for m in OutboundMessage.objects.all()}
    forget_after(world, kept)
    late = [world.submit() for _ in range(more)]
    world.settle()
    if more:  # its number is a gap there
        assert world.link.suspended_for == "resynchronise"
    else:
        suspend(world)

    compared = resynchronise.apply(world.there, said_by_partner(world), ANN)
    transmitted = world.settle()

    assert compared.plan.repair is Repair.REWIND
    row = History.objects.get(event="Resynchronised")
    assert row.actor == "ann"
    assert row.detail.startswith(f"the partner accepted {kept or 'nothing'}, our next is")
    assert f"Verdict: {compared.plan.verdict}; because" in row.detail
    again = ids[kept:] + [message.message_id for message in late]
    assert world.received() == ids[:kept] + again
    assert transmitted >= 2 * len(again)
    assert [state for state, _ in numbers(world)] == ["acknowledged"] * (5 + more)
    now = {m.pk: (m.head, m.sequence_number) for m in OutboundMessage.objects.all()}
    assert heads.items() <= now.items()
    assert world.link.next_number == 6 + more
    assert Attempt.objects.filter(message=messages[4]).count() == 2
    assert not Incident.objects.filter(partner=world.there, resolved_at=None).exists()


def test_pruned_message_is_not_sent_again(world: World) -> None:
    """Its bytes would not be the same: a person is asked instead."""
    messages = [world.submit(f"<order n='{n}'/>") for n in range(3)]
    world.settle()
    forget_after(world, 1)
    OutboundPayload.objects.filter(message=messages[1]).delete()
    suspend(world)

    with pytest.raises(NotPossible, match="some of the numbers 2 to 3") as refused:
        resynchronise.apply(world.there, said_by_partner(world), ANN)

    assert "part of what is missing is no longer stored" in str(refused.value)
    assert [state for state, _ in numbers(world)] == ["acknowledged"] * 3
    compared = resynchronise.compare(world.there, said_by_partner(world))
    assert (compared.plan.repair, compared.plan.lost) == (Repair.ASK, "some of the numbers 2 to 3")
    assert compared.plan.verdict == "may lose some of the numbers 2 to 3"


@pytest.mark.parametrize("kind", ["outbound payloads", "outbound messages"])
def test_retention_removes_nothing_that_is_being_rewound(
    world: World, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would have been counted as stored, and be a gap when its turn comes."""
    for number in range(3):
        world.submit(f"<order n='{number}'/>")
    world.settle()
    forget_after(world, 1)
    suspend(world)
    OutboundMessage.objects.update(completed_at=timezone.now() - timedelta(days=4000))
    found: list[int] = []

    def prune() -> int:
        removal = retention_sql.kinds(heard=False)[kind]
        with transaction.atomic():
            values = {"after": 0, "last": 1 << 40, "limit": 100, "age": timedelta(days=1)}
            (rows,) = run(retention_sql.find(removal)(**values))
            return len(rows)

    real = resynchronise._repair

    def repair(*arguments: Any) -> None:
        found.append(in_another_session(prune))
        real(*arguments)

    monkeypatch.setattr(resynchronise, "_repair", repair)
    before = in_another_session(prune)
    resynchronise.apply(world.there, said_by_partner(world), ANN)

    assert before == (3 if kind == "outbound payloads" else 2)
    assert found == [1], "the one that is not sent again"
    assert world.settle() > 0
    assert len(world.received()) == 3


def test_rewound_messages_go_in_order_before_the_queue(world: World) -> None:
    messages = [world.submit() for _ in range(3)]
    world.settle()
    forget_after(world, 1)
    suspend(world)
    world.submit()
    resynchronise.apply(world.there, said_by_partner(world), ANN)

    assert numbers(world) == [
        ("acknowledged", 1),
        ("in_flight", 2),
        ("rewound", 3),
        ("queued", None),
    ]
    with pytest.raises(NotPossible, match="it cannot be skipped"):
        cancel.cancel(messages[2], None, ANN)
    with pytest.raises(NotPossible, match="only the verdict received leaves no gap"):
        cancel.cancel(messages[1], Verdict.UNKNOWN, ANN)
    cancel.cancel(messages[1], Verdict.RECEIVED, ANN)
    suspend(world)
    assert world.link.in_flight == messages[2]
    change_link.resume(world.there, ANN)
    world.settle()
    assert world.link.suspended_for == "resynchronise", "number 2 is a gap there"
    assert numbers(world)[2:] == [("in_flight", 3), ("queued", None)]
    assert world.received() == [messages[0].message_id]


def test_numbers_are_not_reset_while_rewound_messages_wait(world: World) -> None:
    for _ in range(2):
        world.submit()
    world.settle()
    forget_after(world, 0)
    suspend(world)
    resynchronise.apply(world.there, said_by_partner(world), ANN)
    suspend(world)
    cancel.cancel(OutboundMessage.objects.get(sequence_number=1), Verdict.RECEIVED, ANN)
    with pytest.raises(NotPossible, match="1 messages must still be sent again"):
        resynchronise.reset_sequence(world.there, ANN)


def test_message_cancelled_as_received_is_rewound_too(world: World) -> None:
    """It had a number: without it there would be a gap."""
    cancelled, job = world.start()
    world.hand_over(job)
    world.end(job)
    cancel.cancel(cancelled, Verdict.RECEIVED, ANN)
    after = world.submit()
    world.settle()
    forget_after(world, 0)
    suspend(world)
    resynchronise.apply(world.there, said_by_partner(world), ANN)
    cancelled.refresh_from_db()
    assert (cancelled.completed_at, cancelled.outcome) == (None, "")
    world.settle()
    assert world.received() == [cancelled.message_id, after.message_id]


def restore_sender(world: World, number: int) -> None:
    """The sending side is restored from a backup made after this number."""
    later = OutboundMessage.objects.filter(link=world.link, sequence_number__gt=number)
    later.delete()
    OutboundLink.objects.filter(pk=world.link.pk).update(next_number=number + 1)


@pytest.mark.parametrize("collides", ["in flight", "queued", "nothing"])
def test_a_restored_sender_goes_on_where_its_partner_is(world: World, collides: str) -> None:
    """What it sends in between is refused (Stale or Conflict) and goes under a new number."""
    for _ in range(4):
        world.submit()
    world.settle()
    restore_sender(world, 2)
    if collides != "in flight":
        suspend(world)
    new = [world.submit() for _ in range(2 if collides != "nothing" else 0)]
    world.settle()
    assert world.link.state == "suspended"

    asked = [message.message_id for message in new]
    compared = resynchronise.apply(world.there, said_by_partner(world, *asked), ANN)
    new.append(world.submit())
    world.settle()

    assert (compared.plan.repair, compared.plan.next_number) == (Repair.ADOPT, 5)
    assert "numbers 3 to 4" in compared.plan.lost
    assert world.received()[4:] == [message.message_id for message in new]
    assert [number for _, number in numbers(world)] == [1, 2, *range(5, 5 + len(new))]
    assert not Incident.objects.filter(partner=world.there, resolved_at=None).exists()


def test_queued_messages_that_the_partner_has_are_not_sent_again(world: World) -> None:
    first, second = world.submit(), world.submit()
    world.settle()
    OutboundMessage.objects.filter(pk=second.pk).update(
        state="queued", sequence_number=None, epoch=None, head=None, body_sha256=None
    )
    Attempt.objects.filter(message=second).delete()
    OutboundLink.objects.filter(pk=world.link.pk).update(next_number=2)
    suspend(world)

    compared = resynchronise.apply(world.there, said_by_partner(world, second.message_id), ANN)
    third = world.submit()
    world.settle()

    assert compared.received == (second.message_id,)
    second.refresh_from_db()
    assert (second.state, second.outcome) == ("cancelled", "received")
    assert world.received() == [m.message_id for m in (first, second, third)]
    assert OutboundMessage.objects.get(pk=third.pk).sequence_number == 3


def test_in_doubt_nothing_is_changed_and_a_person_is_asked(world: World) -> None:
    for _ in range(3):
        world.submit()
    world.settle()
    restore_sender(world, 1)
    message = world.submit()
    world.settle()
    theirs = said_by_partner(world)

    with pytest.raises(NotPossible, match=f"--has or --lacks {message.message_id}"):
        resynchronise.apply(world.there, theirs, ANN)
    assert (world.link.state, world.link.in_flight) == ("suspended", message)


def test_a_message_that_the_partner_proves_to_have_is_completed(world: World) -> None:
    message, job = world.start()
    world.hand_over(job)
    world.end(job)
    suspend(world)
    resynchronise.apply(world.there, said_by_partner(world), ANN)
    message.refresh_from_db()
    assert message.state == "acknowledged"
    assert events(message) == [("acknowledged", "")]
    assert world.link.state == "idle"


def test_nothing_else_is_done_than_what_was_agreed_to(world: World) -> None:
    """What has happened since the look is found under the lock."""
    for _ in range(3):
        world.submit()
    world.settle()
    forget_after(world, 2)
    suspend(world)
    agreed = resynchronise.compare(world.there, said_by_partner(world)).agreed
    forget_after(world, 1)

    with pytest.raises(NotPossible, match="one side has changed"):
        resynchronise.apply(world.there, said_by_partner(world), ANN, agreed=agreed)
    with pytest.raises(NotPossible, match=r"(?i)nothing to rewind"):
        resynchronise.rewind(world.there, LinkStatus(3, last_id(world)), ANN)

    assert world.link.state == "suspended"
    assert not OutboundMessage.objects.filter(state="rewound").exists()


def last_id(world: World) -> str:
    return OutboundMessage.objects.filter(link=world.link).latest("pk").message_id


def test_a_running_link_or_a_copy_under_way_is_not_resynchronised(world: World) -> None:
    world.submit()
    world.poll()
    with pytest.raises(NotPossible, match="is not suspended: suspend it first"):
        resynchronise.apply(world.there, LinkStatus(None, ""), ANN)
    suspend(world)
    with pytest.raises(NotPossible, match="still being sent"):
        resynchronise.apply(world.there, LinkStatus(None, ""), ANN)


# --- commands ------------------------------------------------------------------------------------
def test_the_commands_say_what_they_do(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    messages = [world.submit() for _ in range(3)]
    world.settle()
    forget_after(world, 1)
    suspend(world)
    name, last_id = world.there.name, messages[0].message_id

    call_command("resynchronise", name, "--last", "1", "--last-id", last_id)
    said = capsys.readouterr().out
    assert "it accepted 1 last" in said
    assert "Numbers 2 to 3 (2 in all) are sent again" in said
    assert "May be lost: nothing." in said
    assert "Nothing was changed" in said
    assert numbers(world)[1] == ("acknowledged", 2)

    with pytest.raises(CommandError, match="--apply needs a --reason"):
        call_command("resynchronise", name, "--last", "1", "--last-id", last_id, "--apply")
    with pytest.raises(CommandError, match="--last needs --last-id"):
        call_command("resynchronise", name, "--last", "1")
    typed = ("--last", "1", "--last-id", last_id, "--apply", "--reason", "restored")
    call_command("resynchronise", name, *typed)
    assert "Done and resumed." in capsys.readouterr().out
    world.settle()
    assert len(world.received()) == 3

    call_command("reset-sequence", name, "--reason", "agreed", "--json")
    assert '"state": "idle"' in capsys.readouterr().out
    suspend(world)
    queued = world.submit()
    call_command("cancel", queued.message_id, "--reason", "wrong", "--json")
    assert '"outcome": "not_received"' in capsys.readouterr().out
    with pytest.raises(CommandError, match="it has already ended"):
        call_command("cancel", queued.message_id, "--reason", "wrong")
    call_command("allow-reset", world.here.name, "--reason", "agreed", "--json")
    call_command("expect", world.here.name, "--number", "9", "--reason", "lost", "--json")
    assert '"expected": 9, "given_up": "4 to 8 (5 numbers)"' in capsys.readouterr().out
    with pytest.raises(CommandError, match="Number 5 is not ahead"):
        call_command("expect", world.here.name, "--number", "5", "--reason", "a slip")
    with pytest.raises(CommandError, match="did not report the state of its link"):
        call_command("link-status", name)
