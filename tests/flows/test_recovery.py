"""Cancel, reset, rewind, adopt: the rows they leave, in a world of one database."""

from collections.abc import Callable
from urllib.parse import parse_qs, urlsplit

import pytest
from django.core.management import CommandError, call_command

from msh.flows import cancel, link_status, operate, resynchronise
from msh.flows.advance import Actor, Lanes
from msh.flows.operate import NotPossible
from msh.models import (
    Attempt,
    History,
    InboundLink,
    InboundMessage,
    Incident,
    OutboundLink,
    OutboundMessage,
    OutboundPayload,
    PartyEvent,
)
from msh.protocol.events import AckReceived, Verdict
from msh.protocol.resynchronisation import LinkStatus, Mend
from msh.protocol.vocabulary import DeliverySemantics
from msh.transport import enquiry
from msh.wire.link_status import write
from partners.models import Partner

from .byhand import CARRIED
from .world import LOST, World, make_world

pytestmark = pytest.mark.django_db

ANN = Actor("ann", "because")
NUMBER_ONE_IS_LATE = "Message .* is acknowledged: it is at its end"


def in_flight(world: World, result: object = CARRIED) -> OutboundMessage:
    """A message whose first copy ended like this, its Ack still to come."""
    message = world.submit()
    (job,) = world.look()
    world.end(job, result)  # type: ignore[arg-type]
    return message


def events(message: OutboundMessage) -> list[tuple[str, str]]:
    told = PartyEvent.objects.filter(message=message).order_by("pk")
    return list(told.values_list("kind", "detail"))


def numbers(world: World) -> list[tuple[str, int | None]]:
    """State and number of every message to the partner, in the order of their submits."""
    sent = OutboundMessage.objects.filter(link=world.link).order_by("pk")
    return list(sent.values_list("state", "sequence_number"))


def suspend(world: World) -> None:
    operate.suspend(world.there, ANN)


# --- cancel --------------------------------------------------------------------------------------
@pytest.mark.parametrize("semantics", DeliverySemantics)
def test_a_queued_message_is_cancelled_and_leaves_no_gap(semantics: DeliverySemantics) -> None:
    world = make_world()
    suspend(world)
    wrong, right = world.submit(semantics=semantics), world.submit()

    cancel.cancel(wrong, None, ANN)
    operate.resume(world.there, ANN)
    world.settle()

    wrong.refresh_from_db()
    assert (wrong.state, wrong.outcome) == ("cancelled", "not_received")
    assert events(wrong) == [("cancelled", "not_received")]
    assert world.received() == [right.message_id]
    assert numbers(world) == [("cancelled", None), ("acknowledged", 1)]
    act = History.objects.get(message_id=wrong.message_id, event="MessageCancelled")
    assert (act.actor, act.detail) == ("ann", "outcome not_received; because")


def test_the_one_in_flight_needs_a_verdict() -> None:
    world = make_world()
    message = in_flight(world)
    with pytest.raises(NotPossible, match="is in flight: did the partner receive it"):
        cancel.cancel(message, None, ANN)
    assert numbers(world) == [("in_flight", 1)]


@pytest.mark.parametrize(("verdict", "next_number"), [(Verdict.RECEIVED, 2), (Verdict.UNKNOWN, 1)])
def test_the_verdict_decides_the_next_number(verdict: Verdict, next_number: int) -> None:
    world = make_world()
    message, _ = in_flight(world), world.submit()

    cancel.cancel(message, verdict, ANN)

    message.refresh_from_db()
    assert (message.state, message.outcome) == ("cancelled", verdict)
    assert events(message) == [("cancelled", verdict.value)]
    assert numbers(world)[1] == ("in_flight", next_number)


def test_not_received_is_taken_where_no_byte_has_left_us() -> None:
    world = make_world()
    message = in_flight(world, LOST)

    cancel.cancel(message, Verdict.NOT_RECEIVED, ANN)
    world.submit()
    world.settle()

    assert numbers(world) == [("cancelled", None), ("acknowledged", 1)]


def test_not_received_is_refused_where_a_byte_has_left_us_or_may_have() -> None:
    """Its partner cannot be asked here."""
    for result in (CARRIED, None):
        world = make_world()
        message = world.submit()
        (job,) = world.look()
        if result is not None:
            world.end(job, result)
        with pytest.raises(NotPossible, match="nobody proves that it was not received"):
            cancel.cancel(message, Verdict.NOT_RECEIVED, ANN)
        assert numbers(world) == [("in_flight", 1)]


