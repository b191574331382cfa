"""A bulk job outlives the worker that is at it."""

from datetime import timedelta

from django.utils import timezone

from msh.faults import CrashPoint
from msh.flows.operations.many import bulk_jobs
from msh.models import BulkAction, History
from msh.store.history import Actor
from tests.exchange.machine import Machine
from tests.exchange.pair import WAITS, PairFactory
from tests.waiting import wait_until


def test_a_worker_dies_in_the_middle_of_a_job(pair: PairFactory, msh: Machine) -> None:
    pairs = [pair(acknowledges=True) for _ in range(3)]
    since = timezone.now() - timedelta(seconds=1)
    for one in pairs:
        one.suspend()
    msh.crash_file.write_text(CrashPoint.BULK_BEFORE_COMMIT)

    counted = bulk_jobs.rows_of(BulkAction.RESUME, since).count()
    job = bulk_jobs.start(
        BulkAction.RESUME,
        since,
        None,
        Actor("ann", "they are back"),
    )

    wait_until(lambda: not msh.crash_file.exists(), seconds=WAITS, what="the worker's death")

    def ended() -> bool:
        job.refresh_from_db()
        return job.state == "done"

    wait_until(ended, seconds=WAITS, what="the end of the job")
    assert (job.done, job.refused) == (counted, 0)
    assert [one.link.state for one in pairs] == ["idle"] * 3
    # Of these partners only: another test may have suspended a link within the same second.
    partners = [one.partner for one in pairs]
    acts = History.objects.filter(event="OperatorResumed", actor="ann", partner__in=partners)
    assert sorted(acts.values_list("partner", flat=True)) == [one.partner.pk for one in pairs]
