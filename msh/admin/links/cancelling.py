"""A link whose queue is being cancelled, or may be: resumed now, it would send these messages."""

from collections.abc import Collection, Mapping, Sequence
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
    if not hasattr(link, "cancelling"):
        (link,) = with_cancelling(OutboundLink.objects.filter(pk=link.pk))
    return bool(link.cancelling)


def cancelling_notices(link: OutboundLink) -> Sequence[SafeString]:
    """What runs, or is asked for, each with its page."""
    return notices_by_link([link])[link.pk]


def notices_by_link(links: Collection[OutboundLink]) -> Mapping[int, Sequence[SafeString]]:
    """By key of the link, the notices of each. Two statements."""
    notices: dict[int, list[SafeString]] = {link.pk: [] for link in links}
    if not links:
        return notices
    places = {place_of(link): link.pk for link in links}
    for job in BulkJob.objects.filter(_RUNNING, about__in=places).order_by("pk"):
        page = markup.link_to(job, f"Bulk job {job.pk}")
        notices[places[job.about]].append(format_html(_JOB, page, _left(job), job.total))
    partners: dict[int | None, int] = {link.partner_id: link.pk for link in links}
    for asked in _open_requests().filter(partner__in=partners).order_by("pk"):
        page = markup.link_to(asked, f"Request {asked.pk}")
        notices[partners[asked.partner_id]].append(format_html(_REQUEST, page))
    return notices


def _left(job: BulkJob) -> int:
    return job.total - job.done - job.refused
