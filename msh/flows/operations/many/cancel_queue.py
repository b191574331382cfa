"""The queue to a partner, cancelled as a job, set by set, while the link goes on."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db import transaction
from django.db.models import Count, Max, Min, Sum

from msh.flows.errors import NotPossible, Proposal
from msh.flows.operations.guard import allowed
from msh.flows.operations.many import bulk_jobs
from msh.flows.operations.many.confirmation import asked_with, begin_once, new_job
from msh.models import (
    EVER,
    BulkAction,
    BulkJob,
    Direction,
    OutboundLink,
    OutboundMessage,
    OutboundState,
    place_of,
)
from msh.models.outbound import OutboundMessageQuerySet
from msh.protocol.four_eyes import Act, Verb
from msh.store.history import Actor


@dataclass(frozen=True, slots=True)
class Queue:
    """The part of a queue that a job would cancel: the oldest `count` messages, at most
    `bulk_jobs.LIMIT`. `size`: bytes of their payloads; `last`: row id of the last one. `later` ones
    stay queued."""

    count: int
    later: int
    size: int
    last: int
    oldest: datetime | None
    newest: datetime | None


def queue_of(link: OutboundLink) -> Queue:
    chosen = _queued(link).order_by("pk")[: bulk_jobs.LIMIT]
    found = chosen.aggregate(
        size=Sum("size", default=0),
        last=Max("pk", default=0),
        oldest=Min("submitted_at"),
        newest=Max("submitted_at"),
    )
    queued = _queued(link).count()
    count = min(queued, bulk_jobs.LIMIT)
    return Queue(count=count, later=queued - count, **found)


def kinds_of(link: OutboundLink, last: int) -> Sequence[tuple[str, str, int]]:
    """ServiceInterface, Action and number of what is queued up to this row, the most first."""
    kinds = _queued(link).filter(pk__lte=last).values("service_interface", "action")
    counted = kinds.annotate(count=Count("pk")).order_by("-count", "service_interface", "action")
    return list(counted.values_list("service_interface", "action", "count"))


def has_queue(link: OutboundLink) -> bool:
    return _queued(link).exists()


def cancel_queue(
    link: OutboundLink, actor: Actor, last: int | None = None, confirmation: UUID | None = None
) -> BulkJob:
    """A job for what is still queued of the queue that ended with the message `last`, by default
    the last one of now, the oldest `bulk_jobs.LIMIT` of it. A `confirmation` that comes again gets
    its job, or its request to a second person. Raises NotPossible if nothing is queued,
    SecondPersonNeeded."""
    until = queue_of(link).last if last is None else last
    job = new_job(BulkAction.CANCEL, actor, confirmation, place_of(link), EVER, link.partner_id)
    return begin_once(job, lambda job: _begin(job, link, actor, until))


def _begin(job: BulkJob, link: OutboundLink, actor: Actor, last: int) -> BulkJob:
    asked = asked_with(job.confirmation, "cancel_queue", link, actor)
    last = asked.parameters["last"] if asked else last
    rows = _queued(link).filter(pk__lte=last).order_by("pk")
    chosen = list(rows.values_list("pk", "message_id")[: bulk_jobs.LIMIT])
    nothing = NotPossible(f"Nothing is queued to {link.partner} any more.")
    if not chosen and not asked:
        raise nothing
    uuid = str(job.confirmation) if job.confirmation else None
    last, message_id = _last_of(link, last) or (chosen[-1] if chosen else (last, ""))
    values = {"link": link.pk, "last": last, "confirmation": uuid}
    act = Act(Verb.BULK_CANCEL, "cancel_queue", values, f"the queue ends with {message_id}")
    text = (
        f"the queue to {link.partner.name}, now {len(chosen)} messages, the last one"
        f" {message_id}, is cancelled."
    )
    about = Proposal(act, text, link.partner_id, Direction.OUT, about=place_of(link))
    with transaction.atomic(), allowed(about, actor):
        if not chosen:
            raise nothing
        return bulk_jobs.start_chosen(job, chosen)


def _last_of(link: OutboundLink, last: int) -> tuple[int, str] | None:
    """Row id and MessageId, whether it is still queued or not; None if `last` is no message."""
    rows = OutboundMessage.objects.filter(link=link, pk=last)
    return rows.values_list("pk", "message_id").first()


def _queued(link: OutboundLink) -> OutboundMessageQuerySet:
    return OutboundMessage.objects.filter(link=link).in_state(OutboundState.QUEUED).order_by()
