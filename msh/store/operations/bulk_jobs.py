"""Bulk jobs: started with the rows they are about, done row by row, ended."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from itertools import islice

from django.db.models import F, QuerySet
from django.db.models.functions import Now
from django.utils import timezone

from msh.models import BulkItem, BulkJob, BulkState
from msh.store.engine import Statement, run
from msh.store.history import Actor

BATCH = 1000
"""Items of one INSERT."""


def start_job(job: BulkJob, rows: Iterable[tuple[int, str]]) -> BulkJob:
    """Write it with an item for each (key, label), in the caller's transaction."""
    job.started_at = timezone.now()
    job.save()
    items = (BulkItem(job=job, key=key, label=label) for key, label in rows)
    while some := list(islice(items, BATCH)):  # bulk_create itself makes a list of all
        BulkItem.objects.bulk_create(some)
    return job


@dataclass(frozen=True, slots=True)
class _Had:
    """Whether a lock was free."""

    had: bool


_TRY_LOCK_JOB = Statement("SELECT pg_try_advisory_xact_lock(%(space)s, %(job)s::int) AS had", _Had)
LOCK_SPACE = 0x6D736A  # "msj"


def claim_item(passed_over: Collection[int], resting: Collection[int] = ()) -> BulkItem | None:
    """Lock the next open item of a running job, in the caller's transaction; none that another
    worker has, nor one of these, nor of one of these jobs."""
    free = _open_items().exclude(pk__in=passed_over).exclude(job__in=resting)
    return free.select_for_update(skip_locked=True, no_key=True, of=("self",)).first()


def claim_job(job: int) -> bool:
    """Keep other workers from the items of this job until the transaction ends."""
    return run(_TRY_LOCK_JOB(space=LOCK_SPACE, job=job % 2**31))[0][0].had


def first_item(job: int) -> BulkItem | None:
    """Lock the first open item. Needs the job claimed: who had the item before has given it back,
    or only looks at it."""
    return _open_items().filter(job=job).select_for_update(no_key=True, of=("self",)).first()


def _open_items() -> QuerySet[BulkItem]:
    items = BulkItem.objects.filter(done=None, job__state=BulkState.RUNNING)
    return items.order_by("job", "pk").select_related("job")


def skip_item(item: BulkItem, why: str) -> None:
    BulkItem.objects.filter(pk=item.pk).update(detail=why)


def end_item(item: BulkItem, refused: str) -> None:
    BulkItem.objects.filter(pk=item.pk).update(done=not refused, detail=refused)
    counter = "refused" if refused else "done"
    BulkJob.objects.filter(pk=item.job_id).update(**{counter: F(counter) + 1})


def end_jobs() -> None:
    running = BulkJob.objects.filter(state=BulkState.RUNNING, total=F("done") + F("refused"))
    running.update(state=BulkState.DONE, ended_at=Now())


def cancel_job(job: BulkJob, actor: Actor) -> bool:
    running = BulkJob.objects.filter(pk=job.pk, state=BulkState.RUNNING)
    cancelled = running.update(
        state=BulkState.CANCELLED,
        ended_at=Now(),
        cancelled_by=actor.name,
        cancel_reason=actor.reason,
    )
    return bool(cancelled)
