"""Export and import of partners, agreements with their channels, and routes as JSON. An import
shows a diff first."""

import json
from collections.abc import Callable
from typing import Any

from django import forms
from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.views.decorators.http import require_POST, require_safe
from unfold.admin import ModelAdmin
from unfold.widgets import UnfoldAdminFileFieldWidget

from msh.admin.framework.actions import REASON_LIMIT
from msh.flows.operations import configure, loopback
from msh.flows.operations.configure import DOCUMENT_LIMIT, EXPORT_PERMISSIONS, IMPORT_PERMISSIONS
from msh.store.history import Actor
from partners import export, setup

SUMMARY_LIMIT = 20
"""Changes listed after an import."""


class DocumentForm(forms.Form):
    """A document as a file, or as text with `seen`, the digest of its preview."""

    file = forms.FileField(
        label="JSON document", required=False, widget=UnfoldAdminFileFieldWidget()
    )
    text = forms.CharField(required=False, widget=forms.HiddenInput)
    seen = forms.CharField(required=False, widget=forms.HiddenInput)
    reason = forms.CharField(required=False, max_length=REASON_LIMIT)

    def clean(self) -> dict[str, object]:
        """Adds `document`, the parsed JSON."""
        cleaned = self.cleaned_data
        text = (
            cleaned["file"].read(DOCUMENT_LIMIT + 1)
            if cleaned.get("file")
            else cleaned["text"].encode()
        )
        if not text or len(text) > DOCUMENT_LIMIT:
            raise forms.ValidationError(f"Choose a document of at most {DOCUMENT_LIMIT} bytes.")
        try:
            cleaned["document"] = json.loads(text)
            export.as_text(cleaned["document"]).encode()  # fails on a lone surrogate
            if "\\u0000" in json.dumps(cleaned["document"]):
                raise ValueError("a string contains a NUL")
        except (ValueError, RecursionError) as problem:
            raise forms.ValidationError(f"Not a JSON document: {problem}.") from None
        if names := _secrets_of(cleaned["document"]):
            raise forms.ValidationError(
                f"The document contains secrets: {', '.join(names)}. Remove them, and set them on"
                " the page of the partner or with manage.py setup."
            )
        return cleaned


def is_applied(request: HttpRequest, reason: str, apply: Callable[[Actor], setup.Report]) -> bool:
    """Apply what was shown, and say what became of it. `apply` may raise ChangedMeanwhile."""
    if not reason:
        messages.error(request, "Nothing was changed: a reason is required.")
        return False
    try:
        report = apply(Actor(request.user.get_username(), reason))
    except configure.ChangedMeanwhile:
        messages.error(request, "The configuration has changed since the preview. Check it again.")
        return False
    messages.success(request, _summary(report))
    return True


def _summary(report: setup.Report) -> str:
    changes = [str(change) for change in report.changes if change.what != "unchanged"]
    others = len(changes) - SUMMARY_LIMIT
    more = [f"{others} more"] if others > 0 else []
    return "; ".join((*changes[:SUMMARY_LIMIT], *more)) or "No changes."


def _secrets_of(document: object) -> list[str]:
    partners = document.get("partners") if isinstance(document, dict) else None
    keys = (
        {key for each in partners or () if isinstance(each, dict) for key in each}
        if isinstance(partners, list)
        else set()
    )
    return sorted(keys & setup.SECRETS.keys())


class ImportExportPages(ModelAdmin):
    """Subpages of the list of agreements."""

    list_before_template = "admin/msh/setup/import_export.html"

    def get_urls(self) -> list[URLPattern]:
        guard = self.admin_site.admin_view
        urls: list[URLPattern] = super().get_urls()
        return [
            path(
                "export/", guard(require_safe(self.export_page)), name="partners_agreement_export"
            ),
            path("import/", guard(self.import_page), name="partners_agreement_import"),
            path(
                "loopback/",
                guard(require_POST(self.add_loopback)),
                name="partners_agreement_loopback",
            ),
            *urls,
        ]

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, object] | None = None
    ) -> HttpResponse:
        may = {
            "may_export": request.user.has_perms(EXPORT_PERMISSIONS),
            "may_import": request.user.has_perms(IMPORT_PERMISSIONS),
        }
        response: HttpResponse = super().changelist_view(request, {**(extra_context or {}), **may})
        return response

    def export_page(self, request: HttpRequest) -> HttpResponse:
        if not request.user.has_perms(EXPORT_PERMISSIONS):
            raise PermissionDenied
        text = export.as_text(export.exported())
        return HttpResponse(
            f"{text}\n",
            content_type="application/json",
            headers={"Content-Disposition": 'attachment; filename="agreements.json"'},
        )

    def add_loopback(self, request: HttpRequest) -> HttpResponse:
        if not request.user.has_perms(IMPORT_PERMISSIONS):
            raise PermissionDenied
        actor = Actor(request.user.get_username(), "to try the MSH without a partner")
        try:
            messages.success(request, _summary(loopback.make(actor)))
        except setup.SetupRefused as refused:
            messages.error(request, f"Nothing was changed: {refused}")
        return HttpResponseRedirect(reverse("admin:index"))

    def import_page(self, request: HttpRequest) -> HttpResponse:
        """A document is shown as a diff. The same document with `seen` is applied."""
        if not request.user.has_perms(IMPORT_PERMISSIONS):
            raise PermissionDenied
        form = DocumentForm(request.POST, request.FILES) if request.method == "POST" else None
        if form is None or not form.is_valid():
            return self._render_form(request, form or DocumentForm())
        try:
            return self._show_or_apply(request, form.cleaned_data)
        except setup.SetupRefused as refused:
            return self._render_form(request, form, problems=refused.problems)

    def _show_or_apply(self, request: HttpRequest, cleaned: dict[str, Any]) -> HttpResponse:
        document, seen, reason = cleaned["document"], cleaned["seen"], cleaned["reason"]
        if seen and is_applied(
            request, reason, lambda actor: configure.apply(document, actor, seen)
        ):
            return HttpResponseRedirect(reverse("admin:partners_agreement_changelist"))
        return self._render_form(request, DocumentForm(), export.preview(document), document)

    def _render_form(
        self,
        request: HttpRequest,
        form: DocumentForm,
        preview: export.Preview | None = None,
        document: object = None,
        problems: list[str] | None = None,
    ) -> HttpResponse:
        context = {
            **self.admin_site.each_context(request),
            "title": "Import agreements",
            "opts": self.opts,
            "form": form,
            "preview": preview,
            "text": json.dumps(document, ensure_ascii=False, separators=(",", ":")),
            "problems": problems,
            "reason_limit": REASON_LIMIT,
        }
        return TemplateResponse(request, "admin/msh/setup/import.html", context)
