"""Sessions of the console: the idle limit, and the log of log-ins."""

from collections.abc import Callable
from http import HTTPStatus

from axes.models import AccessAttempt
from django.conf import settings
from django.contrib.auth import SESSION_KEY
from django.contrib.auth.base_user import AbstractBaseUser
from django.contrib.sessions.models import Session
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils import timezone

from msh.allowance import Known, LoginLimits
from msh.store.history import Actor
from msh.store.operations.settings_log import (
    LOGGED_IN,
    REFUSED,
    logged_in_lately,
    may_record_refusal,
    record_access,
)

from . import error_pages, time_zone

SEEN, SINCE, ADDRESS = "msh_seen", "msh_since", "msh_address"
"""Keys in a session: when a person last used it, when it began, and from which address."""
NOTED_EVERY = 60
"""Seconds: a session is not written with each page."""
LONGEST_NAME = 150
login_limits = LoginLimits(Known(logged_in_lately))


class Sessions:
    """Middleware. What a person does lengthens the session to MSH_SESSION_IDLE seconds; pages that
    refresh themselves do not, but for the wall. A log-in, a log-out and each refusal is an entry of
    the audit log."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if not request.path.startswith(reverse("admin:index")):
            return self._get_response(request)
        leaving = _user_who_leaves(request)
        logs_in = request.method == "POST" and request.path == reverse("admin:login")
        if logs_in and (wait := login_limits.wait(_name(request), _address(request))):
            return _too_many(wait)
        response = self._get_response(request)
        if logs_in:
            _record_login(request, response.status_code)
        elif leaving:
            record(request, leaving, "logged out")
        elif response.status_code < HTTPStatus.INTERNAL_SERVER_ERROR:
            _note_use(request)
        return response


def _user_who_leaves(request: HttpRequest) -> str:
    leaves = request.method == "POST" and request.path == reverse("admin:logout")
    return request.user.get_username() if leaves else ""


def _name(request: HttpRequest) -> str:
    return request.POST.get("username", "").strip()[:LONGEST_NAME]


def _address(request: HttpRequest) -> str:
    return str(request.META.get("REMOTE_ADDR", ""))


def _too_many(wait: int) -> HttpResponse:
    lines = (
        "Too many log-ins were refused, from your address or under this name.",
        f"Wait {wait} seconds, then try again.",
    )
    status = HTTPStatus.TOO_MANY_REQUESTS
    answer = error_pages.plain(status, "Log in later", lines, ("Log in", "admin:login"))
    answer["Retry-After"] = str(wait)
    return answer


def _record_login(request: HttpRequest, status: int) -> None:
    """Anybody can have log-ins refused: beyond a few they are in the log only, which is counted and
    goes, and not in the audit log, which is kept for years."""
    name, address = _name(request), _address(request)
    if status == HTTPStatus.FOUND and request.user.is_authenticated:
        login_limits.succeed(name, address)
        begin(request, LOGGED_IN)
    elif status == HTTPStatus.OK:
        login_limits.fail(name, address)
        if not name or not request.POST.get("password"):
            return
        if may_record_refusal(address):
            record(request, name, REFUSED)
        else:
            login_limits.log(address)
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


def end_sessions_of(user: AbstractBaseUser, keep: str | None = None) -> None:
    """All but the one with the key `keep`."""
    for row in Session.objects.exclude(session_key=keep).iterator():
        if row.get_decoded().get(SESSION_KEY) == str(user.pk):
            row.delete()


def record(request: HttpRequest, name: str, event: str) -> None:
    record_access(name or "(empty)", event, request.META.get("REMOTE_ADDR", ""), Actor(name, ""))


def _note_use(request: HttpRequest) -> None:
    if not request.user.is_authenticated:
        return
    now = timezone.now().timestamp()
    if now - request.session.get(SEEN, 0) < NOTED_EVERY:
        return
    if "HX-Request" not in request.headers or _is_watched_wall(request):
        request.session[SEEN] = now


def _is_watched_wall(request: HttpRequest) -> bool:
    """A screen on a wall has nobody who could log in again: its session lasts while it is shown, if
    whoever passes by could only look, and not into payloads."""
    if request.path != reverse("wall"):
        return False
    names = {one.partition(".")[2] for one in request.user.get_all_permissions()}
    return all(name.startswith("view_") and "payload" not in name for name in names)
