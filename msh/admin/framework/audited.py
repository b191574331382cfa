"""Pages of the configuration. Each change needs a reason and is recorded in the audit log."""

import json
from typing import Any

from django import forms
from django.contrib import messages
from django.contrib.admin.utils import unquote
from django.core.exceptions import ObjectDoesNotExist
from django.db import IntegrityError
from django.db.models import Model, Q, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.http import url_has_allowed_host_and_scheme, urlencode
from unfold.admin import ModelAdmin
from unfold.widgets import UnfoldAdminTextareaWidget

from msh.models import SettingChange
from msh.store.history import Actor
from msh.store.operations.settings_log import (
    Snapshot,
    lock_to_change,
    record_changes,
    snapshot,
)

from . import markup
from .actions import REASON_LIMIT
from .markup import page_url
from .pages import Table
from .saved_filters import SavedFilters

HISTORY_ROWS = 100
"""Shown on the page *History* of one row; the audit log has all."""


class AuditHistory(ModelAdmin):
    """The page *History* of a row shows its entries of the audit log to whoever may view the row:
    Django's own log of changes is not kept."""

    object_history_template: Any = "admin/msh/framework/history.html"

    def audited_rows(self, key: int | None) -> list[QuerySet[Model]]:
        """The rows that the page of the row with this id changes."""
        rows: QuerySet[Model] = self.model._default_manager.filter(pk=key)  # noqa: SLF001  public
        return [rows]

    def entries(self, key: int) -> Q:
        """Which entries of the audit log are about the row with this id."""
        rows = snapshot(*self.audited_rows(key)).values()
        named = (Q(kind=one.kind, name=one.name) for one in rows)
        return Q(Q(pk__in=[]), *named, _connector=Q.OR)  # of no row: none, where Q() would be all

    def history_view(
        self, request: HttpRequest, object_id: str, extra_context: dict[str, object] | None = None
    ) -> HttpResponse:
        row = self.get_object(request, unquote(object_id))
        context: dict[str, object] = {**(extra_context or {})}
        if row is not None and self.has_view_or_change_permission(request, row):
            context["tables"] = [_history(request, self.entries(row.pk))]
            context["title"] = f"History of {markup.escape_invisible(str(row))}"
            context["back"] = markup.page_url(row)
        response: HttpResponse = super().history_view(request, object_id, context)
        return response


def _history(request: HttpRequest, of_row: Q) -> Table:
    changes = SettingChange.objects.filter(of_row).order_by("-pk")[:HISTORY_ROWS]
    rows = [
        (
            markup.time_of(change.at),
            change.actor,
            markup.isolated(f"{change.kind} {change.name}"),
            change.get_what_display(),
            changes_text(change),
            markup.verbatim(change.reason),
        )
        for change in changes
    ]
    may_see_all = request.user.has_perm("msh.view_settingchange")
    return Table(
        "Changes, newest first",
        ("Time", "By", "What", "Change", "Values", "Reason"),
        rows,
        "No change under this name is in the audit log.",
        markup.list_url(SettingChange) if may_see_all else "",
    )


def changes_text(change: SettingChange) -> str:
    names = {**change.before, **change.after}
    return markup.verbatim("; ".join(_change_text(name, change) for name in names))


def _change_text(name: str, change: SettingChange) -> str:
    sides = [json.dumps(side[name]) for side in (change.before, change.after) if name in side]
    return f"{name}: {' → '.join(sides)}"


_BACK = "back"


def back_of(request: HttpRequest) -> str:
    """The page that led here, if the URL says it."""
    back = request.GET.get(_BACK, "")
    return back if url_has_allowed_host_and_scheme(back, allowed_hosts=None) else ""


def with_back(url: str, back: str) -> str:
    return f"{url}?{urlencode({_BACK: back})}"


def settings_url(row: Model, back: str) -> str:
    """Return the URL of the page of `row`, which leads `back` when it is saved."""
    return with_back(page_url(row), back)


