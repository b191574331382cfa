"""Bulk jobs: one action for many rows, with a preview, progress and a list of results."""

from collections.abc import Mapping
from typing import Any, cast

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, QueryDict
from django.template.response import TemplateResponse
from django.urls import URLPattern, path
from django.utils.html import format_html
from unfold.decorators import display

from msh.admin.framework import markup
from msh.admin.framework.actions import REASON_LIMIT, ActionDialog
from msh.admin.framework.bulk import START_PERMISSIONS, may_begin
from msh.admin.framework.pages import ReadOnlyAdmin, Table
from msh.flows.errors import NotPossible
from msh.flows.operations import actions
from msh.flows.operations.many import bulk_jobs
from msh.models import EVER, BulkAction, BulkJob, BulkState
from msh.store.history import Actor

from .bulk_choice import LISTS, ConfirmationForm, all_of, chosen, filters_of, preview, ways
from .bulk_outcome import outcome, results, to_try_again, with_suspended_again

TRIED = "One of several is tried first"
"""The reason, if none is typed."""


class CancelJob(ActionDialog[BulkJob]):
    action = actions.CANCEL_JOB
    dismiss = "Keep job running"
    icon = "block"

    def why_not(self, row: BulkJob) -> str:
        return "" if row.state == BulkState.RUNNING else f"the job is {row.state}."

    def consequence(self, row: BulkJob) -> str:
        return (
            f"{row.done + row.refused} of {row.total} rows are finished and stay as they are. One"
            " that is in progress is still finished. The others are not started."
        )


@admin.register(BulkJob)
class BulkJobAdmin(ReadOnlyAdmin[BulkJob]):
    list_display = ("what", "status", "progress", "refused", "again", "actor", "reason", "started")
    list_before_template = "admin/msh/incidents/bulk_job_new_link.html"
    change_form_outer_before_template = "admin/msh/incidents/bulk_job_progress.html"
    sortable_by = ()
    change_form_outer_after_template = "admin/msh/incidents/bulk_job_results.html"
    fields = (
        ("what", "actor"),
        "started_at",
        "reason",
        ("ended_at", "cancelled_by"),
        "cancel_reason",
    )
    operator_actions = (CancelJob(),)

    def get_queryset(self, request: HttpRequest) -> QuerySet[BulkJob]:
        jobs: QuerySet[BulkJob] = super().get_queryset(request)
        return with_suspended_again(jobs)

    def get_urls(self) -> list[URLPattern]:
        new = self.admin_site.admin_view(self.new)
        urls: list[URLPattern] = super().get_urls()
        return [path("new/", new, name="msh_bulkjob_new"), *urls]

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, object] | None = None
    ) -> HttpResponse:
        extra = {**(extra_context or {}), "may_start": request.user.has_perms(START_PERMISSIONS)}
        response: HttpResponse = super().changelist_view(request, extra)
        return response

    def new(self, request: HttpRequest) -> HttpResponse:
        """GET shows a preview, POST starts the job."""
        action = request.GET.get("action", "")
        if not request.user.has_perms(START_PERMISSIONS):
            raise PermissionDenied
        if action in LISTS and not may_begin(request, BulkAction(action)):
            raise PermissionDenied
        shown: Mapping[str, object] = {"ways": ways(request)}
        if action in LISTS:
            try:
                rows = chosen(request, action)
                if request.method == "POST" and (job := self._start(request, action, rows)):
                    messages.success(request, f"{job.total} rows queued.")
                    return HttpResponseRedirect(markup.page_url(job))
                shown = preview(request, action, rows)
            except NotPossible as refused:
                messages.error(request, str(refused))
        context = {
            **self.admin_site.each_context(request),
            "title": "New bulk job",
            "opts": self.opts,
            "reason_limit": REASON_LIMIT,
            **shown,
        }
        return TemplateResponse(request, "admin/msh/incidents/bulk_job_new.html", context)

    def _start(self, request: HttpRequest, action: str, rows: QuerySet[Any]) -> BulkJob | None:
        """None if nothing was started: the reason is said, and the preview is shown again."""
        form = ConfirmationForm(_with_reason(request.POST))
        if not form.is_valid():
            messages.error(request, "Not started: a reason is required.")
            return None
        seen, wanted = form.cleaned_data["seen"], all_of(request, action, rows)
        if "ticked" in request.POST or "one" in request.POST:  # each row has a box
            field = "one" if "one" in request.POST else "keys"
            keys = [int(key) for key in request.POST.getlist(field) if key.isdecimal()]
            wanted, seen = bulk_jobs.only(action, rows, keys), bulk_jobs.digest_of(keys)
            if not keys:
                messages.error(request, "Not started: no row is selected.")
                return None
        actor = Actor(request.user.get_username(), form.cleaned_data["reason"])
        about, confirmation = filters_of(request).urlencode(), form.cleaned_data["confirmation"]
        try:
            return bulk_jobs.start_with(
                action, wanted, seen, actor, about, confirmation=confirmation
            )
        except NotPossible as refused:
            messages.error(request, str(refused))
            return None

    def render_change_form(
        self, request: HttpRequest, context: dict[str, object], *args: object, **kwargs: object
    ) -> HttpResponse:
        job = cast("BulkJob", context["original"])
        response = super().render_change_form(request, context, *args, **kwargs)
        was_running = request.GET.get("was") == BulkState.RUNNING
        if "HX-Request" in request.headers and was_running and job.state != BulkState.RUNNING:
            response["HX-Refresh"] = "true"  # the page once more, complete
        return response

    def page_context(self, request: HttpRequest, row: BulkJob) -> dict[str, object]:
        became = outcome(row)
        return {
            "finished": row.done + row.refused,
            "status": _status(row, in_vain=became.again),
            "outcome": became,
            "jumps": to_try_again(request, row),
            "percent": round(100 * (row.done + row.refused) / row.total) if row.total else 100,
            "watched": row.state == BulkState.RUNNING or became.is_watched(row),
        }

    def tables(self, request: HttpRequest, row: BulkJob) -> list[Table]:
        return [results(row)]

    @display(description="Action")
    def what(self, job: BulkJob) -> str:
        if job.since == EVER:
            return str(job.get_action_display())
        return format_html("{} since {}", job.get_action_display(), markup.time_of(job.since))

    @display(description="State")
    def status(self, job: Any) -> str:
        return _status(job, in_vain=job.suspended_again)

    @display(description="Progress")
    def progress(self, job: BulkJob) -> str:
        return f"{job.done + job.refused} of {job.total}"

    @display(description="Suspended again")
    def again(self, job: Any) -> str:
        if not job.suspended_again:
            return markup.DASH if job.suspended_again is None else "0"
        return markup.badge(str(job.suspended_again), "danger")

    @display(description="Started")
    def started(self, job: BulkJob) -> str:
        return markup.time_and_age(job.started_at)


def _status(job: BulkJob, *, in_vain: int | None) -> str:
    """A job that is done, but did not help, is not green."""
    variants = {BulkState.RUNNING: "info", BulkState.DONE: "warning" if in_vain else "success"}
    return markup.badge(job.state, variants.get(BulkState(job.state), "warning"))


def _with_reason(sent: QueryDict) -> QueryDict:
    """To try one needs no reason of its own."""
    if "one" not in sent or sent.get("reason", "").strip():
        return sent
    filled = sent.copy()
    filled["reason"] = TRIED
    return filled
