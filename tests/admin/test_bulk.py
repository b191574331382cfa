"""One verb for many: counted before, done in the background, cancelled, gone on with, listed."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from django.contrib.messages import get_messages
from django.db import OperationalError
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from msh.flows import bulk, operate
from msh.flows.advance import Actor
from msh.models import (
    BulkItem,
    BulkJob,
    BulkVerb,
    ConsumerKind,
    Delivery,
    History,
    Incident,
    OutboundLink,
)
from tests.delivery.desk import consumer, receive
from tests.flows.world import World, make_world

from .conftest import client_of, submit, suspended_world

pytestmark = pytest.mark.django_db

NEW = reverse("admin:msh_bulkjob_new")
RIGHTS = ("view_bulkjob", "bulk_bulkjob", "view_outboundlink", "resume_outboundlink")
ANN = Actor("ann", "their data centre is back")


@pytest.fixture
def supervisor() -> Client:
    return client_of("sue", *RIGHTS, "view_delivery", "decide_delivery")


@pytest.fixture
def suspended() -> list[World]:
    """Three partners suspended now; a fourth since yesterday."""
    worlds = [suspended_world() for _ in range(4)]
    yesterday = timezone.now() - timedelta(days=1)
    OutboundLink.objects.filter(pk=worlds[3].link.pk).update(suspended_since=yesterday)
    return worlds


def an_hour_ago() -> datetime:
    return timezone.now() - timedelta(hours=1)


def written(at: datetime) -> str:
    """As the browser's field writes it."""
    return timezone.localtime(at).strftime("%Y-%m-%dT%H:%M:%S")


def confirm(client: Client, verb: str = "resume", counted: int = 3, **fields: Any) -> Any:
    data = {"verb": verb, "since": written(an_hour_ago()), "counted": counted, "reason": "back"}
    return client.post(NEW, {**data, **fields})


def said(response: Any) -> str:
    return " ".join(str(message) for message in get_messages(response.wsgi_request))


def states(worlds: list[World]) -> list[str]:
    return [world.link.state for world in worlds]


def test_a_preview_counts_and_changes_nothing(supervisor: Client, suspended: list[World]) -> None:
    page = supervisor.get(NEW, {"verb": "resume", "since": written(an_hour_ago())})

    text = page.content.decode()
    assert page.context["counted"] == 3
    assert all(world.there.name in text for world in suspended[:3])
    assert suspended[3].there.name not in text
    assert states(suspended) == ["suspended"] * 4
    assert not BulkJob.objects.exists()


def test_all_suspended_since_are_resumed_in_the_background(
    supervisor: Client, suspended: list[World]
) -> None:
    response = confirm(supervisor)
    job = BulkJob.objects.get()
    assert response["Location"] == reverse("admin:msh_bulkjob_change", args=[job.pk])
    assert states(suspended) == ["suspended"] * 4

    assert bulk.run() == 3

    assert states(suspended) == ["waiting"] * 3 + ["suspended"]
    job.refresh_from_db()
    assert (job.state, job.done, job.refused, job.total) == ("done", 3, 0, 3)
    assert (job.actor, job.reason) == ("sue", "back")
    acts = History.objects.filter(event="OperatorResumed")
    assert {(act.actor, act.detail) for act in acts} == {("sue", f"back (bulk job {job.pk})")}
    assert Incident.objects.filter(resolved_at=None).count() == 1


def test_what_was_parked_since_is_run_again(supervisor: Client) -> None:
    taker = consumer(ConsumerKind.PULL)
    received = receive(make_world(), 3)
    for state, message in zip(("parked", "in_doubt", "blocked"), received, strict=True):
        Delivery.objects.create(
            consumer=taker,
            message=message,
            state=state,
            attempt=3,
            started_at=timezone.now(),
            ended_at=timezone.now(),
        )

    confirm(supervisor, verb="run-again", counted=2)
    assert bulk.run() == 2

    left = Delivery.objects.order_by("message__pk").values_list("state", flat=True)
    assert sorted(left) == ["failed", "failed", "in_doubt"]


