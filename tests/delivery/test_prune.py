"""Retention: what goes, what stays, what is refused."""

from datetime import timedelta
from importlib import import_module

import pytest
import time_machine
from axes.models import AccessAttempt, AccessLog
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.core.checks import run_checks
from django.core.exceptions import ValidationError
from django.core.management import CommandError, call_command
from django.db import DatabaseError, connection, transaction
from django.utils import timezone
from django_celery_beat.models import PeriodicTask
from pytest_django import Settings

from msh.flows.operations.change_delivery import decide
from msh.flows.operations.prune import ClockDoubtful, prunable, prune_all
from msh.flows.sending import submit
from msh.models import (
    Attempt,
    ConsumerKind,
    Delivery,
    History,
    InboundLink,
    InboundMessage,
    InboundPayload,
    Incident,
    OutboundMessage,
    OutboundPayload,
    PartyEvent,
    PruneRun,
    SettingChange,
    Signal,
)
from msh.store.history import Actor
from msh.tasks import prune
from partners.models import Agreement
from partners.setup import SetupRefused, apply
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


def test_young_or_open_rows_stay() -> None:
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

    decided = decide([delivery_of(message).pk], "run-again", Actor("ann", "fixed"))
    desk.settle()

    assert [job.body for job in desk.transmitted.jobs] == ([b"<order/>"] if kept else [])
    assert state_of(message)[1] == ("processing" if kept else "rejected")
    assert bool(decided.refused) is not kept
    for why in decided.refused:
        assert f"the payloads of {message.message_id} were removed by retention" in why


def test_message_without_payloads_can_always_run_again() -> None:
    world = make_world()
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


def test_ids_before_a_reset_stay_until_their_numbers_have_passed() -> None:
    """Else a late copy of one of them would be new again (D39)."""
    old_world()
    link = InboundLink.objects.get(last_number=4)
    InboundLink.objects.filter(pk=link.pk).update(epoch=2, last_number=3, highest_number=4)
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


DAY = 86_400
LONG = {"timeout": DAY, "retries": 100, "retry_interval": DAY}
"""1,020 days for which ids are kept at least, with the default of the TransientErrors."""


@pytest.mark.requirement("002-13")
def test_agreement_with_a_long_horizon_keeps_its_ids_and_nothing_else(settings: Settings) -> None:
    world = old_world()
    other = make_world()
    receive(other, 4)
    Desk().settle()
    age()
    settings.MSH_KEEP_MESSAGES = 30
    Agreement.objects.filter(partner=world.here).update(**LONG)
    counted = prunable()

    removed = prune_all()

    assert removed == counted
    of_world = InboundMessage.objects.filter(link__partner=world.here)
    assert of_world.count() == 4
    assert InboundMessage.objects.filter(link__partner=other.here).count() == 2
    assert not InboundPayload.objects.exists()
    assert not OutboundPayload.objects.exists()
    assert removed["outbound messages"] == 6
    of_world.update(delivered_at=timezone.now() - timedelta(days=1021))
    assert prune_all()["inbound messages"] == 2