def answering(
    world: World, monkeypatch: pytest.MonkeyPatch, meanwhile: Callable[[], object] = lambda: None
) -> None:
    """Let the partner answer enquiries; `meanwhile` happens when it has looked into its store."""

    def ask(url: str, authorization: str, deadline: float) -> bytes:
        asked = parse_qs(urlsplit(url).query).get("message_id", [])
        answer = write(link_status.status_for(world.here, asked))
        if not asked:  # the last question of an enquiry
            meanwhile()
        return answer

    monkeypatch.setattr(enquiry, "ask", ask)


@pytest.mark.requirement("000-097")
def test_not_received_is_taken_where_the_partner_says_that_it_lacks_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """D18."""
    world = make_world()
    message = in_flight(world)
    answering(world, monkeypatch)

    cancel.cancel(message, Verdict.NOT_RECEIVED, ANN)
    after = world.submit()
    world.settle()

    assert numbers(world) == [("cancelled", None), ("acknowledged", 1)]
    assert world.received() == [after.message_id]


def test_not_received_is_refused_where_the_partner_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    world = make_world()
    message = world.submit()
    (job,) = world.look()
    world.hand_over(job)
    world.end(job)
    answering(world, monkeypatch)
    with pytest.raises(NotPossible, match="was received, the partner says"):
        cancel.cancel(message, Verdict.NOT_RECEIVED, ANN)
    assert numbers(world) == [("in_flight", 1)]


@pytest.mark.parametrize("under_way", ["when asked", "since"])
def test_not_received_is_not_proven_by_an_answer_that_a_copy_overtakes(
    monkeypatch: pytest.MonkeyPatch, under_way: str
) -> None:
    """The copy is stored and ends after the partner has said that it lacks the message."""
    world = make_world()
    if under_way == "when asked":
        message = world.submit()
        jobs = world.look()
    else:
        message = in_flight(world)
        jobs = []

    def arrives() -> None:
        if under_way == "since":
            operate.send_now(world.there, ANN)
            jobs.extend(world.look())
        world.hand_over(jobs[0])
        world.end(jobs[0])

    answering(world, monkeypatch, arrives)
    with pytest.raises(NotPossible, match="nobody proves that it was not received"):
        cancel.cancel(message, Verdict.NOT_RECEIVED, ANN)
    assert numbers(world) == [("in_flight", 1)]


def test_not_received_is_never_proven_of_mail() -> None:
    world = make_world()
    message = in_flight(world, LOST)
    world.there.address = "mailto:b@example.net"
    world.there.save(update_fields=["address"])
    message.link.partner.refresh_from_db()
    with pytest.raises(NotPossible, match="nobody proves"):
        cancel.cancel(cancel.find(message.message_id), Verdict.NOT_RECEIVED, ANN)


def test_what_is_at_its_end_is_not_cancelled() -> None:
    world = make_world()
    message = world.submit()
    world.settle()
    with pytest.raises(NotPossible, match="it is at its end"):
        cancel.cancel(message, Verdict.RECEIVED, ANN)
    with pytest.raises(NotPossible, match="No message nonsense was submitted here"):
        cancel.find("nonsense")


@pytest.mark.requirement("000-097")
def test_an_ack_that_comes_after_all_is_told_once_and_noted_on_the_incident() -> None:
    """D18."""
    world = make_world(retries=0)
    message = world.submit()
    (job,) = world.look()
    world.hand_over(job)
    world.end(job)
    OutboundLink.objects.filter(pk=world.link.pk).update(due=message.submitted_at)
    acks = world.look()
    assert world.link.state == "suspended"
    cancel.cancel(message, Verdict.UNKNOWN, ANN)
    for _ in range(3):
        world.hand_over(acks[0])

    message.refresh_from_db()
    assert (message.outcome, message.duplicate_acks) == ("received", 2)
    assert events(message)[1:] == [("cancelled", "unknown"), ("cancelled", "received after all")]
    assert "acknowledged after it was cancelled" in Incident.objects.get().detail


