"""No page of the console without the second factor of who must have one, or has one."""

from collections.abc import Callable

from django.contrib.auth import logout
from django.contrib.auth.models import AnonymousUser, User
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.http import urlencode

from . import second_factor

PASSED, DEVICE = "msh_second_factor", "msh_second_factor_device"
"""Of a session: how the second factor was shown, and of which device. What the identity provider
has asked for is of none of ours."""


def pass_by(request: HttpRequest, user: User, how: str) -> None:
    request.session[PASSED] = how
    request.session[DEVICE] = second_factor.device_of(user)


class SecondFactor:
    """Middleware, after the one that knows the user. Who logs in at the identity provider has
    passed: the provider asks for a second factor."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return self._instead(request) or self._get_response(request)

    def _instead(self, request: HttpRequest) -> HttpResponse | None:
        user: User | AnonymousUser = request.user
        if not request.path.startswith(reverse("admin:index")) or not user.is_authenticated:
            return None
        if _is_of_another_device(request, user):
            logout(request)
            return _to("admin:login", request)
        if PASSED in request.session or request.path in _open_pages():
            return None
        if second_factor.has(user):
            return _to("second_factor", request)
        return _to("second_factor_set_up", request) if second_factor.must_have(user) else None


def _is_of_another_device(request: HttpRequest, user: User) -> bool:
    """It has passed a second factor that was reset since: whoever it is, has to log in again."""
    device = request.session.get(DEVICE)
    return device is not None and device != second_factor.device_of(user)


def _open_pages() -> set[str]:
    names = ("admin:login", "admin:logout", "second_factor", "second_factor_set_up")
    return {reverse(name) for name in names}


def _to(name: str, request: HttpRequest) -> HttpResponse:
    page = request.get_full_path() if request.method == "GET" else reverse("admin:index")
    answer = HttpResponseRedirect(f"{reverse(name)}?{urlencode({'next': page})}")
    if "HX-Request" in request.headers:  # a part of a page: the whole page goes there
        answer.headers["HX-Redirect"] = reverse(name)
    return answer
