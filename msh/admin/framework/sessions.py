"""Who is logged in to the console: the idle limit, and the log of log-ins."""

from collections.abc import Callable
from http import HTTPStatus

from axes.models import AccessAttempt
from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils import timezone

from msh.store.history import Actor
from msh.store.operations.settings_log import record_access

from . import time_zone

SEEN, SINCE, ADDRESS = "msh_seen", "msh_since", "msh_address"
"""Of a session: when a person last used it, when it began, from where."""
NOTED_EVERY = 60
"""Seconds: a session is not written with each page."""
LONGEST_NAME = 150


class Sessions:
    """Middleware. What a person does lengthens the session to MSH_SESSION_IDLE seconds; pages that
    refresh themselves do not. A log-in, a log-out and each refusal is an entry of the audit log."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if not request.path.startswith(reverse("admin:index")):
            return self._get_response(request)
        leaving = _user_who_leaves(request)
        response = self._get_response(request)
        if request.method == "POST" and request.path == reverse("admin:login"):
            _record_login(request, response.status_code)
        elif leaving:
            record(request, leaving, "logged out")
        elif response.status_code < HTTPStatus.INTERNAL_SERVER_ERROR:
            _note_use(request)
        return response


def _user_who_leaves(request: HttpRequest) -> str:
    leaves = request.method == "POST" and request.path == reverse("admin:logout")
    return request.user.get_username() if leaves else ""


def _record_login(request: HttpRequest, status: int) -> None:
    name = request.POST.get("username", "").strip()[:LONGEST_NAME]
    if status == HTTPStatus.FOUND and request.user.is_authenticated:
        begin(request, "logged in")
    elif status == HTTPStatus.OK:
        record(request, name, "refused: wrong name or password")
    elif status == HTTPStatus.TOO_MANY_REQUESTS and _just_locked(request, name):
        record(request, name, "locked: too many wrong passwords")


def _just_locked(request: HttpRequest, name: str) -> bool:
    """Further attempts during the lockout are not entries: anybody could fill the log."""
    attempts = AccessAttempt.objects.filter(
        username=name, ip_address=request.META.get("REMOTE_ADDR", "")
    )
    return bool(attempts.filter(failures_since_start=settings.AXES_FAILURE_LIMIT).exists())


def begin(request: HttpRequest, event: str) -> None:
    """After the log-in of the request's user; `event` says which way."""
    request.session[SINCE] = request.session[SEEN] = timezone.now().timestamp()
    request.session[ADDRESS] = request.META.get("REMOTE_ADDR", "")
    time_zone.remember(request)
    record(request, request.user.get_username(), event)


def record(request: HttpRequest, name: str, event: str) -> None:
    record_access(name or "(empty)", event, request.META.get("REMOTE_ADDR", ""), Actor(name, ""))


def _note_use(request: HttpRequest) -> None:
    if "HX-Request" in request.headers or not request.user.is_authenticated:
        return
    now = timezone.now().timestamp()
    if now - request.session.get(SEEN, 0) >= NOTED_EVERY:
        request.session[SEEN] = now
