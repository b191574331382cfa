"""Bulk jobs: started with the rows they are about, done, ended; and the links whose queue one of
them cancels."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from django.db.models import Exists, F, OuterRef, QuerySet, TextField, Value
from django.db.models.functions import Cast, Concat, Now
from django.utils import timezone

from msh.models import (
    ActRequest,
    BulkAction,
    BulkItem,
    BulkJob,
    BulkState,
    Direction,
    OutboundLink,
    RequestState,
    place_of,
)
from msh.store.engine import Statement, Write, run
from msh.store.history import Actor
from msh.store.sending import link_sql

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
    return items.order_by("job_id", "pk").select_related("job")


def begin_set() -> None:
    """For the rest of the transaction, which others may wait for: it waits briefly, and finds its
    rows by index."""
    run(link_sql.BEGIN_POLL())


def claim_next(
    first: BulkItem, limit: int, passed_over: Collection[int] = ()
) -> Sequence[BulkItem]:
    """Lock the open items of its job behind the first one, as `claim_item`: at most so many."""
    behind = BulkItem.objects.filter(job=first.job_id, done=None, pk__gt=first.pk)
    free = behind.exclude(pk__in=passed_over).select_for_update(skip_locked=True, no_key=True)
    return list(free.order_by("pk")[:limit])


def skip_item(item: BulkItem, why: str) -> None:
    BulkItem.objects.filter(pk=item.pk).update(detail=why)


_END = Write("""
    UPDATE msh_bulkitem item SET done = ended.why_not = '', detail = ended.why_not
    FROM unnest(%(keys)s::bigint[], %(why_not)s::text[]) AS ended (id, why_not)
    WHERE item.id = ended.id
""")
# Last, for another worker may have claimed items of the same job.
_COUNT = Write("""
    UPDATE msh_bulkjob SET done = done + %(done)s, refused = refused + %(refused)s
    WHERE id = %(job)s
""")


def end_items(job: int, why_not: Mapping[int, str]) -> None:
    """End these items of a job: why each was refused, empty if it was done."""
    refused = sum(1 for why in why_not.values() if why)
    run(
        _END(keys=list(why_not), why_not=list(why_not.values())),
        _COUNT(job=job, done=len(why_not) - refused, refused=refused),
    )


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


def cancel_jobs() -> QuerySet[BulkJob]:
    """Cancel those of these jobs that run."""
    return BulkJob.objects.filter(action=BulkAction.CANCEL, state=BulkState.RUNNING)


def requests_about_sending() -> QuerySet[ActRequest]:
    """Open ones. By the clock of the database: the statement of a list is the same a moment
    later."""
    opened = ActRequest.objects.filter(state=RequestState.OPEN, until__gt=Now())
    return opened.filter(direction=Direction.OUT)


def with_cancelling(links: QuerySet[OutboundLink]) -> QuerySet[OutboundLink]:
    """With `cancelling`: whether a job cancels its queue, or a request about the link is open.
    Resumed now, the link would send these messages."""
    place = Concat(Value(place_of(OutboundLink(pk=0))[:-1]), Cast(OuterRef("pk"), TextField()))
    jobs = cancel_jobs().filter(about=place)
    asked = requests_about_sending().filter(partner=OuterRef("partner"))
    return links.annotate(cancelling=Exists(jobs) | Exists(asked))


def is_cancelling(partner_id: int) -> bool:
    """Whether the link to this partner is `cancelling`."""
    found = with_cancelling(OutboundLink.objects.filter(partner=partner_id)).first()
    return found is not None and bool(vars(found)["cancelling"])
