"""The commands for scripts: maintenance windows, queues, replays, jobs."""

import json
from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
import time_machine
from django.core.management import CommandError, call_command
from django.utils import timezone

from msh.flows.operations.many import bulk_jobs
from msh.models import BulkJob, Delivery, MaintenanceWindow, OutboundMessage
from msh.store.clock import read_clock
from tests.admin.conftest import suspended_world, waiting_world
from tests.many.test_replay import completed

pytestmark = pytest.mark.django_db

WHY = ("--reason", "their data centre moves")


def run(*command: object) -> Any:
    out = StringIO()
    call_command(*map(str, command), "--json", stdout=out)
    return json.loads(out.getvalue())


def test_a_window_is_planned_listed_and_ended() -> None:
    world = waiting_world()
    name = world.there.name
    times = ("--from", "2999-01-01T22:00", "--until", "2999-01-02T02:00+01:00")
    planned = run("plan-maintenance", name, *times, *WHY)
    window = MaintenanceWindow.objects.get(pk=planned["window"])
    assert f"{window.starts_at:%d %H:%M} {window.ends_at:%d %H:%M}" == "01 22:00 02 01:00"
    assert window.reason == WHY[1]
    with pytest.raises(CommandError, match="has a window from"):
        run("plan-maintenance", name, *times, *WHY)
    (listed,) = run("maintenance", "--partner", name)
    assert (listed["id"], listed["partner"], listed["state"]) == (window.pk, name, "planned")
    columns = {"id", "partner", "state", "starts_at", "ends_at", "planned_by", "reason", "outcome"}
    assert set(listed) == columns
    assert run("end-maintenance", window.pk, *WHY)["state"] == "cancelled"
    assert run("maintenance") == []
    assert [one["state"] for one in run("maintenance", "--all")] == ["cancelled"]
    with pytest.raises(CommandError, match="already ended"):
        run("end-maintenance", window.pk, *WHY)
    with pytest.raises(CommandError, match="There is no maintenance window 0"):
        run("end-maintenance", 0, *WHY)


def test_now_is_the_time_of_the_database_whatever_the_clock_of_the_shell_says() -> None:
    name = waiting_world().there.name
    until = timezone.now() + timedelta(hours=1)
    with time_machine.travel(timezone.now() + timedelta(hours=2)):
        planned = run("plan-maintenance", name, "--until", until.isoformat(), *WHY)
    assert MaintenanceWindow.objects.get(pk=planned["window"]).starts_at <= read_clock()


def test_a_queue_is_cancelled_as_a_job() -> None:
    world = suspended_world(queued=2)
    assert run("cancel-queue", world.there.name, "--dry-run")["count"] == 2
    assert not BulkJob.objects.exists()
    begun = run("cancel-queue", world.there.name, *WHY)
    assert begun["total"] == 2
    bulk_jobs.run()
    assert not OutboundMessage.objects.queued().exists()
    (job,) = run("jobs")
    assert (job["id"], job["state"], job["done"], job["reason"]) == (
        *(begun["job"], "done", 2, WHY[1]),
    )
    assert [row["done"] for row in run("jobs", begun["job"])] == [True, True]
    assert run("jobs", "--state", "running") == []
    keys = [row["key"] for row in run("jobs", begun["job"])]
    assert [row["key"] for row in run("jobs", begun["job"], "--limit", 1)] == keys[:1]
    for limit in ("-1", "0", "many"):
        with pytest.raises(CommandError, match=f"'{limit}' is not a number of lines: give 1 or"):
            run("jobs", f"--limit={limit}")
    with pytest.raises(CommandError, match="Nothing is queued"):
        run("cancel-queue", world.there.name, *WHY)


def test_a_dry_run_counts_what_a_job_takes_and_the_job_takes_no_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = suspended_world(queued=3)
    queued = OutboundMessage.objects.queued().order_by("pk")
    keys = [message.pk for message in queued]
    monkeypatch.setattr(bulk_jobs, "LIMIT", 2)
    counted = run("cancel-queue", world.there.name, "--dry-run")
    oldest = counted.pop("oldest")
    assert oldest == str(queued[0].submitted_at)
    assert counted == {"partner": world.there.name, "count": 2, "later": 1, "last": keys[1]}
    said = StringIO()
    call_command("cancel-queue", world.there.name, "--dry-run", stdout=said)
    assert f"2 messages would be cancelled, --last {keys[1]}. 1 later ones" in said.getvalue()
    with pytest.raises(CommandError, match="A reason is required"):
        run("cancel-queue", world.there.name, "--last", keys[0])
    assert run("cancel-queue", world.there.name, "--last", keys[0], *WHY)["total"] == 1
    bulk_jobs.run()
    assert [one.pk for one in queued.all()] == keys[1:]


def test_one_delivery_or_all_of_a_consumer_are_replayed() -> None:
    first, _ = completed(2)
    name = first.consumer.name
    assert run("replay", first.pk, *WHY)["total"] == 1
    bulk_jobs.run()
    assert Delivery.objects.filter(replay_of=first).count() == 1
    assert run("replay", "--consumer", name, "--dry-run") == {"count": 2}
    with pytest.raises(CommandError, match="A reason is required"):
        run("replay", "--consumer", name)
    begun = run("replay", "--consumer", name, "--since", "2020-01-01", *WHY)
    assert begun["total"] == 2
    assert run("cancel-job", begun["job"], *WHY)["state"] == "cancelled"
    with pytest.raises(CommandError, match="already ended"):
        run("cancel-job", begun["job"], *WHY)


def test_what_a_replay_refuses() -> None:
    (first,) = completed()
    Delivery.objects.update(state="rejected")
    for command, why in {
        ("replay",): "one of both",
        ("replay", 1, "--consumer", "x"): "one of both",
        ("replay", first.pk, "--dry-run"): "counts what --consumer matches",
        ("replay", 0): "There is no delivery 0",
        ("replay", first.pk): "Not replayed: the delivery is rejected",
        ("replay", "--consumer", "nobody"): f"Consumers: {first.consumer.name}",
        ("replay", "--consumer", first.consumer.name): "no row matches",
    }.items():
        with pytest.raises(CommandError, match=why):
            run(*command, *WHY)
