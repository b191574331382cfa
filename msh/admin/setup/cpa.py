"""Import of a CPA 2.0, which is shown before it changes anything; and its download."""

from base64 import b64decode, b64encode

from django import forms
from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.views.decorators.http import require_safe
from unfold.widgets import (
    UnfoldAdminFileFieldWidget,
    UnfoldAdminTextareaWidget,
    UnfoldAdminTextInputWidget,
    UnfoldBooleanWidget,
)

from msh.admin.framework import markup
from msh.admin.framework.actions import REASON_LIMIT
from msh.flows.operations.configure import EXPORT_PERMISSIONS, IMPORT_PERMISSIONS
from msh.flows.operations.cpas import CpaRefused, Plan, Wanted, carry_out, made_of, plan, stored
from msh.wire.cpa import LIMIT
from partners.models import Agreement
from partners.models.dialects import Dialect
from partners.models.ebms2 import CERTIFICATE_LIMIT

from .connection import ConnectionPage
from .import_export import is_applied


class CpaForm(forms.Form):
    """A CPA as a file, or as base64 with `seen`, the digest of its preview."""

    file = forms.FileField(label="CPA 2.0", required=False, widget=UnfoldAdminFileFieldWidget())
    we = forms.CharField(
        label="PartyId of ours",
        required=False,
        max_length=255,
        widget=UnfoldAdminTextInputWidget(),
        help_text="Empty: the party with a PartyId that our agreements have.",
    )
    partner = forms.SlugField(
        label="Name of the partner",
        required=False,
        max_length=63,
        widget=UnfoldAdminTextInputWidget(),
        help_text="Empty: the partner with the PartyId of the other party, or a new one.",
    )
    certificate = forms.CharField(
        label="Certificate of the partner",
        required=False,
        max_length=CERTIFICATE_LIMIT,
        widget=UnfoldAdminTextareaWidget(attrs={"rows": 3}),
        help_text="In PEM, if the CPA has only its name.",
    )
    not_yet = forms.BooleanField(
        label="Also if it is only proposed, or begins later",
        required=False,
        widget=UnfoldBooleanWidget(),
    )
    content = forms.CharField(required=False, widget=forms.HiddenInput)
    seen = forms.CharField(required=False, widget=forms.HiddenInput)
    reason = forms.CharField(required=False, max_length=REASON_LIMIT)

    def clean(self) -> dict[str, object]:
        """Adds `octets`, the CPA."""
        cleaned = self.cleaned_data
        if given := cleaned.get("file"):
            octets = given.read(LIMIT + 1)
        else:
            try:
                octets = b64decode(cleaned.get("content", ""), validate=True)
            except ValueError:
                octets = b""
        if not octets or len(octets) > LIMIT:
            raise forms.ValidationError(f"Choose a CPA of at most {LIMIT} bytes.")
        cleaned["octets"] = octets
        return cleaned


class CpaPages(ConnectionPage):
    """Subpages of the list of agreements, and of an agreement."""

    def get_urls(self) -> list[URLPattern]:
        guard = self.admin_site.admin_view
        urls: list[URLPattern] = super().get_urls()
        export = guard(require_safe(self.cpa_download))
        return [
            path("cpa/", guard(self.cpa_page), name="partners_agreement_cpa"),
            path("<int:object_id>/cpa/", export, name="partners_agreement_cpa_download"),
            *urls,
        ]

    def page_context(self, request: HttpRequest, row: Agreement) -> dict[str, object]:
        may = request.user.has_perms(EXPORT_PERMISSIONS) and row.dialect == Dialect.EBMS2
        return {**super().page_context(request, row), "may_export_cpa": may}

    def cpa_download(self, request: HttpRequest, object_id: int) -> HttpResponse:
        """As it was imported; or one that is made of the agreement."""
        if not request.user.has_perms(EXPORT_PERMISSIONS):
            raise PermissionDenied
        of_dialect = self.model.objects.filter(pk=object_id, dialect=Dialect.EBMS2)
        agreement = of_dialect.select_related("partner").first()
        if agreement is None:
            raise Http404(f"The agreement {object_id} does not exist, or has no CPA.")
        kept = stored(agreement)
        try:
            content = bytes(kept.content) if kept else made_of(agreement)
        except CpaRefused as refused:
            messages.error(request, str(refused))
            return HttpResponseRedirect(markup.page_url(agreement))
        return HttpResponse(
            content,
            content_type="application/xml",
            headers={"Content-Disposition": 'attachment; filename="cpa.xml"'},
        )

    def cpa_page(self, request: HttpRequest) -> HttpResponse:
        """A CPA is shown with what it would change. The same with `seen` is applied."""
        if not request.user.has_perms(IMPORT_PERMISSIONS):
            raise PermissionDenied
        form = CpaForm(request.POST, request.FILES) if request.method == "POST" else None
        if form is None or not form.is_valid():
            return self._render(request, form or CpaForm())
        given = form.cleaned_data
        wanted = Wanted(given["we"], given["partner"], given["certificate"], given["not_yet"])
        try:
            planned = plan(given["octets"], wanted)
        except CpaRefused as refused:
            return self._render(request, form, problems=refused.problems)
        seen, reason = given["seen"], given["reason"]
        if seen and is_applied(request, reason, lambda actor: carry_out(planned, actor, seen)):
            return HttpResponseRedirect(reverse("admin:partners_agreement_changelist"))
        return self._render(request, form, planned)

    def _render(
        self,
        request: HttpRequest,
        form: CpaForm,
        planned: Plan | None = None,
        problems: list[str] | tuple[str, ...] = (),
    ) -> HttpResponse:
        context = {
            **self.admin_site.each_context(request),
            "title": "Import CPA",
            "opts": self.opts,
            "form": form,
            "fields": [form[name] for name in ("file", "we", "partner", "certificate", "not_yet")],
            "planned": planned,
            "given": form.cleaned_data if planned else {},
            "content": b64encode(planned.content).decode() if planned else "",
            "problems": problems,
            "reason_limit": REASON_LIMIT,
        }
        return TemplateResponse(request, "admin/msh/setup/cpa.html", context)
