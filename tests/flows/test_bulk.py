"""Bulk jobs that are started at the same time."""

import threading
import tracemalloc
from datetime import datetime, timedelta
from uuid import UUID, uuid4

import pytest
from django.db import connection, transaction
from django.utils import timezone

from msh.flows.operations import change_link
from msh.flows.operations.many import bulk_jobs
from msh.flows.operations.many.confirmation import new_job
from msh.models import EVER, BulkAction, BulkItem, BulkJob
from msh.store.history import Actor
from partners.models import Partner
from tests.flows.world import make_world
from tests.sessions import somebody_waits_for_us
from tests.waiting import wait_until

ANN = Actor("ann", "their network is back")


def begin(since: datetime, confirmation: UUID) -> BulkJob:
    return bulk_jobs.start(BulkAction.RESUME, since, None, ANN, confirmation=confirmation)


@pytest.mark.django_db(transaction=True)
def test_a_confirmation_sent_twice_at_once_starts_one_job() -> None:
    change_link.suspend(make_world().there, Actor("ann", "they move"))
    since, confirmation = timezone.now() - timedelta(hours=1), uuid4()
    second: list[BulkJob] = []

    def again() -> None:
        with connection.cursor() as cursor:
            cursor.execute("SET lock_timeout = '60s'")
        second.append(begin(since, confirmation))
        connection.close()

    thread = threading.Thread(target=again)
    with transaction.atomic():
        first = begin(since, confirmation)
        thread.start()
        wait_until(lambda: not thread.is_alive() or somebody_waits_for_us())
    thread.join()

    assert (second, BulkJob.objects.count()) == ([first], 1)


@pytest.mark.django_db
def test_a_row_that_raises_something_stops_neither_its_job_nor_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    worlds = [make_world() for _ in range(2)]
    for world in worlds:
        change_link.suspend(world.there, Actor("ann", "they move"))
    begin(timezone.now() - timedelta(hours=1), uuid4())
    resume = change_link.resume

    def raising(partner: Partner, actor: Actor) -> None:
        if partner == worlds[0].there:
            raise RuntimeError("what nobody has thought of")
        resume(partner, actor)

    monkeypatch.setattr(change_link, "resume", raising)
    assert bulk_jobs.run() == 2

    assert [world.link.state for world in worlds] == ["suspended", "idle"]
    job = BulkJob.objects.get()
    assert (job.state, job.done, job.refused) == ("done", 1, 1)
    details = set(BulkItem.objects.values_list("detail", flat=True))
    assert details == {"", "RuntimeError: what nobody has thought of"}


@pytest.mark.django_db
def test_a_job_of_many_rows_does_not_hold_all_its_items_in_memory() -> None:
    rows = [(key, f"message {key}") for key in range(10_000)]
    job = new_job(BulkAction.CANCEL, ANN, None, "", EVER)
    tracemalloc.start()
    bulk_jobs.start_chosen(job, rows)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert BulkItem.objects.filter(job=job).count() == 10_000
    assert peak < 4_000_000, "bytes"
