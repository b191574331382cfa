"""A link whose queue is being cancelled, or may be: resumed now, it would send these messages."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from django.utils.html import format_html
from django.utils.safestring import SafeString

from msh.admin.framework import markup
from msh.models import BulkJob, OutboundLink, place_of
from msh.store.operations.bulk_jobs import cancel_jobs, requests_about_sending, with_cancelling

_JOB = (
    "{} is cancelling the queue: {} of {} messages are left. Wait for it: a link that is resumed"
    " now sends messages that are to be cancelled."
)
_REQUEST = (
    "{} waits for a second person. Decide on it first: a link that is resumed now sends messages"
    " before that."
)


def is_cancelling(link: Any) -> bool:
    """`link`: best with `cancelling`, as the list of links has it."""
    if not hasattr(link, "cancelling"):
        (link,) = with_cancelling(OutboundLink.objects.filter(pk=link.pk))
    return bool(link.cancelling)


def cancelling_notices(link: OutboundLink) -> Sequence[SafeString]:
    """Return notices of the jobs that run or are requested, each with its page."""
    return notices_by_link([link])[link.pk]


def notices_by_link(links: Collection[OutboundLink]) -> Mapping[int, Sequence[SafeString]]:
    """By key of the link, the notices of each. Two statements."""
    notices: dict[int, list[SafeString]] = {link.pk: [] for link in links}
    if not links:
        return notices
    places = {place_of(link): link.pk for link in links}
    for job in cancel_jobs().filter(about__in=places).order_by("pk"):
        page = markup.link_to(job, f"Bulk job {job.pk}")
        notices[places[job.about]].append(format_html(_JOB, page, _left(job), job.total))
    partners: dict[int | None, int] = {link.partner_id: link.pk for link in links}
    for asked in requests_about_sending().filter(partner__in=partners).order_by("pk"):
        page = markup.link_to(asked, f"Request {asked.pk}")
        notices[partners[asked.partner_id]].append(format_html(_REQUEST, page))
    return notices


def _left(job: BulkJob) -> int:
    return job.total - job.done - job.refused
