"""Bulk jobs: one action for many rows, with a preview, progress and a list of results."""

from typing import Any, cast
from uuid import uuid4

from django import forms
from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path
from django.utils import timezone
from django.utils.html import format_html
from unfold.decorators import display
from unfold.widgets import (
    UnfoldAdminSelectWidget,
    UnfoldAdminTextInputWidget,
    UnfoldBooleanWidget,
)

from msh.admin.framework import markup
from msh.admin.framework.actions import REASON_LIMIT, ActionDialog
from msh.admin.framework.pages import ReadOnlyAdmin, Table
from msh.flows.errors import NotPossible
from msh.flows.operations import actions, bulk_jobs, link_actions
from msh.flows.operations.inspection.causes import CAUSES
from msh.models import BulkAction, BulkItem, BulkJob, BulkState, Delivery, OutboundLink
from msh.store.history import Actor

START_PERMISSIONS = actions.CANCEL_JOB.permissions
ROW_PERMISSIONS = {
    BulkAction.RESUME: link_actions.RESUME.permissions,
    BulkAction.RUN_AGAIN: actions.RUN_AGAIN.permissions,
}
"""The permissions that the action needs on one row."""
CONSEQUENCES = {
    BulkAction.RESUME: "Every partner suspended since then, if it still is, is resumed, one after"
    " the other. Its message in flight is sent again, with the same bytes and number and all"
    " retries, then its queue in order. Its open incidents are resolved with your reason. Partners"
    " with sequence numbers out of sync are suspended again: resynchronise them one by one.",
    BulkAction.RUN_AGAIN: "Every delivery parked or blocked since then, if it still is, is run"
    " again, one after the other, with all retries. If a consumer already has the message, only"
    " the Idempotency-Key prevents double processing. Messages behind a parked one have"
    " been delivered already: it is delivered out of order. Deliveries in doubt are not included.",
}
PREVIEW_ROWS = 20
"""Rows listed in a preview."""
RESULT_ROWS = 500
"""Results shown for one job, refused ones first."""


class ChoiceForm(forms.Form):
    """The action and its rows. Times are in the time zone of the console."""

    action = forms.ChoiceField(choices=BulkAction.choices, widget=UnfoldAdminSelectWidget())
    since = forms.DateTimeField(
        input_formats=["%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M"],
        widget=UnfoldAdminTextInputWidget(attrs={"type": "datetime-local", "step": "1"}),
    )

    spare_held = forms.BooleanField(
        label="Leave out partners suspended by an operator",
        required=False,
        initial=True,
        widget=UnfoldBooleanWidget(),
    )

    def __init__(self, *data: Any, **options: Any) -> None:
        super().__init__(*data, **options)
        self.fields["since"].label = f"Since ({timezone.get_default_timezone_name()})"


class ConfirmationForm(ChoiceForm):
    """The same, and the rows that the operator has seen."""

    seen = forms.CharField()
    confirmation = forms.UUIDField()
    reason = forms.CharField(max_length=REASON_LIMIT)


class CancelJob(ActionDialog[BulkJob]):
    action = actions.CANCEL_JOB
    dismiss = "Keep job running"
    icon = "block"

    def why_not(self, row: BulkJob) -> str:
        return "" if row.state == BulkState.RUNNING else f"the job is {row.state}."

    def consequence(self, row: BulkJob) -> str:
        return (
            f"{row.done + row.refused} of {row.total} rows are finished and stay as they are. One"
            " may be in progress and is finished. The others are not started."
        )


