"""Retention: what goes, what stays, what is refused."""

from datetime import timedelta
from importlib import import_module

import pytest
from axes.models import AccessAttempt, AccessLog
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.core.management import call_command
from django.db import DatabaseError, transaction
from django.utils import timezone
from pytest_django import Settings

from msh.flows.operations.change_delivery import decide
from msh.flows.operations.prune import prunable, prune_all
from msh.flows.sending import submit
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
    SettingChange,
    Signal,
)
from msh.store.history import Actor
from tests.delivery.desk import Desk, consumer, delivery_of, receive, state_of
from tests.delivery.pruning import YEARS_AGO, age, numbers, old_world
from tests.flows.world import World, make_world
from tests.sql import without_triggers

pytestmark = pytest.mark.django_db


@pytest.mark.requirement("002-13", "002-03")
def test_the_last_and_the_first_of_a_pair_stay() -> None:
    old_world()
    counts = prunable()

    removed = prune_all()

    assert removed == counts
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
    assert "2 inbound messages would be removed" in capsys.readouterr().out
    assert numbers() == ([1, 2, 3, 4], [1, 2, 3, 4])


def test_a_long_run_shows_progress_beside_its_answer(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    old_world()
    monkeypatch.setattr(import_module("msh.management.commands.prune"), "REPORT_EVERY", 0.0)
    call_command("prune")
    said = capsys.readouterr()
    assert "2 inbound messages removed so far" in said.err
    assert "so far" not in said.out


def test_payloads_go_before_their_headers(settings: Settings) -> None:
    old_world()
    settings.MSH_KEEP_MESSAGES = 2000
    removed = prune_all()
    assert (removed["inbound payloads"], removed["inbound messages"]) == (4, 0)
    assert (removed["outbound payloads"], removed["outbound messages"]) == (4, 0)


@pytest.mark.parametrize("kept", [True, False])
def test_a_rejected_message_is_run_again_only_while_its_payloads_are_kept(
    world: World, kept: bool
) -> None:
    """Else the application would be given a message without them, and take it."""
    consumer(ConsumerKind.HTTP)
    (message,) = receive(world)
    desk = Desk()
    desk.settle()
    desk.answer(422)
    if not kept:
        age()
        prune_all()

    decided = decide([delivery_of(message).pk], "run-again", Actor("ann", "fixed"))
    desk.settle()

    assert [job.body for job in desk.transmitted.jobs] == ([b"<order/>"] if kept else [])
    assert state_of(message)[1] == ("processing" if kept else "rejected")
    assert bool(decided.refused) is not kept
    for why in decided.refused:
        assert f"the payloads of {message.message_id} were removed by retention" in why


def test_message_without_payloads_can_always_run_again(world: World) -> None:
    consumer(ConsumerKind.HTTP)
    submit.submit(world.agreement, "Orders", "Ping", [])
    world.settle()
    message = InboundMessage.objects.get()
    desk = Desk()
    desk.settle()
    desk.answer(422)
    assert decide([delivery_of(message).pk], "run-again", Actor("ann", "fixed")).refused == []


def test_pending_event_keeps_its_message_if_there_is_a_handler(
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


def change_settings(days_ago: int) -> None:
    change = SettingChange.objects.create(
        actor="ann", what="changed", kind="Partner", name=f"{days_ago}", before={}, after={}
    )
    user = User.objects.get_or_create(username="ann")[0]
    entry = LogEntry.objects.create(user=user, action_flag=2, object_repr=f"{days_ago}")
    log_in = AccessLog.objects.create(username=f"{days_ago}")
    at = timezone.now() - timedelta(days=days_ago)
    with without_triggers("msh_settingchange"):
        SettingChange.objects.filter(pk=change.pk).update(at=at)
    LogEntry.objects.filter(pk=entry.pk).update(action_time=at)
    AccessLog.objects.filter(pk=log_in.pk).update(attempt_time=at)


@pytest.mark.parametrize(("days", "left"), [(3653, [1, 400]), (500, [1, 400]), (10, [1])])
def test_setting_changes_are_kept_for_their_own_period(
    settings: Settings, days: int, left: list[int]
) -> None:
    settings.MSH_KEEP_CHANGES = days
    for days_ago in (1, 400, 3660):
        change_settings(days_ago)
    counted = prunable()

    removed = prune_all()

    gone = 3 - len(left)
    assert removed == counted
    assert removed["changes of settings"] == removed["log-ins"] == removed["saved pages"] == gone
    names = SettingChange.objects.order_by("-pk").values_list("name", flat=True)
    assert sorted(map(int, names)) == left
    assert LogEntry.objects.count() == AccessLog.objects.count() == len(left)


def test_no_change_of_settings_is_removed_within_a_year_by_whatever_sql() -> None:
    for days_ago in (300, 400):
        change_settings(days_ago)
    with pytest.raises(DatabaseError, match="append-only"), transaction.atomic():
        SettingChange.objects.all().delete()
    with pytest.raises(DatabaseError, match="append-only"), transaction.atomic():
        SettingChange.objects.update(actor="bob")
    assert SettingChange.objects.filter(name="400").delete()[0] == 1


def test_expired_sessions_and_old_failed_log_ins_are_removed() -> None:
    for days in (-1, 1):
        at = timezone.now() + timedelta(days=days)
        Session.objects.create(session_key=f"k{days}", session_data="", expire_date=at)
    for days in (0, 400):
        attempt = AccessAttempt.objects.create(username=f"u{days}", failures_since_start=1)
        at = timezone.now() - timedelta(days=days)
        AccessAttempt.objects.filter(pk=attempt.pk).update(attempt_time=at)
    prune_all()
    assert [one.session_key for one in Session.objects.all()] == ["k1"]
    assert [one.username for one in AccessAttempt.objects.all()] == ["u0"]
