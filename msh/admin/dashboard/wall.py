"""The dashboard for a screen on a wall: large, no menu, the worst first; it needs no hand."""

from django.contrib import admin
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.utils import timezone

from .page import context
from .troubles import Troubles, worst_first

SCHEMES = ("light", "dark")


def wall(request: HttpRequest) -> HttpResponse:
    """`theme` of the address chooses the scheme; without it the browser does."""
    shown = context(request, dict(admin.site.each_context(request)))
    found = shown.get("troubles")
    if isinstance(found, Troubles):
        shown["rows"] = worst_first(found, timezone.now())
        shown["unlisted"] = found.suspended.others + found.other_incidents - len(found.incidents)
    if (scheme := request.GET.get("theme")) in SCHEMES:
        shown["theme"] = scheme
    shown["title"] = "Wall"
    return TemplateResponse(request, "admin/msh/dashboard/wall.html", shown)
