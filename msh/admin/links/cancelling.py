"""A link whose queue is being cancelled, or may be: resumed now, it would send these messages."""

from collections.abc import Sequence
from typing import Any

from django.db.models import Exists, OuterRef, Q, QuerySet, TextField, Value
from django.db.models.functions import Cast, Concat, Now
from django.utils.html import format_html
from django.utils.safestring import SafeString

from msh.admin.framework import markup
from msh.models import (
    ActRequest,
    BulkAction,
    BulkJob,
    BulkState,
    Direction,
    OutboundLink,
    RequestState,
    place_of,
)

_JOB = (
    "{} is cancelling the queue: {} of {} messages are left. Wait for it: a link that is resumed"
    " now sends messages that are to be cancelled."
)
_REQUEST = (
    "{} waits for a second person. Decide on it first: a link that is resumed now sends messages"
    " before that."
)


def with_cancelling(links: QuerySet[OutboundLink]) -> QuerySet[OutboundLink]:
    """With `cancelling`: whether such a job runs, or a request about the link is open."""
    place = Concat(Value(place_of(OutboundLink(pk=0))[:-1]), Cast(OuterRef("pk"), TextField()))
    jobs = BulkJob.objects.filter(_RUNNING, about=place)
    asked = _open_requests().filter(partner=OuterRef("partner"))
    return links.annotate(cancelling=Exists(jobs) | Exists(asked))


_RUNNING = Q(action=BulkAction.CANCEL, state=BulkState.RUNNING)


def _open_requests() -> QuerySet[ActRequest]:
    """By the clock of the database: the statement of a list is the same a moment later."""
    opened = ActRequest.objects.filter(state=RequestState.OPEN, until__gt=Now())
    return opened.filter(direction=Direction.OUT)


def is_cancelling(link: Any) -> bool:
    """`link`: best with `cancelling`, as the list of links has it."""
    if hasattr(link, "cancelling"):
        return bool(link.cancelling)
    return bool(cancelling_notices(link))


def cancelling_notices(link: OutboundLink) -> Sequence[SafeString]:
    """What runs, or is asked for, each with its page."""
    jobs = BulkJob.objects.filter(_RUNNING, about=place_of(link)).order_by("pk")
    asked = _open_requests().filter(partner=link.partner_id).order_by("pk")
    return [
        *(
            format_html(_JOB, markup.link_to(one, f"Bulk job {one.pk}"), _left(one), one.total)
            for one in jobs
        ),
        *(format_html(_REQUEST, markup.link_to(one, f"Request {one.pk}")) for one in asked),
    ]


def _left(job: BulkJob) -> int:
    return job.total - job.done - job.refused
