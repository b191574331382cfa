"""The monthly report of a partner, as a page of its own that can be printed or sent."""

from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse

from msh.statistics.flows.report import report_of
from msh.store.snapshot import snapshot
from partners.models import Partner

from .page import PERMISSION


def report(request: HttpRequest, key: int, year: int, month: int) -> HttpResponse:
    if not request.user.has_perm(PERMISSION):
        raise PermissionDenied
    partner = Partner.objects.filter(pk=key).first()
    if partner is None:
        raise Http404(f"The partner {key} does not exist.")
    try:
        with snapshot():
            return HttpResponse(report_of(partner, year, month).html())
    except ValueError:
        raise Http404(f"There is no month {year}-{month}.") from None