def test_agreement_incident_is_opened_once_and_resolved(
    settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    world = old_world()
    settings.MSH_KEEP_MESSAGES = 30
    Agreement.objects.filter(partner=world.here).update(**LONG)
    for _ in range(2):
        call_command("prune")
    assert "tpa-1" in capsys.readouterr().err
    (incident,) = Incident.objects.all()
    assert (incident.partner, incident.kind) == (world.here, "retention_too_short")
    for word in ("MSH_KEEP_MESSAGES", "30 days", "tpa-1", "1020"):
        assert word in incident.detail
    settings.MSH_KEEP_MESSAGES = 1020
    prune_all()
    incident.refresh_from_db()
    assert incident.resolved_at is not None


def test_start_says_that_an_agreement_keeps_ids_longer(settings: Settings) -> None:
    world = make_world()
    settings.MSH_KEEP_MESSAGES = 30
    Agreement.objects.filter(partner=world.here).update(**LONG)
    (found,) = run_checks(tags=["database"], databases=["default"])
    assert found.id == "msh.W002"
    assert "tpa-1" in str(found)
    assert "MSH_KEEP_MESSAGES" in str(found)


def test_agreement_with_a_horizon_beyond_retention_is_refused(
    settings: Settings,
) -> None:
    agreement = make_world().agreement
    agreement.full_clean()
    for name, value in LONG.items():
        setattr(agreement, name, value)
    with pytest.raises(ValidationError, match="set MSH_KEEP_MESSAGES to 1020 or more"):
        agreement.full_clean()
    settings.MSH_KEEP_MESSAGES = 1020
    agreement.full_clean()


def test_setup_refuses_such_an_agreement_with_the_same_words() -> None:
    world = make_world()
    agreement = {"tpa_id": "tpa-1", "our_party": "111", "their_party": "222", **LONG}
    partner = {"name": world.there.name, "uri": world.there.uri, "agreements": [agreement]}
    with pytest.raises(SetupRefused, match="set MSH_KEEP_MESSAGES to 1020 or more"):
        apply({"partners": [partner]})
    assert Agreement.objects.get(partner=world.there).retries == 3


def test_beat_prunes_daily() -> None:
    task = PeriodicTask.objects.get(name="prune")
    assert (task.task, task.enabled) == ("msh.tasks.prune", True)


def test_clocks_that_are_far_apart_remove_nothing() -> None:
    old_world()
    with time_machine.travel(timezone.now() - timedelta(days=366), tick=True):
        with pytest.raises(ClockDoubtful, match="days apart"):
            prune_all()
        with pytest.raises(CommandError, match="days apart"):
            call_command("prune")
    assert numbers()[1] == [1, 2, 3, 4]
    with time_machine.travel(timezone.now() - timedelta(hours=3), tick=True):
        assert prune_all()["inbound messages"] == 2


def test_rows_that_are_old_by_only_one_clock_stay(settings: Settings) -> None:
    """The database's clock is less than a day ahead: what it calls old may be young. It may also
    have been a day behind when it dated it."""
    old_world()
    hours_old = timezone.now() - timedelta(days=settings.MSH_KEEP_MESSAGES + 1, hours=1)
    InboundMessage.objects.filter(delivered_at=YEARS_AGO).update(delivered_at=hours_old)
    OutboundMessage.objects.filter(completed_at=YEARS_AGO).update(completed_at=hours_old)
    with time_machine.travel(timezone.now() - timedelta(hours=23), tick=True):
        removed = prune_all()
    assert (removed["inbound messages"], removed["outbound messages"]) == (0, 0)
    with time_machine.travel(timezone.now() + timedelta(hours=23), tick=True):
        removed = prune_all()
    assert (removed["inbound messages"], removed["outbound messages"]) == (2, 3)


def let_last_run_be(days_ago: int) -> None:
    PruneRun.objects.create(pk=1, at=timezone.now() - timedelta(days=days_ago))


def test_a_clock_that_has_jumped_ahead_since_the_last_run_removes_nothing() -> None:
    """Both clocks are of one machine: they agree."""
    world = old_world()
    let_last_run_be(days_ago=366)

    with pytest.raises(ClockDoubtful, match="366 days have passed"):
        prune_all()
    with pytest.raises(CommandError, match=r"manage\.py prune --the-clock-is-right"):
        call_command("prune")
    prune()  # as beat does it

    assert numbers()[1] == [1, 2, 3, 4]
    incident = Incident.objects.get()
    assert (incident.kind, incident.direction) == ("clock_doubtful", "in")
    assert "prune --the-clock-is-right" in incident.detail
    assert incident.partner in (world.here, world.there)


def test_an_operator_says_that_the_clock_is_right() -> None:
    old_world()
    let_last_run_be(days_ago=366)
    prune()

    call_command("prune", "--the-clock-is-right")

    assert numbers()[1] == [1, 4]
    assert Incident.objects.get().resolved_at is not None
    assert PruneRun.objects.filter(at__gt=timezone.now() - timedelta(minutes=5)).exists()
    prune_all()


def test_before_the_first_run_the_newest_history_says_what_the_time_was() -> None:
    old_world()
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE msh_history DISABLE TRIGGER USER")
        cursor.execute("UPDATE msh_history SET at = at - interval '40 days'")
        cursor.execute("ALTER TABLE msh_history ENABLE TRIGGER USER")
    with pytest.raises(ClockDoubtful, match="40 days have passed"):
        prune_all()


@pytest.mark.parametrize("days", [-400, 0, 34])
def test_month_without_a_run_or_slow_clock_is_no_doubt(
    days: int,
) -> None:
    old_world()
    let_last_run_be(days_ago=days)
    assert prune_all()["inbound messages"] == 2
    assert PruneRun.objects.filter(at__gt=timezone.now() - timedelta(minutes=5)).exists()


def test_an_msh_that_has_nothing_yet_is_pruned_without_a_doubt() -> None:
    assert sum(prune_all().values()) == 0


def change_settings(days_ago: int) -> None:
    change = SettingChange.objects.create(
        actor="ann", what="changed", kind="Partner", name=f"{days_ago}", before={}, after={}
    )
    user = User.objects.get_or_create(username="ann")[0]
    entry = LogEntry.objects.create(user=user, action_flag=2, object_repr=f"{days_ago}")
    log_in = AccessLog.objects.create(username=f"{days_ago}")
    at = timezone.now() - timedelta(days=days_ago)
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE msh_settingchange DISABLE TRIGGER USER")
        SettingChange.objects.filter(pk=change.pk).update(at=at)
        cursor.execute("ALTER TABLE msh_settingchange ENABLE TRIGGER USER")
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