@admin.register(BulkJob)
class BulkJobAdmin(ReadOnlyAdmin[BulkJob]):
    list_display = ("what", "status", "progress", "refused", "actor", "reason", "started")
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
        if not request.user.has_perms(START_PERMISSIONS):
            raise PermissionDenied
        if request.method == "POST":
            return self._start(request)
        return self._render_form(request, ChoiceForm(request.GET or None))

    def _start(self, request: HttpRequest) -> HttpResponse:
        form = ConfirmationForm(request.POST)
        if not form.is_valid():
            if "reason" in form.errors:
                messages.error(request, "Not started: a reason is required.")
            return self._render_form(request, ChoiceForm(request.POST))
        cleaned = form.cleaned_data
        _check_permitted(request, cleaned["action"])
        actor = Actor(request.user.get_username(), cleaned["reason"])
        try:
            job = bulk_jobs.start(
                cleaned["action"],
                cleaned["since"],
                cleaned["seen"],
                actor,
                spare_held=cleaned["spare_held"],
                confirmation=cleaned["confirmation"],
            )
        except NotPossible as refused:
            messages.error(request, str(refused))
            return self._render_form(request, ChoiceForm(request.POST))
        messages.success(request, f"{job.total} rows queued.")
        return HttpResponseRedirect(markup.page_url(job))

    def _render_form(self, request: HttpRequest, form: ChoiceForm) -> HttpResponse:
        context = {
            **self.admin_site.each_context(request),
            "title": "New bulk job",
            "opts": self.opts,
            "form": form,
            "reason_limit": REASON_LIMIT,
            **_preview(request, form),
        }
        return TemplateResponse(request, "admin/msh/incidents/bulk_job_new.html", context)

    def render_change_form(
        self, request: HttpRequest, context: dict[str, object], *args: object, **kwargs: object
    ) -> HttpResponse:
        job = cast("BulkJob", context["original"])
        response = super().render_change_form(request, context, *args, **kwargs)
        if "HX-Request" in request.headers and job.state != BulkState.RUNNING:
            response["HX-Refresh"] = "true"  # the page once more, complete
        return response

    def page_context(self, request: HttpRequest, row: BulkJob) -> dict[str, object]:
        return {"finished": row.done + row.refused, "status": self.status(row)}

    def tables(self, request: HttpRequest, row: BulkJob) -> list[Table]:
        items = BulkItem.objects.filter(job=row).order_by("done", "pk")[:RESULT_ROWS]
        return [
            Table(
                "Results, refused first"
                + ("" if row.total <= RESULT_ROWS else f" ({RESULT_ROWS} shown)"),
                ("Row", "Result", "Detail"),
                [_cells(item, row) for item in items],
                "No rows.",
            )
        ]

    @display(description="Action")
    def what(self, job: BulkJob) -> str:
        return format_html("{} since {}", job.get_action_display(), markup.time_of(job.since))

    @display(description="State")
    def status(self, job: BulkJob) -> str:
        variants = {BulkState.RUNNING: "info", BulkState.DONE: "success"}
        return markup.badge(job.state, variants.get(BulkState(job.state), "warning"))

    @display(description="Progress")
    def progress(self, job: BulkJob) -> str:
        return f"{job.done + job.refused} of {job.total}"

    @display(description="Started")
    def started(self, job: BulkJob) -> str:
        return markup.time_and_age(job.started_at)


def _check_permitted(request: HttpRequest, action: str) -> None:
    if not request.user.has_perms(ROW_PERMISSIONS[BulkAction(action)]):
        raise PermissionDenied


def _preview(request: HttpRequest, form: ChoiceForm) -> dict[str, object]:
    """The number of rows and the first of them; `counted` is None until the form is valid."""
    if not form.is_bound or not form.is_valid():
        return {"counted": None}
    action, since = form.cleaned_data["action"], form.cleaned_data["since"]
    spared = {"spare_held": form.cleaned_data["spare_held"]}
    _check_permitted(request, action)
    counted = bulk_jobs.count(action, since, **spared)
    rows = [_preview_row(row) for row in bulk_jobs.first(action, since, PREVIEW_ROWS, **spared)]
    return {
        "counted": counted,
        "seen": bulk_jobs.seen(action, since, **spared),
        "confirmation": uuid4(),
        "rows": rows,
        "others": counted - len(rows),
        "consequence": CONSEQUENCES[BulkAction(action)],
        "what": BulkAction(action).label,
    }


def _preview_row(row: OutboundLink | Delivery) -> str:
    """The name of a row, and why it is included."""
    if isinstance(row, Delivery):
        return markup.isolated(str(row))
    cause = CAUSES.get(row.suspended_for)
    return format_html(
        "{}: {} since {}: {}",
        markup.isolated(row.partner.name),
        cause.what if cause else row.suspended_for,
        markup.time_of(row.suspended_since),
        markup.verbatim(row.suspended_detail),
    )


def _cells(item: BulkItem, job: BulkJob) -> tuple[str, str, str]:
    if item.done is None:
        result = markup.badge("waiting" if job.state == BulkState.RUNNING else "not started")
    else:
        result = markup.badge("done", "success") if item.done else markup.badge("refused", "danger")
    return markup.isolated(item.label), result, markup.verbatim(item.detail)