def test_a_cancelled_message_is_not_put_in_flight_by_who_read_the_queue_before() -> None:
    """An Ack is taken without a lock: it reads the queue, and writes if nothing has changed."""
    world = make_world()
    first = in_flight(world)
    queued = world.submit()
    partner = Partner.objects.by_credential(f"Bearer {world.there.name}")
    assert partner is not None
    lanes, _ = Lanes.read_with_sent(partner, first.message_id)
    lanes.step(partner.pk, AckReceived(first.message_id))

    cancel.cancel(queued, None, ANN)

    assert lanes.write_if_unchanged(partner.pk) is False
    assert numbers(world) == [("in_flight", 1), ("cancelled", None)]


# --- reset ---------------------------------------------------------------------------------------
@pytest.mark.requirement("000-047", "000-048")
def test_the_sequence_is_reset_with_who_and_why_and_only_when_nothing_is_in_doubt() -> None:
    world = make_world()
    message = in_flight(world)
    with pytest.raises(NotPossible, match="a message is in flight"):
        resynchronise.reset_sequence(world.there, ANN)
    cancel.cancel(message, Verdict.RECEIVED, ANN)

    resynchronise.reset_sequence(world.there, ANN)

    assert (world.link.next_number, world.link.epoch) == (1, 2)
    act = History.objects.get(event="SequenceReset")
    assert (act.actor, act.detail) == ("ann", "next number 2 → 1, epoch 1 → 2; because")


@pytest.mark.requirement("000-046", "000-047")
def test_numbers_wrap_around_with_retries_and_a_reset_around_it() -> None:
    world = make_world()
    for direction, partner in (("out", world.there), ("in", world.here)):
        operate.start_link(partner, direction, 999_999_997, ANN)
    for _ in range(3):
        message = world.submit()
        (job,) = world.look()
        world.end(job, LOST)
        operate.send_now(world.there, ANN)
        world.settle()
        message.refresh_from_db()
        assert message.state == "acknowledged"
    resynchronise.reset_sequence(world.there, ANN)
    world.submit()
    world.settle()
    assert [number for _, number in numbers(world)] == [999_999_998, 999_999_999, 1, 1]
    assert len(world.received()) == 4
    assert not Incident.objects.exists()


# --- the receiving side --------------------------------------------------------------------------
@pytest.mark.parametrize("setting", ["hold", "refuse"])
def test_a_reset_that_is_held_or_refused_is_let_in_by_an_operator(setting: str) -> None:
    world = make_world()
    world.here.agreements.update(on_unexpected_first=setting)
    for _ in range(2):
        world.submit()
    world.settle()
    suspend(world)
    resynchronise.reset_sequence(world.there, ANN)
    operate.resume(world.there, ANN)
    message = world.submit()
    world.settle()
    assert len(world.received()) == 2

    resynchronise.allow_reset(world.here, ANN)
    act = History.objects.get(event="ResetAllowed")
    assert act.detail == "last accepted 2, number 1 let in: no → yes; because"
    with pytest.raises(NotPossible, match="it is allowed already"):
        resynchronise.allow_reset(world.here, ANN)
    if setting == "refuse":
        operate.resume(world.there, ANN)
    else:
        operate.send_now(world.there, ANN)
    world.settle()

    assert world.received()[2:] == [message.message_id]
    link = InboundLink.objects.get(partner=world.here)
    assert (link.last_number, link.reset_allowed) == (1, False)
    assert not Incident.objects.filter(partner=world.here, resolved_at=None).exists()


def test_missing_numbers_are_given_up_by_an_operator_only() -> None:
    world = make_world()
    operate.start_link(world.there, "out", 41, ANN)
    message = world.submit()
    world.settle()
    assert (world.received(), world.link.suspended_for) == ([], "resynchronise")

    with pytest.raises(NotPossible, match="A number is 1 to 999999999, not 0"):
        resynchronise.expect(world.here, 0, ANN)
    resynchronise.expect(world.here, 42, ANN)
    with pytest.raises(NotPossible, match="Number 42 is what is expected"):
        resynchronise.expect(world.here, 42, ANN)
    operate.resume(world.there, ANN)
    world.settle()

    assert world.received() == [message.message_id]
    assert History.objects.get(event="NumberExpected").detail == (
        "last accepted None, taken next 42; because"
    )
    assert not Incident.objects.filter(resolved_at=None).exists()