def test_what_is_not_possible_is_listed_with_its_reason(
    supervisor: Client, suspended: list[World]
) -> None:
    confirm(supervisor)
    operate.resume(suspended[1].there, ANN)

    bulk.run()

    job = BulkJob.objects.get()
    assert (job.state, job.done, job.refused) == ("done", 2, 1)
    page = supervisor.get(reverse("admin:msh_bulkjob_change", args=[job.pk]))
    (results,) = page.context["tables"]
    assert suspended[1].there.name in str(results.rows[0][0])
    assert "it is not suspended" in str(results.rows[0][2])


def test_what_came_meanwhile_is_not_done_unseen(supervisor: Client, suspended: list[World]) -> None:
    response = confirm(supervisor, counted=2)

    assert "There were 2, now there are 3: look again." in said(response)
    assert response.context["counted"] == 3
    assert not BulkJob.objects.exists()


def test_a_cancelled_job_begins_no_more(supervisor: Client, suspended: list[World]) -> None:
    confirm(supervisor)
    job = BulkJob.objects.get()

    submit(supervisor, reverse("admin:msh_bulkjob_cancel", args=[job.pk]), "wrong hour")

    assert bulk.run() == 0
    assert states(suspended) == ["suspended"] * 4
    job.refresh_from_db()
    assert (job.state, job.cancelled_by) == ("cancelled", "sue")
    assert job.cancel_reason == "agreed by telephone"
    page = supervisor.get(reverse("admin:msh_bulkjob_change", args=[job.pk]))
    assert "not begun" in page.content.decode()
    again = submit(supervisor, reverse("admin:msh_bulkjob_cancel", args=[job.pk]))
    assert "has ended already" in said(again)


def test_it_goes_on_where_it_was_left(
    suspended: list[World], monkeypatch: pytest.MonkeyPatch
) -> None:
    bulk.start(BulkVerb.RESUME, an_hour_ago(), 3, ANN)
    monkeypatch.setattr(bulk, "SLICE", -1.0)
    assert bulk.run() == 0
    monkeypatch.setattr(bulk, "SLICE", 10.0)
    item = BulkItem.objects.order_by("pk")[0]
    operate.resume(suspended[0].there, ANN)
    BulkItem.objects.filter(pk=item.pk).update(done=True)
    BulkJob.objects.update(done=1)

    assert bulk.run() == 2

    assert BulkJob.objects.get().state == "done"
    assert History.objects.filter(event="OperatorResumed").count() == 3


def test_a_row_that_the_database_refuses_waits_and_stops_no_other(
    suspended: list[World], monkeypatch: pytest.MonkeyPatch
) -> None:
    resume = operate.resume

    def locked(partner: Any, actor: Actor) -> Any:
        if partner == suspended[0].there:
            raise OperationalError("canceling statement due to lock timeout")
        return resume(partner, actor)

    bulk.start(BulkVerb.RESUME, an_hour_ago(), 3, ANN)
    monkeypatch.setattr(operate, "resume", locked)
    assert bulk.run() == 2
    assert BulkJob.objects.get().state == "running"

    monkeypatch.setattr(operate, "resume", resume)
    assert bulk.run() == 1
    assert BulkJob.objects.get().state == "done"


@pytest.mark.parametrize("missing", RIGHTS)
def test_it_takes_the_right_for_many_and_for_one(missing: str, suspended: list[World]) -> None:
    client = client_of("otto", *(right for right in RIGHTS if right != missing))

    assert confirm(client).status_code == 403
    query = {"verb": "resume", "since": written(an_hour_ago())}
    assert client.get(NEW, query).status_code == 403
    assert not BulkJob.objects.exists()


def test_without_a_csrf_token_or_a_reason_nothing_begins(
    supervisor: Client, suspended: list[World]
) -> None:
    strict = client_of("max", *RIGHTS, enforce_csrf_checks=True)

    assert confirm(strict).status_code == 403
    assert confirm(supervisor, reason=" ").status_code == 200
    assert confirm(supervisor, since="yesterday").status_code == 200
    assert not BulkJob.objects.exists()
