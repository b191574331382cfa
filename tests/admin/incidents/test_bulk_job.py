"""Bulk jobs: run in the background, cancelled, continued, listed."""

from datetime import UTC, datetime
from typing import Any

import pytest
from django.db import DataError, IntegrityError, OperationalError
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from msh.flows.operations import change_link
from msh.flows.operations.many import bulk_jobs
from msh.models import (
    EVER,
    BulkAction,
    BulkItem,
    BulkJob,
    ConsumerKind,
    Delivery,
    History,
    Incident,
)
from msh.store.history import Actor
from tests.admin.conftest import client_of, messages_of, submit
from tests.admin.incidents.bulk import (
    ANN,
    RIGHTS,
    confirm,
    keys,
    of_last_hour,
    preview_url,
    start,
    states,
)
from tests.delivery.desk import consumer, receive
from tests.flows.world import World, make_world

pytestmark = pytest.mark.django_db


def test_partners_suspended_since_are_resumed_in_the_background(
    bulk_user: Client, suspended: list[World]
) -> None:
    response = confirm(bulk_user)
    job = BulkJob.objects.get()
    assert response["Location"] == reverse("admin:msh_bulkjob_change", args=[job.pk])
    assert states(suspended) == ["suspended"] * 4

    assert bulk_jobs.run() == 3

    assert states(suspended) == ["waiting"] * 3 + ["suspended"]
    job.refresh_from_db()
    assert (job.state, job.done, job.refused, job.total) == ("done", 3, 0, 3)
    assert (job.actor, job.reason) == ("sue", "back")
    acts = History.objects.filter(event="OperatorResumed")
    assert {(act.actor, act.detail) for act in acts} == {("sue", f"back (bulk job {job.pk})")}
    assert Incident.objects.filter(resolved_at=None).count() == 1


def test_form_sent_twice_starts_one_job(bulk_user: Client, suspended: list[World]) -> None:
    """As a double click sends it, or the back button when the worker was there already."""
    where = preview_url("resume", **of_last_hour())
    page = bulk_user.get(where)
    shown = {name: page.context[name] for name in ("seen", "confirmation")}
    once = {**shown, "ticked": "yes", "keys": keys(page), "reason": "back"}

    first = bulk_user.post(where, once)
    bulk_jobs.run()
    second = bulk_user.post(where, once)

    assert BulkJob.objects.count() == 1
    assert first["Location"] == second["Location"]


def test_parked_deliveries_are_run_again(bulk_user: Client) -> None:
    taker = consumer(ConsumerKind.PULL)
    received = receive(make_world(), 4)
    states = ("parked", "in_doubt", "blocked", "rejected")
    for state, message in zip(states, received, strict=True):
        Delivery.objects.create(
            consumer=taker,
            message=message,
            state=state,
            attempt=3,
            started_at=timezone.now(),
            ended_at=timezone.now(),
        )

    confirm(bulk_user, "run-again", {})
    assert bulk_jobs.run() == 2

    left = Delivery.objects.order_by("message__pk").values_list("state", flat=True)
    assert sorted(left) == ["failed", "failed", "in_doubt", "rejected"]

    # What an application has rejected is run again only where it is asked for: the list of those
    # offered it, and found none.
    confirm(bulk_user, "run-again", {"state__exact": "rejected"})
    assert bulk_jobs.run() == 1
    left = Delivery.objects.order_by("message__pk").values_list("state", flat=True)
    assert sorted(left) == ["failed", "failed", "failed", "in_doubt"]


def test_the_title_of_a_job_for_any_time_has_no_date() -> None:
    yesterday = datetime(2026, 11, 22, 23, 0, tzinfo=UTC)
    assert str(BulkJob(action=BulkAction.RESUME, since=EVER)) == "Resume partners"
    dated = "Resume partners since 2026-11-22 23:00:00 UTC"
    assert str(BulkJob(action=BulkAction.RESUME, since=yesterday)) == dated


def test_refused_rows_are_listed_with_the_reason(bulk_user: Client, suspended: list[World]) -> None:
    confirm(bulk_user)
    change_link.resume(suspended[1].there, ANN)

    bulk_jobs.run()

    job = BulkJob.objects.get()
    assert (job.state, job.done, job.refused) == ("done", 2, 1)
    page = bulk_user.get(reverse("admin:msh_bulkjob_change", args=[job.pk]))
    (results,) = page.context["tables"]
    assert suspended[1].there.name in str(results.rows[0][0])
    assert "it is not suspended" in str(results.rows[0][3])


