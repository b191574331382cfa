"""The state of the rows of a bulk job now: an action that was done need not have helped."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from django.db.models import (
    Case,
    Count,
    IntegerField,
    OuterRef,
    Q,
    QuerySet,
    Subquery,
    Value,
    When,
)
from django.db.models.functions import Coalesce
from django.http import HttpRequest
from django.utils import timezone
from django.utils.html import format_html

from msh.admin.framework import markup
from msh.admin.framework.bulk import bulk_url
from msh.admin.framework.headline import Jump
from msh.admin.framework.pages import Table
from msh.admin.framework.time_format import format_duration
from msh.admin.links.advice import cause_of_link, with_last_answer
from msh.flows.operations.many import bulk_jobs
from msh.flows.operations.many.bulk_jobs import OF_MESSAGES
from msh.models import (
    HELD,
    BulkAction,
    BulkItem,
    BulkJob,
    BulkState,
    Delivery,
    OutboundLink,
    OutboundMessage,
    OutboundState,
    shown_state,
)
from msh.protocol.kinds import DeliveryState
from msh.protocol.lane import OPERATOR, LaneState

_KEYS = {
    BulkAction.RESUME.value: "partner_id",
    BulkAction.REPLAY.value: "replay_of_id",
    BulkAction.SUBMIT_AGAIN.value: "corrects_id",
}
"""The column of `_rows` that is the key of the item, if not the row id."""
_AGAIN_IN_WORDS = {
    BulkAction.RESUME.value: "suspended",
    BulkAction.RUN_AGAIN.value: "stopped",
    BulkAction.REPLAY.value: "stopped",
    BulkAction.SUBMIT_AGAIN.value: "failed",
    BulkAction.RESUME_MESSAGES.value: "failed or held",
}
_NEXT = {
    BulkAction.RESUME: BulkAction.RESUME,
    BulkAction.RUN_AGAIN: BulkAction.RUN_AGAIN,
    BulkAction.REPLAY: BulkAction.RUN_AGAIN,
    BulkAction.SUBMIT_AGAIN: BulkAction.SUBMIT_AGAIN,
    BulkAction.RESUME_MESSAGES: BulkAction.RESUME_MESSAGES,
}
"""By the action that was in vain, the one to try."""
RESULT_ROWS = 500
"""Results shown for one job."""
_WATCHED = timedelta(hours=1)
"""How long after its end the page of a job refreshes itself while something is not decided."""
_OPEN = [DeliveryState.PROCESSING, DeliveryState.FAILED]
_UNDER_WAY = [OutboundState.QUEUED, OutboundState.IN_FLIGHT, OutboundState.FLYING]
_AGAIN = [DeliveryState.BLOCKED, DeliveryState.PARKED, DeliveryState.IN_DOUBT]


@dataclass(frozen=True, slots=True)
class Outcome:
    """How many of the rows that were done helped, are not decided yet, and failed again. `parts`:
    percent of all rows, with a style each, for the progress bar."""

    helped: int
    open: int
    again: int
    words: str
    parts: Sequence[Mapping[str, object]] = ()

    def is_watched(self, job: BulkJob) -> bool:
        ended: datetime | None = job.ended_at
        return bool(self.open) and ended is not None and timezone.now() - ended < _WATCHED


def outcome(job: BulkJob) -> Outcome:
    rows = _rows(job).aggregate(
        rows=Count("pk"),
        open=Count("pk", filter=_is_open(job)),
        again=Count("pk", filter=_is_again(job)),
        other=Count("pk", filter=_is_held(job)),
    )
    helped = rows["rows"] - rows["open"] - rows["again"] - rows["other"]
    shown = Outcome(helped, rows["open"], rows["again"], _words(job, helped, rows))
    return replace(shown, parts=_parts(job, shown))


def _words(job: BulkJob, helped: int, rows: Mapping[str, int]) -> str:
    if rows["again"] and rows["again"] == rows["rows"]:
        count = rows["again"]
        are = "is" if count == 1 else "are"
        return f"Now: {count} of {count} {are} {_AGAIN_IN_WORDS[job.action]} again."
    if job.action == BulkAction.RESUME:
        return (
            f"Now: {helped} up, {rows['open']} sent and not acknowledged yet,"
            f" {rows['again']} suspended again"
            + (f", {rows['other']} suspended for another reason." if rows["other"] else ".")
        )
    if job.action == BulkAction.CANCEL:
        return f"Now: {helped} cancelled."
    if job.action in OF_MESSAGES:
        return (
            f"Now: {helped} acknowledged, sent or cancelled, {rows['open']} not acknowledged yet,"
            f" {rows['again']} failed or held again."
        )
    return f"Now: {helped} ended, {rows['open']} still running, {rows['again']} stopped again."


def _parts(job: BulkJob, found: Outcome) -> Sequence[Mapping[str, object]]:
    """What is done and did not help is not shown as if all were well."""
    still = job.done - found.again - found.open
    parts = (
        ("done", still, "bg-green-500"),
        ("not decided yet", found.open, "bg-blue-500"),
        ("failed again", found.again, "bg-red-500"),
        ("refused", job.refused, "bg-orange-500"),
    )
    return [
        {"title": title, "value": round(100 * count / job.total), "progress_class": style}
        for title, count, style in parts
        if count > 0
    ]


def to_try_again(request: HttpRequest, job: BulkJob) -> list[Jump]:
    """The way to another job for the rows that failed again, if this user may start it."""
    action = _NEXT.get(BulkAction(job.action))
    if action is None or job.state == BulkState.RUNNING:
        return []
    again = _rows(job).filter(_is_again(job)).values("pk")
    rows = bulk_jobs.rows_of(action).filter(pk__in=again).order_by("pk")
    keys = list(rows.values_list("pk", flat=True)[:RESULT_ROWS])
    url = bulk_url(request, action, id__in=",".join(map(str, keys)))
    title = "Try this one again …" if len(keys) == 1 else f"Try these {len(keys)} again …"
    return [Jump(title, "replay", url, recommended=False)] if keys and url else []


def results(job: BulkJob) -> Table:
    """Refused rows first, then those that failed again."""
    key = _KEYS.get(job.action, "pk")
    again = set(_rows(job).filter(_is_again(job)).values_list(key, flat=True)[:RESULT_ROWS])
    order = Case(
        When(done=False, then=Value(0)), When(key__in=list(again), then=Value(1)), default=Value(2)
    )
    items = list(BulkItem.objects.filter(job=job).order_by(order, "pk")[:RESULT_ROWS])
    now = _now(job, [item.key for item in items if item.done])
    return Table(
        "Results, refused first, then what failed again"
        + ("" if job.total <= RESULT_ROWS else f" ({RESULT_ROWS} shown)"),
        ("Row", "Result", "Now", "Detail"),
        [_cells(item, job, now, is_again=item.key in again) for item in items],
        "No rows.",
    )


def with_suspended_again(jobs: QuerySet[BulkJob]) -> QuerySet[BulkJob]:
    """With how many of the links that each has resumed are suspended again; None of other jobs."""
    resumed = BulkItem.objects.filter(job=OuterRef(OuterRef("pk")), done=True).values("key")
    suspended = OutboundLink.objects.filter(
        _suspended_again(OuterRef("started_at")), partner__in=resumed
    )
    counted = suspended.order_by().values("state").annotate(count=Count("pk")).values("count")
    of_resume = When(action=BulkAction.RESUME, then=Coalesce(Subquery(counted), 0))
    return jobs.annotate(suspended_again=Case(of_resume, output_field=IntegerField()))


def _rows(job: BulkJob) -> Any:
    """The links, messages or deliveries of what was done."""
    keys = BulkItem.objects.filter(job=job, done=True).values("key")
    if job.action == BulkAction.RESUME:
        return OutboundLink.objects.filter(partner__in=keys)
    if job.action in (BulkAction.CANCEL, BulkAction.RESUME_MESSAGES):
        return OutboundMessage.objects.filter(pk__in=keys)
    if job.action == BulkAction.SUBMIT_AGAIN:
        return OutboundMessage.objects.filter(corrects__in=keys)
    if job.action == BulkAction.REPLAY:  # their replays, which this job or a later one has made
        return Delivery.objects.filter(replay_of__in=keys, started_at__gte=job.started_at)
    return Delivery.objects.filter(pk__in=keys)


def _is_open(job: BulkJob) -> Q:
    """Whether the message that was in flight on the link when the job began still is."""
    if job.action == BulkAction.RESUME:
        before = Q(in_flight__first_sent_at__lte=job.started_at)
        return before & ~Q(state=LaneState.SUSPENDED)
    if job.action == BulkAction.CANCEL:
        return Q(pk=None)
    if job.action in OF_MESSAGES:
        return Q(state__in=_UNDER_WAY) & ~Q(flight__state=HELD)
    return Q(state__in=_OPEN)


def _is_again(job: BulkJob) -> Q:
    if job.action == BulkAction.RESUME:
        return _suspended_again(job.started_at)
    if job.action == BulkAction.CANCEL:
        return Q(pk=None)
    if job.action in OF_MESSAGES:
        return Q(state=OutboundState.FAILED) | Q(flight__state=HELD)
    return Q(state__in=_AGAIN)


def _suspended_again(since: object) -> Q:
    """By the MSH; not by an operator or a maintenance window."""
    suspended = Q(state=LaneState.SUSPENDED, suspended_since__gte=since)
    return suspended & ~Q(suspended_for=OPERATOR)


def _is_held(job: BulkJob) -> Q:
    """Suspended, and not because the job was in vain."""
    if job.action == BulkAction.RESUME:
        return Q(state=LaneState.SUSPENDED) & ~_is_again(job)
    return Q(pk=None)


def _now(job: BulkJob, keys: Sequence[int]) -> Mapping[int, str]:
    """Return the text for each row, by key."""
    if job.action == BulkAction.RESUME:
        links = OutboundLink.objects.filter(partner__in=keys).select_related("in_flight")
        answered = with_last_answer(links.defer("in_flight__head"))
        return {link.partner_id: _state_of_link(link, job) for link in answered}
    if job.action == BulkAction.CANCEL:
        messages = OutboundMessage.objects.filter(pk__in=keys).only("pk", "state", "message_id")
        return {one.pk: markup.link_to(one, one.get_state_display()) for one in messages}
    if job.action in OF_MESSAGES:
        key = "corrects_id" if job.action == BulkAction.SUBMIT_AGAIN else "pk"
        found: Any = OutboundMessage.objects.filter(**{f"{key}__in": keys}).defer("head")
        joined = found.select_related("flight").annotate(shown=shown_state())
        return {getattr(one, key): _state_of_message(one) for one in joined}
    if job.action == BulkAction.REPLAY:
        replays = _rows(job).filter(replay_of__in=keys).order_by("pk")
        return {one.replay_of_id: _replay(one) for one in replays}
    deliveries = Delivery.objects.filter(pk__in=keys).only("pk", "state")
    return {one.pk: markup.state_badge(one) for one in deliveries}


def _state_of_message(row: Any) -> str:
    state = markup.badge(row.shown, markup.STATE_VARIANTS.get(row.shown, ""))
    return format_html("{} {}", markup.link_to(row), state)


def _replay(row: Delivery) -> str:
    return format_html("{} {}", markup.link_to(row, f"delivery {row.pk}"), markup.state_badge(row))


def _state_of_link(link: Any, job: BulkJob) -> str:
    if link.state == LaneState.SUSPENDED:
        cause = cause_of_link(link)
        after = format_duration(job.started_at, link.suspended_since)
        what = cause.title if cause else link.suspended_for
        again = link.suspended_for != OPERATOR and link.suspended_since >= job.started_at
        text = f"suspended again after {after}" if again else "suspended"
        page = markup.link_to(link, what)
        answer = markup.verbatim((link.last_answer or {}).get("detail", ""))
        return format_html("{} {}: {}", markup.badge(text, "danger"), page, answer)
    first = link.in_flight.first_sent_at if link.in_flight else None
    if first is not None and first <= job.started_at:
        return markup.badge("sent, not acknowledged yet", "info")
    return markup.badge("up", "success")


def _cells(
    item: BulkItem, job: BulkJob, now: Mapping[int, str], *, is_again: bool
) -> tuple[str, str, str, str]:
    """What was done and was in vain is not green."""
    if item.done is None:
        result = markup.badge("waiting" if job.state == BulkState.RUNNING else "not started")
    else:
        done = markup.badge("done", "" if is_again else "success")
        result = done if item.done else markup.badge("refused", "danger")
    shown = now.get(item.key, markup.DASH) if item.done else markup.DASH
    return markup.isolated(item.label), result, shown, markup.verbatim(item.detail)
