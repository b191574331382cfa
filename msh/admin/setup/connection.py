"""The page that tests the connection to a partner: TCP, TLS, and its MSH; no message."""

from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import URLPattern, path
from unfold.admin import ModelAdmin

from msh.admin.framework import markup
from msh.admin.framework.audited import back_of
from msh.admin.framework.pages import Table
from msh.flows.operations.inspection.connection import (
    MOST,
    Place,
    check,
    last_step,
    places,
)
from msh.transport.way import Step
from partners.models import Agreement

TEST_PERMISSIONS = ("partners.view_agreement", "msh.send_now_outboundlink")
"""The permission to send a message again includes a test of its connection."""

_RESULTS = {True: ("ok", "success"), False: ("failed", "danger"), None: ("no result", "")}


class ConnectionPage(ModelAdmin):
    """A subpage of an agreement; the connections are those to its partner, and to each address of
    its channels."""

    change_form_outer_before_template = "admin/msh/setup/agreement_actions.html"

    def get_urls(self) -> list[URLPattern]:
        page = self.admin_site.admin_view(self.test)
        urls: list[URLPattern] = super().get_urls()
        return [
            path("<int:object_id>/connection/", page, name="partners_agreement_connection"),
            *urls,
        ]

    def page_context(self, request: HttpRequest, row: Agreement) -> dict[str, object]:
        return {"may_test": request.user.has_perms(TEST_PERMISSIONS)}

    def test(self, request: HttpRequest, object_id: int) -> HttpResponse:
        """GET describes the test, POST runs it."""
        if not request.user.has_perms(TEST_PERMISSIONS):
            raise PermissionDenied
        agreement = self.model.objects.select_related("partner").filter(pk=object_id).first()
        if agreement is None:
            raise Http404(f"The agreement {object_id} does not exist.")
        tried = request.method == "POST"
        known = places(agreement)
        context = {
            **self.admin_site.each_context(request),
            "title": f"Test connection to {agreement.partner}",
            "opts": self.opts,
            "agreement": agreement,
            "last_step": last_step(agreement),
            "elsewhere": known[1:MOST],
            "left_out": known[MOST:],
            "back": back_of(request) or markup.page_url(agreement),
            "tables": [_results(*one) for one in check(agreement)] if tried else [],
        }
        return TemplateResponse(request, "admin/msh/setup/connection.html", context)


def _results(place: Place, steps: list[Step]) -> Table:
    rows = [(step.name, markup.badge(*_RESULTS[step.went]), _detail(step)) for step in steps]
    of = f" of {place.address}" if place.channels else ""
    return Table(f"Test results{of}", ("Step", "Result", "Detail"), rows, "")


def _detail(step: Step) -> str:
    return markup.verbatim(step.detail)