def test_page_of_an_ended_job_is_reloaded(bulk_user: Client, suspended: list[World]) -> None:
    confirm(bulk_user)
    page = reverse("admin:msh_bulkjob_change", args=[BulkJob.objects.get().pk])
    polled = {"HX-Request": "true"}
    running = bulk_user.get(page, headers=polled)
    page += "?was=running"
    assert page in running.content.decode()
    assert "HX-Refresh" not in running
    assert 'hx-trigger="every 3s"' in running.content.decode()

    bulk_jobs.run()

    ended = bulk_user.get(page, headers=polled)
    assert ended["HX-Refresh"] == "true"
    assert "every 3s" not in ended.content.decode()


def test_cancelled_job_starts_no_more_rows(bulk_user: Client, suspended: list[World]) -> None:
    confirm(bulk_user)
    job = BulkJob.objects.get()

    submit(bulk_user, reverse("admin:msh_bulkjob_cancel", args=[job.pk]), "wrong hour")

    assert bulk_jobs.run() == 0
    assert states(suspended) == ["suspended"] * 4
    job.refresh_from_db()
    assert (job.state, job.cancelled_by) == ("cancelled", "sue")
    assert job.cancel_reason == "wrong hour"
    page = bulk_user.get(reverse("admin:msh_bulkjob_change", args=[job.pk]))
    assert "not started" in page.content.decode()
    again = submit(bulk_user, reverse("admin:msh_bulkjob_cancel", args=[job.pk]))
    assert "has already ended" in messages_of(again)


def test_job_continues_where_it_stopped(
    suspended: list[World], monkeypatch: pytest.MonkeyPatch
) -> None:
    start()
    monkeypatch.setattr(bulk_jobs, "SLICE", -1.0)
    assert bulk_jobs.run() == 0
    monkeypatch.setattr(bulk_jobs, "SLICE", 10.0)
    item = BulkItem.objects.order_by("pk")[0]
    change_link.resume(suspended[0].there, ANN)
    BulkItem.objects.filter(pk=item.pk).update(done=True)
    BulkJob.objects.update(done=1)

    assert bulk_jobs.run() == 2

    assert BulkJob.objects.get().state == "done"
    assert History.objects.filter(event="OperatorResumed").count() == 3


def test_row_with_a_database_error_waits_and_stops_no_other(
    suspended: list[World], monkeypatch: pytest.MonkeyPatch
) -> None:
    resume = change_link.resume

    def locked(partner: Any, actor: Actor) -> Any:
        if partner == suspended[0].there:
            raise OperationalError("canceling statement due to lock timeout")
        return resume(partner, actor)

    start()
    monkeypatch.setattr(change_link, "resume", locked)
    assert bulk_jobs.run() == 2
    assert BulkJob.objects.get().state == "running"
    waits = BulkItem.objects.get(done=None)
    assert waits.detail.endswith("canceling statement due to lock timeout")

    monkeypatch.setattr(change_link, "resume", resume)
    assert bulk_jobs.run() == 1
    waits.refresh_from_db()
    assert (waits.done, waits.detail) == (True, "")
    assert BulkJob.objects.get().state == "done"


@pytest.mark.parametrize("error", [IntegrityError, DataError])
def test_row_whose_database_error_lasts_is_refused(
    suspended: list[World], monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    """Else the job never ends, and keeps maintenance windows waiting."""
    resume = change_link.resume

    def refused(partner: Any, actor: Actor) -> Any:
        if partner == suspended[0].there:
            raise error("value out of range")
        return resume(partner, actor)

    start()
    monkeypatch.setattr(change_link, "resume", refused)
    assert bulk_jobs.run() == 3
    job = BulkJob.objects.get()
    assert (job.state, job.done, job.refused) == ("done", 2, 1)
    assert "value out of range" in BulkItem.objects.get(done=False).detail


@pytest.mark.parametrize("missing", RIGHTS)
def test_job_needs_permission_for_jobs_and_for_one_row(
    missing: str, suspended: list[World]
) -> None:
    client = client_of("otto", *(right for right in RIGHTS if right != missing))

    assert confirm(client).status_code == 403
    assert client.get(preview_url("resume")).status_code == 403
    assert not BulkJob.objects.exists()


def test_without_a_csrf_token_or_a_reason_nothing_begins(
    bulk_user: Client, suspended: list[World]
) -> None:
    strict = client_of("max", *RIGHTS, enforce_csrf_checks=True)

    assert confirm(strict).status_code == 403
    assert confirm(bulk_user, reason=" ").status_code == 200
    assert confirm(bulk_user, filters={"no_such_filter": "1"}).status_code == 200
    assert not BulkJob.objects.exists()
