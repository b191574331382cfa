"""Error pages of the console: what has happened, and what to do."""

import logging
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from http import HTTPStatus
from math import ceil

import psycopg
from axes.helpers import get_cool_off
from django.conf import settings
from django.contrib import admin, messages
from django.core.exceptions import DisallowedHost, ObjectDoesNotExist
from django.db import InterfaceError, OperationalError
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.middleware import csrf
from django.template.loader import render_to_string
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.http import urlencode
from django.utils.timezone import localtime
from django.views import csrf as csrf_views
from django.views import defaults

from msh.api.framework.problems import outside_views

from .actions import REASON_LIMIT

logger = logging.getLogger(__name__)

AGAIN = 10
"""Seconds after which a page without its database is requested again."""
_DASHBOARD = ("Go to the dashboard", "admin:index")
_NO_COOKIES = (
    "Logging in requires cookies, and your browser sent none.",
    "Allow cookies for this address, open the page again, and log in.",
)
_OTHER_ORIGIN = (
    "The form was sent from an address other than the console's. Nothing was done.",
    (
        "If you opened the console by its usual address, an administrator must set"
        " MSH_CONSOLE_URL to that address (or add it to CSRF_TRUSTED_ORIGINS), and the proxy must"
        " send X-Forwarded-Proto."
    ),
)
_NO_DATABASE = (
    (
        "The console cannot show anything until PostgreSQL is back. Nothing that you submitted"
        " with this page was done, unless the connection was lost at the very last moment: check"
        " afterwards."
    ),
    (
        "No message is lost: what was accepted is in the database, and what was not acknowledged is"
        " sent again. Partners and applications are told to try again later."
    ),
    (
        "What to do: check that PostgreSQL is running, accepts connections and has free disk"
        " space. The error is in the log of the web server."
    ),
)
_DEFECT = (
    (
        "The page could not be shown because of a defect. The exchange of messages does not depend"
        " on the console and continues."
    ),
    (
        "What to do: try again. If you pressed a button, first check whether the action was"
        " done. Report the error with the time below: the log of the web server has the details."
    ),
)


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    """400. The host name may be what is wrong, so nothing here asks for it."""
    host = request.headers.get("Host", "")
    if _is_api(request):
        wrong_host = f"No MSH answers under the host name {host[:255]!r} (ALLOWED_HOSTS)."
        is_host = isinstance(exception, DisallowedHost)
        return outside_views(400, wrong_host if is_host else "The request is malformed.")
    if not _is_console(request):
        return defaults.bad_request(request, exception)
    lines = ["The request was refused before it reached a page. Nothing was done."]
    if isinstance(exception, DisallowedHost):
        lines.append(
            f"The console does not answer under the host name {host}. An administrator must set"
            " MSH_CONSOLE_URL to the address that you use, or add the name to ALLOWED_HOSTS."
        )
    else:
        lines.append(
            "The form may be too large, or the address malformed. Go back and try again with less."
        )
    return plain(HTTPStatus.BAD_REQUEST, "Request refused", lines, _DASHBOARD)


def forbidden(request: HttpRequest, exception: Exception) -> HttpResponse:
    """403, in the layout of the console for its users."""
    if not _in_console(request):
        return defaults.permission_denied(request, exception)
    text = "None of your roles has the required permission. Ask an administrator."
    return _page(request, 403, "Permission denied", text)


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    """404, in the layout of the console for its users."""
    if not _in_console(request):
        return defaults.page_not_found(request, exception)
    text = (
        "What it showed may have been deleted after its retention period, or the address is wrong."
    )
    return _page(request, 404, "Page not found", text)


def server_error(request: HttpRequest) -> HttpResponse:
    """500; 503 if the database is what is missing."""
    has_database = not isinstance(sys.exc_info()[1], OperationalError | InterfaceError)
    if _is_api(request):
        said = "Internal server error; see the log." if has_database else "Retry the same request."
        return outside_views(500 if has_database else 503, said)
    if not _is_console(request):
        return defaults.server_error(request)
    if has_database:
        status = HTTPStatus.INTERNAL_SERVER_ERROR
        return plain(status, "The console has an error", _DEFECT, _DASHBOARD)
    return plain(
        HTTPStatus.SERVICE_UNAVAILABLE,
        "The database does not answer",
        _NO_DATABASE,
        _DASHBOARD,
        ("Health of this MSH", "ready"),
        again=AGAIN if request.method == "GET" else 0,
    )