# --- resynchronise -------------------------------------------------------------------------------
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
def test_a_restored_partner_gets_again_what_it_lost_same_bytes_same_numbers(
    kept: int, more: int
) -> None:
    world = make_world()
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
    carried = world.settle()

    assert compared.plan.mend is Mend.REWIND
    told = History.objects.get(event="Resynchronised")
    assert told.actor == "ann"
    assert told.detail.startswith(f"the partner accepted {kept or 'nothing'}, our next is")
    assert f"Verdict: {compared.plan.verdict}; because" in told.detail
    again = ids[kept:] + [message.message_id for message in late]
    assert world.received() == ids[:kept] + again
    assert carried >= 2 * len(again)
    assert [state for state, _ in numbers(world)] == ["acknowledged"] * (5 + more)
    now = {m.pk: (m.head, m.sequence_number) for m in OutboundMessage.objects.all()}
    assert heads.items() <= now.items()
    assert world.link.next_number == 6 + more
    assert Attempt.objects.filter(message=messages[4]).count() == 2
    assert not Incident.objects.filter(partner=world.there, resolved_at=None).exists()


def test_what_retention_has_removed_the_payloads_of_is_not_sent_again() -> None:
    """Its bytes would not be the same: a person is asked instead."""
    world = make_world()
    messages = [world.submit(f"<order n='{n}'/>") for n in range(3)]
    world.settle()
    forget_after(world, 1)
    OutboundPayload.objects.filter(message=messages[1]).delete()
    suspend(world)

    with pytest.raises(NotPossible, match="some of the numbers 2 to 3") as refused:
        resynchronise.apply(world.there, said_by_partner(world), ANN)

    assert "not all of it is stored here any more" in str(refused.value)
    assert [state for state, _ in numbers(world)] == ["acknowledged"] * 3
    compared = resynchronise.compare(world.there, said_by_partner(world))
    assert (compared.plan.mend, compared.plan.lost) == (Mend.ASK, "some of the numbers 2 to 3")


def test_rewound_messages_go_one_at_a_time_before_the_queue_and_stay_in_order() -> None:
    world = make_world()
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
    with pytest.raises(NotPossible, match="it cannot be left out"):
        cancel.cancel(messages[2], None, ANN)
    with pytest.raises(NotPossible, match="only the verdict received leaves no gap"):
        cancel.cancel(messages[1], Verdict.UNKNOWN, ANN)
    cancel.cancel(messages[1], Verdict.RECEIVED, ANN)
    suspend(world)
    assert world.link.in_flight == messages[2]
    operate.resume(world.there, ANN)
    world.settle()
    assert world.link.suspended_for == "resynchronise", "number 2 is a gap there"
    assert numbers(world)[2:] == [("in_flight", 3), ("queued", None)]
    assert world.received() == [messages[0].message_id]


def test_numbers_are_not_reset_while_rewound_messages_wait() -> None:
    world = make_world()
    for _ in range(2):
        world.submit()
    world.settle()
    forget_after(world, 0)
    suspend(world)
    resynchronise.apply(world.there, said_by_partner(world), ANN)
    suspend(world)
    cancel.cancel(OutboundMessage.objects.get(sequence_number=1), Verdict.RECEIVED, ANN)
    with pytest.raises(NotPossible, match="1 messages are still to be sent again"):
        resynchronise.reset_sequence(world.there, ANN)


def test_what_was_cancelled_as_received_is_sent_again_too() -> None:
    """It had a number: without it there would be a gap."""
    world = make_world()
    cancelled = world.submit()
    (job,) = world.look()
    world.hand_over(job)
    world.end(job)
    cancel.cancel(cancelled, Verdict.RECEIVED, ANN)
    after = world.submit()
    world.settle()
    forget_after(world, 0)
    suspend(world)
    resynchronise.apply(world.there, said_by_partner(world), ANN)
    world.settle()
    assert world.received() == [cancelled.message_id, after.message_id]


def restore_sender(world: World, number: int) -> None:
    """The sending side is restored from a backup made after this number."""
    later = OutboundMessage.objects.filter(link=world.link, sequence_number__gt=number)
    later.delete()
    OutboundLink.objects.filter(pk=world.link.pk).update(next_number=number + 1)


@pytest.mark.parametrize("collides", ["in flight", "queued", "nothing"])
def test_a_restored_sender_goes_on_where_its_partner_is(collides: str) -> None:
    """What it sends in between is refused (Stale or Conflict) and goes under a new number."""
    world = make_world()
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

    assert (compared.plan.mend, compared.plan.next_number) == (Mend.ADOPT, 5)
    assert "numbers 3 to 4" in compared.plan.lost
    assert world.received()[4:] == [message.message_id for message in new]
    assert [number for _, number in numbers(world)] == [1, 2, *range(5, 5 + len(new))]
    assert not Incident.objects.filter(partner=world.there, resolved_at=None).exists()


