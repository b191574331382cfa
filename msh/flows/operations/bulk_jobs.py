"""One action on many rows: counted first, then done one by one in the background.

What is done to a row and the mark that it was done commit together: a worker that is killed leaves
no row half done, and the next one goes on where it was.
"""

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from typing import Any
from uuid import UUID

from django.db import DatabaseError, IntegrityError, transaction
from django.db.models import QuerySet

from msh.faults import CrashPoint, reach
from msh.flows.errors import NotPossible
from msh.flows.operations import change_link
from msh.flows.operations.change_delivery import decide_one
from msh.models import BulkAction, BulkItem, BulkJob, Delivery, OutboundLink
from msh.protocol.kinds import DeliveryState
from msh.protocol.lane import OPERATOR
from msh.store.history import Actor
from msh.store.operations.bulk_jobs import (
    cancel_job,
    claim_item,
    end_item,
    end_jobs,
    skip_item,
    start_job,
)
from msh.store.sending.isolation import describe
from partners.models import Partner

logger = logging.getLogger(__name__)

LIMIT = 100_000
"""Rows of one job at most."""
SLICE = 10.0
"""Seconds after which a worker gives its thread back; the next sweep goes on."""

_running = threading.Lock()


@dataclass(frozen=True, slots=True)
class Choice:
    """What a action is about: the rows since a time, how each is called, and what is done to it."""

    rows: Callable[[datetime], QuerySet[Any]]
    key: str
    label: Callable[[Any], str]
    act: Callable[[int, Actor], None]


def _rows(
    action: str, since: datetime, *, spare_held: bool, only: Collection[int] | None
) -> QuerySet[Any]:
    """`spare_held`: but for partners that an operator suspended on purpose. `only`: these keys."""
    choice = CHOICES[action]
    rows = choice.rows(since)
    if only is not None:
        rows = rows.filter(**{f"{choice.key}__in": only})
    return (
        rows.exclude(suspended_for=OPERATOR) if spare_held and action == BulkAction.RESUME else rows
    )


def _suspended(since: datetime) -> QuerySet[OutboundLink]:
    suspended = OutboundLink.objects.suspended().filter(suspended_since__gte=since)
    return suspended.select_related("partner").order_by("suspended_since", "pk")


def _parked(since: datetime) -> QuerySet[Delivery]:
    """In doubt is none of them: running that again might do it twice."""
    states = [DeliveryState.PARKED, DeliveryState.BLOCKED]
    parked = Delivery.objects.filter(state__in=states, ended_at__gte=since)
    return parked.select_related("consumer", "message").order_by("pk")


def _resume(key: int, actor: Actor) -> None:
    change_link.resume(Partner.objects.get(pk=key), actor)


def _run_again(key: int, actor: Actor) -> None:
    decide_one(key, actor, decision="run-again")


CHOICES: dict[str, Choice] = {
    BulkAction.RESUME: Choice(_suspended, "partner_id", lambda link: link.partner.name, _resume),
    BulkAction.RUN_AGAIN: Choice(_parked, "pk", str, _run_again),
}


def count(
    action: str,
    since: datetime,
    *,
    spare_held: bool = False,
    only: Collection[int] | None = None,
) -> int:
    return _rows(action, since, spare_held=spare_held, only=only).count()


def seen(
    action: str,
    since: datetime,
    *,
    spare_held: bool = False,
    only: Collection[int] | None = None,
) -> str:
    """Stands for these very rows: a job begins only if they are still the same."""
    rows = _rows(action, since, spare_held=spare_held, only=only)
    return digest_of(rows.values_list(CHOICES[action].key, flat=True)[: LIMIT + 1])


def first(
    action: str,
    since: datetime,
    limit: int,
    *,
    spare_held: bool = False,
    only: Collection[int] | None = None,
) -> list[Any]:
    return list(_rows(action, since, spare_held=spare_held, only=only)[:limit])


def start(
    action: str,
    since: datetime,
    agreed: str,
    actor: Actor,
    *,
    spare_held: bool = False,
    only: Collection[int] | None = None,
    confirmation: UUID | None = None,
) -> BulkJob:
    """Choose the rows and begin. What comes later is not in it.

    `agreed` is what `seen` said to the operator, or `digest_of` the keys that he has chosen. Raises
    NotPossible if the rows are others now.
    A `confirmation` that comes again, such as by a double click, gets the job that it has started.
    """
    begun = BulkJob.objects.filter(confirmation=confirmation, confirmation__isnull=False)
    job = BulkJob(
        action=action,
        since=since,
        actor=actor.name,
        reason=actor.reason,
        confirmation=confirmation,
    )
    try:
        return begun.first() or _start(job, agreed, spare_held=spare_held, only=only)
    except (IntegrityError, NotPossible):
        if other := begun.first():  # the same confirmation has just started it
            return other
        raise


def _start(job: BulkJob, agreed: str, *, spare_held: bool, only: Collection[int] | None) -> BulkJob:
    choice = CHOICES[job.action]
    with transaction.atomic():
        found = _rows(job.action, job.since, spare_held=spare_held, only=only)[: LIMIT + 1]
        rows = [(getattr(row, choice.key), choice.label(row)) for row in found]
        if len(rows) > LIMIT:
            raise NotPossible(f"More than {LIMIT} rows match. Choose a later time.")
        if not rows or digest_of(key for key, _ in rows) != agreed:
            raise NotPossible(
                f"The selection has changed: {len(rows)} rows match now. Check it again."
            )
        job.total = len(rows)
        start_job(job, rows)
    return job


def digest_of(keys: Iterable[int]) -> str:
    return sha256(" ".join(map(str, sorted(keys))).encode()).hexdigest()


def cancel(job: BulkJob, actor: Actor) -> None:
    if not cancel_job(job, actor):
        raise NotPossible("The job has already ended.")


def run() -> int:
    """Go on with every running job; how many rows were dealt with. One thread of a process."""
    if not _running.acquire(blocking=False):
        return 0
    try:
        return _run(until=time.monotonic() + SLICE)
    finally:
        _running.release()


def _run(until: float) -> int:
    dealt_with = 0
    passed_over: set[int] = set()
    while time.monotonic() < until:
        with transaction.atomic():
            item = claim_item(passed_over)
            if item is None:
                break
            if _deal_with(item):
                dealt_with += 1
            else:
                passed_over.add(item.pk)
            reach(CrashPoint.BULK_BEFORE_COMMIT)
    end_jobs()
    return dealt_with


def _deal_with(item: BulkItem) -> bool:
    """False if the database refused: then it is tried again later. Whatever one row raises, the
    others are dealt with."""
    actor = Actor(item.job.actor, f"{item.job.reason} (bulk job {item.job_id})")
    refused = ""
    try:
        with transaction.atomic():
            CHOICES[item.job.action].act(item.key, actor)
    except NotPossible as why:
        refused = str(why)
    except Partner.DoesNotExist:
        refused = "The partner was removed."
    except DatabaseError as error:
        logger.warning("bulk job %s skips %s: %s", item.job_id, item.label, error)
        skip_item(item, f"It will be retried. Database error: {error}")
        return False
    except Exception as error:
        logger.exception("bulk job %s: %s could not be processed", item.job_id, item.label)
        refused = describe(error)
    end_item(item, refused)
    return True
