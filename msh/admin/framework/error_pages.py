"""Error pages of the console."""

from collections.abc import Callable

import psycopg
from django.conf import settings
from django.contrib import admin
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import reverse
from django.views import defaults


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    """404, in the layout of the console for its users."""
    if not _in_console(request):
        return defaults.page_not_found(request, exception)
    text = "The row may have been deleted after its retention period, or the address is wrong."
    return _page(request, 404, "Page not found", text)


def forbidden(request: HttpRequest, exception: Exception) -> HttpResponse:
    """403, in the layout of the console for its users."""
    if not _in_console(request):
        return defaults.permission_denied(request, exception)
    text = "None of your roles has the required permission. Ask an administrator."
    return _page(request, 403, "Permission denied", text)


class QueryTimeout:
    """Middleware: 503 if a statement took longer than MSH_READ_TIMEOUT."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return self._get_response(request)

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponse | None:
        ended = isinstance(exception.__cause__, psycopg.errors.QueryCanceled)
        if not ended or not _in_console(request):
            return None
        seconds = f"{settings.MSH_READ_TIMEOUT:g}"
        text = (
            f"The database query was cancelled after {seconds} seconds. Narrow the search: select"
            " a partner, a shorter period or an id."
        )
        return _page(request, 503, "Query timeout", text)


def _in_console(request: HttpRequest) -> bool:
    inside = request.path.startswith(reverse("admin:index"))
    return inside and admin.site.has_permission(request)


def _page(request: HttpRequest, status: int, title: str, text: str) -> HttpResponse:
    context = {**admin.site.each_context(request), "title": title, "text": text}
    page = TemplateResponse(request, "admin/msh/framework/error.html", context, status=status)
    return page.render()