def test_messages_queued_in_the_backup_that_the_partner_has_are_not_sent_again() -> None:
    world = make_world()
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


def test_in_doubt_nothing_is_changed_and_a_person_is_asked() -> None:
    world = make_world()
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


def test_a_message_that_the_partner_proves_to_have_is_completed() -> None:
    world = make_world()
    message = world.submit()
    (job,) = world.look()
    world.hand_over(job)
    world.end(job)
    suspend(world)
    resynchronise.apply(world.there, said_by_partner(world), ANN)
    message.refresh_from_db()
    assert message.state == "acknowledged"
    assert events(message) == [("acknowledged", "")]
    assert world.link.state == "idle"


def test_nothing_else_is_done_than_what_was_agreed_to() -> None:
    """What has happened since the look is found under the lock."""
    world = make_world()
    for _ in range(3):
        world.submit()
    world.settle()
    forget_after(world, 2)
    suspend(world)
    agreed = resynchronise.compare(world.there, said_by_partner(world)).agreed
    forget_after(world, 1)

    with pytest.raises(NotPossible, match="no longer as shown"):
        resynchronise.apply(world.there, said_by_partner(world), ANN, agreed=agreed)
    with pytest.raises(NotPossible, match="nothing to rewind"):
        resynchronise.rewind(world.there, LinkStatus(3, last_id(world)), ANN)

    assert world.link.state == "suspended"
    assert not OutboundMessage.objects.filter(state="rewound").exists()


def last_id(world: World) -> str:
    return OutboundMessage.objects.filter(link=world.link).latest("pk").message_id


def test_a_running_link_or_a_copy_under_way_is_not_resynchronised() -> None:
    world = make_world()
    world.submit()
    world.look()
    with pytest.raises(NotPossible, match="is not suspended: suspend it first"):
        resynchronise.apply(world.there, LinkStatus(None, ""), ANN)
    suspend(world)
    with pytest.raises(NotPossible, match="still under way"):
        resynchronise.apply(world.there, LinkStatus(None, ""), ANN)


# --- commands ------------------------------------------------------------------------------------
def test_the_commands_say_what_they_do(capsys: pytest.CaptureFixture[str]) -> None:
    world = make_world()
    messages = [world.submit() for _ in range(3)]
    world.settle()
    forget_after(world, 1)
    suspend(world)
    name, last_id = world.there.name, messages[0].message_id

    call_command("resynchronise", name, "--last", "1", "--last-id", last_id)
    said = capsys.readouterr().out
    assert "it accepted 1 last" in said
    assert "Numbers 2 to 3 (2 in all) go again" in said
    assert "May be lost: nothing." in said
    assert "Nothing was changed" in said
    assert numbers(world)[1] == ("acknowledged", 2)

    with pytest.raises(CommandError, match="--apply needs a --reason"):
        call_command("resynchronise", name, "--last", "1", "--last-id", last_id, "--apply")
    with pytest.raises(CommandError, match="--last needs --last-id"):
        call_command("resynchronise", name, "--last", "1")
    typed = ("--last", "1", "--last-id", last_id, "--apply", "--reason", "restored")
    call_command("resynchronise", name, *typed)
    assert "Done, and resumed." in capsys.readouterr().out
    world.settle()
    assert len(world.received()) == 3

    call_command("reset-sequence", name, "--reason", "agreed", "--json")
    assert '"state": "idle"' in capsys.readouterr().out
    suspend(world)
    queued = world.submit()
    call_command("cancel", queued.message_id, "--reason", "wrong", "--json")
    assert '"outcome": "not_received"' in capsys.readouterr().out
    with pytest.raises(CommandError, match="it is at its end"):
        call_command("cancel", queued.message_id, "--reason", "wrong")
    call_command("allow-reset", world.here.name, "--reason", "agreed", "--json")
    call_command("expect", world.here.name, "--number", "9", "--reason", "lost", "--json")
    assert '"expected": 9' in capsys.readouterr().out
    with pytest.raises(CommandError, match="does not say how its link is"):
        call_command("link-status", name)
