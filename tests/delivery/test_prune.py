"""Retention: what goes, what stays, what is refused."""

from datetime import timedelta

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone
from django_celery_beat.models import PeriodicTask
from pytest_django import Settings

from msh.flows import submit
from msh.flows.advance import Actor
from msh.flows.decide import decide
from msh.flows.prune import RetentionTooShort, floor_of, prunable, prune_all
from msh.models import (
    Attempt,
    ConsumerKind,
    Delivery,
    History,
    InboundLink,
    InboundMessage,
    InboundPayload,
    OutboundMessage,
    OutboundPayload,
    PartyEvent,
    Signal,
)
from partners.models import Agreement
from tests.delivery.desk import Desk, consumer, delivery_of, receive, state_of
from tests.flows.world import World, make_world

pytestmark = pytest.mark.django_db

YEARS_AGO = timezone.now() - timedelta(days=800)


def old_world(count: int = 4) -> World:
    """That many messages, delivered and acknowledged years ago. Nobody is told of it."""
    world = make_world()
    consumer(ConsumerKind.IN_PROCESS)
    receive(world, count)
    Desk().settle()
    age()
    return world


def age() -> None:
    InboundMessage.objects.filter(delivered_at__isnull=False).update(delivered_at=YEARS_AGO)
    OutboundMessage.objects.filter(completed_at__isnull=False).update(completed_at=YEARS_AGO)
    Signal.objects.update(expires_at=YEARS_AGO)


def numbers() -> tuple[list[int | None], list[int | None]]:
    """Those that are left: outbound, inbound."""
    out = OutboundMessage.objects.order_by("pk").values_list("sequence_number", flat=True)
    into = InboundMessage.objects.order_by("pk").values_list("sequence_number", flat=True)
    return list(out), list(into)


@pytest.mark.requirement("002-13", "002-03")
def test_the_last_and_the_first_of_a_pair_stay() -> None:
    old_world()
    told = prunable()

    removed = prune_all()

    assert removed == told
    assert removed["inbound messages"] == 2
    assert removed["outbound messages"] == 3
    assert numbers() == ([4], [1, 4])
    assert not InboundPayload.objects.exists()
    assert not OutboundPayload.objects.exists()
    assert Delivery.objects.count() == 2
    assert Attempt.objects.count() == PartyEvent.objects.count() == 1
    assert not Signal.objects.exists()
    assert InboundLink.objects.get(last_number__isnull=False).last_number == 4
    assert sum(prune_all().values()) == 0


def test_a_dry_run_removes_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    old_world()
    call_command("prune", "--dry-run")
    assert "2 inbound messages would go" in capsys.readouterr().out
    assert numbers() == ([1, 2, 3, 4], [1, 2, 3, 4])


def test_what_is_young_or_open_stays() -> None:
    world = make_world()
    receive(world, 3)
    world.submit()
    age()
    prune_all()
    assert numbers() == ([3, None], [1, 2, 3]), "no consumer took the inbound ones"


def test_payloads_go_before_their_headers(settings: Settings) -> None:
    old_world()
    settings.MSH_KEEP_MESSAGES = 2000
    removed = prune_all()
    assert (removed["inbound payloads"], removed["inbound messages"]) == (4, 0)
    assert (removed["outbound payloads"], removed["outbound messages"]) == (4, 0)


@pytest.mark.parametrize("kept", [True, False])
def test_a_rejected_message_is_run_again_only_while_its_payloads_are_kept(kept: bool) -> None:
    """Else the application would be given a message without them, and take it."""
    world = make_world()
    consumer(ConsumerKind.HTTP)
    (message,) = receive(world)
    desk = Desk()
    desk.settle()
    desk.answer(422)
    if not kept:
        age()
        prune_all()

    decided = decide([delivery_of(message).pk], "run-again", Actor("ann", "mended"))
    desk.settle()

    assert [job.body for job in desk.carried.jobs] == ([b"<order/>"] if kept else [])
    assert state_of(message)[1] == ("processing" if kept else "rejected")
    assert bool(decided.refused) is not kept
    for why in decided.refused:
        assert f"the payloads of {message.message_id} were removed after their time" in why


def test_a_message_that_came_without_payloads_is_run_again_whenever_it_is_asked_for() -> None:
    world = make_world()
    consumer(ConsumerKind.HTTP)
    submit.submit(world.agreement, "Orders", "Ping", [])
    world.settle()
    message = InboundMessage.objects.get()
    desk = Desk()
    desk.settle()
    desk.answer(422)
    assert decide([delivery_of(message).pk], "run-again", Actor("ann", "mended")).refused == []


def test_an_untold_event_keeps_its_message_where_somebody_is_to_be_told(
    settings: Settings,
) -> None:
    settings.MSH_FROM_PARTY_HANDLER = "http://127.0.0.1:9/events"
    old_world()
    first = OutboundMessage.objects.order_by("pk")[0]
    PartyEvent.objects.exclude(message=first).update(delivered_at=YEARS_AGO)
    assert prunable()["outbound messages"] == 2
    prune_all()
    assert numbers()[0] == [1, 4]
    settings.MSH_FROM_PARTY_HANDLER = ""
    prune_all()
    assert numbers()[0] == [4]


def test_ids_of_the_run_before_a_reset_stay_until_their_numbers_have_passed() -> None:
    """Else a late copy of one of them would be new again (D39)."""
    old_world()
    link = InboundLink.objects.get(last_number=4)
    InboundLink.objects.filter(pk=link.pk).update(epoch=2, last_number=3)
    prune_all()
    assert numbers()[1] == [1, 2, 3, 4]
    InboundLink.objects.filter(pk=link.pk).update(last_number=5)
    prune_all()
    assert numbers()[1] == [1, 4]


def test_the_history_goes_after_its_message() -> None:
    world, other = old_world(), make_world()
    kept, gone = InboundMessage.objects.filter(sequence_number__in=(1, 2)).order_by("pk")
    for partner, message_id in (
        (world.here, kept.message_id),
        (world.here, gone.message_id),
        (world.here, ""),
        (other.here, kept.message_id),  # another's message of that id, and it is not here
    ):
        History.objects.create(
            at=YEARS_AGO,
            partner=partner,
            direction="in",
            subject="message" if message_id else "link",
            message_id=message_id,
            event="Note",
        )
    removed = prune_all()
    assert removed["history"] == 3
    left = History.objects.get(event="Note")
    assert (left.partner, left.message_id) == (world.here, kept.message_id)


@pytest.mark.requirement("002-13")
def test_a_retention_below_the_horizon_is_refused(settings: Settings) -> None:
    old_world()
    settings.MSH_KEEP_MESSAGES = 30
    day = 86_400
    Agreement.objects.filter(our_party="222").update(timeout=day, retries=10, retry_interval=day)
    needed = floor_of(Agreement.objects.get(our_party="222")).days
    with pytest.raises(RetentionTooShort, match=f"tpa-1 with .*: set it to {needed} or more"):
        prune_all()
    with pytest.raises(CommandError, match="MSH_KEEP_MESSAGES"):
        call_command("prune")
    assert numbers()[1] == [1, 2, 3, 4]


def test_beat_prunes_daily() -> None:
    task = PeriodicTask.objects.get(name="prune")
    assert (task.task, task.enabled) == ("msh.tasks.prune", True)