def csrf_failure(request: HttpRequest, reason: str = "") -> HttpResponse:
    """A form with an old token, as of a tab that was open before another log-in, is shown again
    with its reason. It is not submitted again: nobody has read it under the new log-in."""
    if not _is_console(request):
        return csrf_views.csrf_failure(request, reason)
    status = HTTPStatus.FORBIDDEN
    if reason == csrf.REASON_NO_CSRF_COOKIE:
        return plain(status, "No cookies", _NO_COOKIES, ("Log in", "admin:login"))
    if not reason.startswith("CSRF token from"):
        return plain(status, "Form refused", _OTHER_ORIGIN, _DASHBOARD)
    again = "You have logged in again since this page was opened. Check it, then submit it again."
    messages.error(request, f"Nothing was done. {again}")
    return HttpResponseRedirect(_with_reason(request))


def locked_out(
    request: HttpRequest, answer: HttpResponse | None = None, credentials: object = None
) -> HttpResponse:
    """The view that axes calls after AXES_FAILURE_LIMIT wrong passwords."""
    wait = get_cool_off(request)
    until = datetime.now(UTC) + wait
    minutes = ceil(wait.total_seconds() / 60)
    lines = (
        (
            f"Too many log-ins with this name from your address have failed. Wait {minutes}"
            f" minutes, until {localtime(until):%H:%M %Z}, before you try again: each attempt"
            " restarts the wait."
        ),
        (
            "If you have forgotten the password, ask an administrator to set a new one. Somebody"
            " with access to the server can end the wait at once: manage.py axes_reset_username"
            " NAME."
        ),
    )
    status = HTTPStatus.TOO_MANY_REQUESTS
    page = plain(status, "Log-in locked", lines, ("Log in", "admin:login"))
    page.headers["Retry-After"] = str(ceil(wait.total_seconds()))
    return page


class ErrorPages:
    """Middleware: a page for a statement that took longer than MSH_READ_TIMEOUT, for a row that was
    removed while it was read, and for a method that a page does not have. Who must log in to send
    a form finds the typed reason again."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self._get_response(request)
        if not _is_console(request):
            return response
        if response.status_code == HTTPStatus.METHOD_NOT_ALLOWED and not response.content:
            return _not_allowed(response.headers.get("Allow", ""))
        if request.method == "POST" and request.POST.get("reason") and _is_to_login(response):
            query = urlencode({"next": _with_reason(request)})
            response.headers["Location"] = f"{reverse('admin:login')}?{query}"
        return response

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponse | None:
        if not _in_console(request):
            return None
        if isinstance(exception, ObjectDoesNotExist):
            logger.warning("404 for a row that was removed meanwhile", exc_info=exception)
            return not_found(request, exception)
        if not isinstance(exception.__cause__, psycopg.errors.QueryCanceled):
            return None
        seconds = f"{settings.MSH_READ_TIMEOUT:g}"
        text = (
            f"The database query was cancelled after {seconds} seconds. Narrow the search: select"
            " a partner, a shorter period or an id."
        )
        return _page(request, 503, "Query timeout", text)


def _not_allowed(allowed: str) -> HttpResponse:
    lines = ("This address is used by a button of the console. Nothing was done.",)
    title = "This page cannot be opened directly"
    page = plain(HTTPStatus.METHOD_NOT_ALLOWED, title, lines, _DASHBOARD)
    page.headers["Allow"] = allowed
    return page


def _is_to_login(response: HttpResponse) -> bool:
    there = response.headers.get("Location", "")
    return response.status_code == HTTPStatus.FOUND and there.startswith(reverse("admin:login"))


def _with_reason(request: HttpRequest) -> str:
    """The address of the page that the form is on. Its dialog fills `reason` in."""
    reason = request.POST.get("reason", "")[:REASON_LIMIT]
    query = request.GET.copy()
    if reason:
        query["reason"] = reason
    return f"{request.path}?{query.urlencode()}" if query else request.path


def _is_api(request: HttpRequest) -> bool:
    return request.path.startswith("/api/")


def _is_console(request: HttpRequest) -> bool:
    return request.path.startswith(reverse("admin:index"))


def _in_console(request: HttpRequest) -> bool:
    return _is_console(request) and admin.site.has_permission(request)


def _page(request: HttpRequest, status: int, title: str, text: str) -> HttpResponse:
    context = {**admin.site.each_context(request), "title": title, "text": text}
    page = TemplateResponse(request, "admin/msh/framework/error.html", context, status=status)
    return page.render()


def plain(
    status: HTTPStatus,
    title: str,
    lines: Sequence[str],
    *links: tuple[str, str],
    again: int = 0,
) -> HttpResponse:
    """A page without the database. `again`: seconds until the browser tries again."""
    context = {
        "title": title,
        "status": status.value,
        "lines": lines,
        "links": [(text, reverse(name)) for text, name in links],
        "again": again,
        "now": f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC",
    }
    return HttpResponse(
        render_to_string("admin/msh/framework/plain_error.html", context), status=status
    )
