"""What the console shows instead of a page: it is not there, or not for this user to see."""

from collections.abc import Callable

import psycopg
from django.conf import settings
from django.contrib import admin
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import reverse
from django.views import defaults


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    """404: in the console with the way back, elsewhere as Django says it."""
    if not _in_console(request):
        return defaults.page_not_found(request, exception)
    words = "It may have been kept for its time and removed, or the address is mistyped."
    return _page(request, 404, "This is not here", words)


def forbidden(request: HttpRequest, exception: Exception) -> HttpResponse:
    """403: in the console with who may help, elsewhere as Django says it."""
    if not _in_console(request):
        return defaults.permission_denied(request, exception)
    words = "None of your roles allows it. An administrator gives you one that does."
    return _page(request, 403, "You may not do this", words)


class TooLong:
    """Middleware: a page of the console whose statement was ended says so (MSH_READ_TIMEOUT)."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return self._get_response(request)

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponse | None:
        ended = isinstance(exception.__cause__, psycopg.errors.QueryCanceled)
        if not ended or not _in_console(request):
            return None
        seconds = f"{settings.MSH_READ_TIMEOUT:g}"
        words = (
            f"To find this takes longer than {seconds} seconds, and nobody is to wait for that."
            " Look for less: a partner, a narrower time, an id."
        )
        return _page(request, 503, "This takes too long", words)


def _in_console(request: HttpRequest) -> bool:
    inside = request.path.startswith(reverse("admin:index"))
    return inside and admin.site.has_permission(request)


def _page(request: HttpRequest, status: int, title: str, words: str) -> HttpResponse:
    context = {**admin.site.each_context(request), "title": title, "words": words}
    page = TemplateResponse(request, "admin/msh/framework/error.html", context, status=status)
    return page.render()