class AuditedForm(forms.ModelForm):  # type: ignore[type-arg]  # Django has no generic one
    """`before`: the rows of the page before they are saved."""

    before: Snapshot

    reason = forms.CharField(
        max_length=REASON_LIMIT,
        widget=UnfoldAdminTextareaWidget(attrs={"rows": 1, "required": True}),
        help_text="Recorded with your name and all changed values.",
    )


class AuditedAdmin(AuditHistory, SavedFilters):
    """Subclasses set `fields` or `fieldsets`, without the reason: that stands beside the buttons
    (`submit_line.html`). Rows are deleted one by one, each with its own reason."""

    form: Any = AuditedForm
    delete_confirmation_template: Any = "admin/msh/framework/delete.html"

    def get_object(
        self, request: HttpRequest, object_id: str, from_field: str | None = None
    ) -> Any:
        row: Model | None = super().get_object(request, object_id, from_field)
        if row is None or request.method != "POST":
            return row
        try:
            lock_to_change(row)
        except ObjectDoesNotExist:  # it was deleted in between
            return None
        return row

    def changeform_view(
        self,
        request: HttpRequest,
        object_id: str | None = None,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> Any:
        given = (request, object_id, form_url, extra_context)
        try:
            return super().changeform_view(*given)
        except IntegrityError:
            if request.method != "POST":
                raise
            # Another page saved the same at this moment: now the form finds its row, and says so.
            return super().changeform_view(*given)

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *args: object, **kwargs: object
    ) -> HttpResponse:
        """Fill in the reason that was typed before a log-in (`error_pages.ErrorPages`)."""
        context["show_save_and_add_another"] = False  # each row has a reason of its own
        if reason := context["adminform"].form.fields.get("reason"):
            reason.widget.attrs["form"] = f"{self.opts.model_name}_form"  # it stands below the form
        typed = request.GET.get("reason", "")[:REASON_LIMIT]
        if typed and request.method == "GET":
            context["adminform"].form.initial["reason"] = typed
        response: HttpResponse = super().render_change_form(request, context, *args, **kwargs)
        return response

    def get_actions(self, request: HttpRequest) -> dict[str, Any]:
        actions: dict[str, object] = super().get_actions(request)
        actions.pop("delete_selected", None)
        return actions

    def save_form(self, request: HttpRequest, form: AuditedForm, change: bool) -> Model:
        form.before = snapshot(*self.audited_rows(form.instance.pk))
        row: Model = super().save_form(request, form, change)
        return row

    def save_related(
        self, request: HttpRequest, form: AuditedForm, formsets: object, change: bool
    ) -> None:
        super().save_related(request, form, formsets, change)
        after = snapshot(*self.audited_rows(form.instance.pk))
        actor = Actor(request.user.get_username(), form.cleaned_data["reason"])
        record_changes(form.before, after, actor)

    def response_post_save_change(self, request: HttpRequest, obj: Any) -> Any:
        if back := back_of(request):
            return HttpResponseRedirect(back)
        return super().response_post_save_change(request, obj)

    def delete_view(
        self, request: HttpRequest, object_id: str, extra_context: dict[str, object] | None = None
    ) -> HttpResponse:
        if request.method == "POST" and not _reason_of(request):
            messages.error(request, "Nothing was deleted: a reason is required.")
            return HttpResponseRedirect(request.get_full_path())
        context = {**(extra_context or {}), "reason_limit": REASON_LIMIT}
        response: HttpResponse = super().delete_view(request, object_id, context)
        return response

    def delete_model(self, request: HttpRequest, obj: Model) -> None:
        before = snapshot(*self.audited_rows(obj.pk))
        super().delete_model(request, obj)
        actor = Actor(request.user.get_username(), _reason_of(request))
        record_changes(before, {}, actor)


def _reason_of(request: HttpRequest) -> str:
    return request.POST.get("reason", "").strip()[:REASON_LIMIT]
