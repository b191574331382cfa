"""The pages of the second factor: ask for a code, set one up, show the recovery codes once."""

import base64
from datetime import datetime
from http import HTTPStatus

from allauth.mfa.adapter import get_adapter
from axes.handlers.proxy import AxesProxyHandler
from django import forms
from django.contrib import admin, messages
from django.contrib.auth import logout
from django.contrib.auth.models import User
from django.contrib.auth.signals import user_login_failed
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.timezone import localtime
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from unfold.widgets import UnfoldAdminTextInputWidget

from msh.admin.framework import error_pages, sessions

from . import second_factor, store
from .gate import DEVICE, PASSED, pass_by

_SECRET = "msh_new_second_factor"  # noqa: S105  a name in the session
_WRONG_CODES = "msh_wrong_codes"
"""Of a session: how many there were."""
_MOST_WRONG = 5
_WRONG = "The code is wrong, or was used before. Check the clock of your device."


class _CodeForm(forms.Form):
    code = forms.CharField(
        max_length=20,
        widget=UnfoldAdminTextInputWidget(
            attrs={"autocomplete": "one-time-code", "inputmode": "numeric", "autofocus": True}
        ),
    )


@never_cache
@sensitive_post_parameters("code")
def ask(request: HttpRequest) -> HttpResponse:
    """Ask for a code, after the password."""
    user = request.user
    if not isinstance(user, User) or not user.is_authenticated or not second_factor.has(user):
        return HttpResponseRedirect(_next(request))
    form = _CodeForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        checked = _check(request, user, form)
        if isinstance(checked, HttpResponse):
            return checked
        if checked:
            pass_by(request, user, checked)
            sessions.record(request, user.get_username(), f"second factor: {checked}")
            _warn_of_last_codes(request, user)
            return HttpResponseRedirect(_next(request))
    return _page(request, "ask", form, title="Second factor")


def _check(request: HttpRequest, user: User, form: _CodeForm) -> str | HttpResponse:
    """Return what the code is of; empty, with an error of the form, if it is wrong. If no more
    codes are accepted, return the answer that ends it."""
    if locked := _locked(request, user):
        return locked
    try:
        of = second_factor.accepts(user, form.cleaned_data["code"])
    except second_factor.TooManyWrong as refused:
        return _wait(refused.until)
    if of:
        return of
    if ended := _refuse(request, user):
        return ended
    form.add_error("code", _WRONG)
    return ""


def _locked(request: HttpRequest, user: User) -> HttpResponse | None:
    """Return the same answer as after too many wrong passwords, of which wrong codes are a kind."""
    credentials = {"username": user.get_username()}
    allowed = AxesProxyHandler.is_allowed(request, credentials)
    return None if allowed else error_pages.locked_out(request, credentials=credentials)


def _wait(until: datetime) -> HttpResponse:
    lines = (
        "Too many wrong codes were entered under your name, from one or more addresses.",
        f"Wait until {localtime(until):%H:%M %Z}: no code is accepted before that.",
        "If it was not you, somebody knows your password: set a new one, tell an administrator.",
    )
    status = HTTPStatus.TOO_MANY_REQUESTS
    return error_pages.plain(status, "Second factor locked", lines, ("Log in", "admin:login"))


def _refuse(request: HttpRequest, user: User) -> HttpResponse | None:
    """After several wrong codes the session is ended, whatever its addresses were."""
    name = user.get_username()
    sessions.record(request, name, "refused: wrong code of the second factor")
    credentials = {"username": name}
    user_login_failed.send(sender=__name__, credentials=credentials, request=request)
    request.session[_WRONG_CODES] = request.session.get(_WRONG_CODES, 0) + 1
    if request.session[_WRONG_CODES] < _MOST_WRONG:
        return None
    logout(request)
    lines = (
        f"You are logged out, because {_MOST_WRONG} wrong codes were entered. Log in again.",
        "Check the clock of your device before you enter the next code, or use a recovery code.",
    )
    return error_pages.plain(HTTPStatus.FORBIDDEN, "Logged out", lines, ("Log in", "admin:login"))


def _warn_of_last_codes(request: HttpRequest, user: User) -> None:
    left = store.recovery_codes_left(user)
    if left <= 3:
        said = (
            f"You have {left} recovery codes left. To get new ones, remove the second factor and"
            " set it up again."
        )
        messages.warning(request, said)


@never_cache
@sensitive_post_parameters("code")
def set_up(request: HttpRequest) -> HttpResponse:
    """Set up the user's own second factor. Who has one sees that, and may remove it with a code."""
    user = request.user
    if not isinstance(user, User) or not admin.site.has_permission(request):
        return HttpResponseRedirect(reverse("admin:login"))
    if second_factor.has(user):
        return _kept(request, user)
    form = _CodeForm(request.POST or None)
    if request.method == "POST" and form.is_valid() and _SECRET in request.session:
        codes = second_factor.activate(user, request.session[_SECRET], form.cleaned_data["code"])
        if codes:
            del request.session[_SECRET]
            pass_by(request, user, "set up")
            sessions.record(request, user.get_username(), "second factor: set up")
            return _page(request, "codes", form, title="Recovery codes", codes=codes)
        form.add_error("code", _WRONG)
    secret = request.session.setdefault(_SECRET, second_factor.new_secret())
    svg = base64.b64encode(second_factor.picture(user, secret).encode()).decode()
    title, optional = "Set up the second factor", not second_factor.must_have(user)
    return _page(request, "set_up", form, title=title, svg=svg, secret=secret, optional=optional)


def _kept(request: HttpRequest, user: User) -> HttpResponse:
    if PASSED not in request.session:
        return HttpResponseRedirect(f"{reverse('second_factor')}?next={request.path}")
    form = _CodeForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        checked = _check(request, user, form)
        if isinstance(checked, HttpResponse):
            return checked
        if checked:
            second_factor.remove(user, keep=request.session.session_key)
            sessions.record(request, user.get_username(), "second factor: removed")
            del request.session[PASSED], request.session[DEVICE]
            return HttpResponseRedirect(reverse("second_factor_set_up"))
    left = store.recovery_codes_left(user)
    return _page(request, "kept", form, title="Second factor", left=left, optional=True)


def _page(request: HttpRequest, mode: str, form: forms.Form, **context: object) -> HttpResponse:
    shown = {
        **admin.site.each_context(request),
        "mode": mode,
        "form": form,
        "next": _next(request),
        "issuer": get_adapter().get_totp_issuer(),
        **context,
    }
    return TemplateResponse(request, "admin/msh/sign_on/second_factor.html", shown)


def _next(request: HttpRequest) -> str:
    there = request.GET.get("next", "")
    if url_has_allowed_host_and_scheme(there, {request.get_host()}, request.is_secure()):
        return there
    return reverse("admin:index")
