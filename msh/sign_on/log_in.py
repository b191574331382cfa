"""The last step of a log-in at the identity provider: a user, with the roles of its claims."""

import logging
from collections.abc import Mapping
from http import HTTPStatus
from secrets import compare_digest

from allauth.socialaccount.models import SocialAccount, SocialLogin
from axes.handlers.proxy import AxesProxyHandler
from django.conf import settings
from django.contrib.auth import login
from django.contrib.auth.models import Group, User
from django.db import transaction
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse

from msh.admin.framework import error_pages, sessions
from msh.models import is_machine

from .claims import LONGEST_NAME, name_of, roles_of
from .gate import PASSED

logger = logging.getLogger(__name__)

_BACKEND = "django.contrib.auth.backends.ModelBackend"


class _Refused(Exception):
    def __init__(self, why: str, name: str = "") -> None:
        super().__init__(why)
        self.name = name


def log_in(request: HttpRequest, answer: SocialLogin) -> HttpResponse:
    claims = answer.account.extra_data["id_token"]
    known = answer.user.get_username() if answer.is_existing else ""
    name = known or name_of(claims, settings.MSH_OIDC_USERNAME)
    try:
        if not compare_digest(str(claims["nonce"]).encode(), answer.state["nonce"].encode()):
            raise _Refused("its answer belongs to another log-in", name)
        if not AxesProxyHandler.is_allowed(request, {"username": name}):
            return error_pages.locked_out(request)
        user, roles = _admit(answer, claims, name)
    except _Refused as refused:
        return refuse(request, str(refused), refused.name)
    login(request, user, backend=_BACKEND)
    request.session[PASSED] = "by the identity provider"
    sessions.begin(request, f"logged in by single sign-on as {', '.join(sorted(roles))}")
    return HttpResponseRedirect(answer.get_redirect_url(request) or reverse("admin:index"))


def refuse(request: HttpRequest, why: str, name: str = "") -> HttpResponse:
    """Answer with a page in words. An entry of the audit log only if it is proven who `name` is:
    anybody could fill it otherwise."""
    if name:
        sessions.record(request, name, f"refused by single sign-on: {why}")
    logger.warning("single sign-on refused: %s", why)
    lines = (
        f"The log-in at the identity provider was not accepted: {why}.",
        "Try again. If it fails again, ask an administrator of this MSH or of the provider.",
    )
    return error_pages.plain(
        HTTPStatus.FORBIDDEN, "Not logged in", lines, ("Log in", "admin:login")
    )


def _admit(answer: SocialLogin, claims: Mapping[str, object], name: str) -> tuple[User, set[str]]:
    """Roles are taken anew with each log-in: one that the provider has taken away is lost here, in
    the user's other sessions too."""
    roles = roles_of(claims, settings.MSH_OIDC_ROLES_CLAIM, settings.MSH_OIDC_ROLES)
    groups = list(Group.objects.filter(name__in=roles))
    with transaction.atomic():
        user: User | None = answer.user if answer.is_existing else _new_user(answer, name, groups)
        if user is not None:
            user.groups.set(groups)
            user.user_permissions.clear()
            User.objects.filter(pk=user.pk).update(is_superuser=False)
    if user is None or not groups:
        claim = settings.MSH_OIDC_ROLES_CLAIM
        raise _Refused(f"no value of its claim {claim} is mapped to a role here", name)
    if not user.is_active:
        raise _Refused(f"the user {user} is not active", name)
    return user, {group.name for group in groups}


def _new_user(answer: SocialLogin, name: str, groups: list[Group]) -> User | None:
    """Return a new user; None if there is no role. A user who can log in by a password is not taken
    over, nor is one that applications act as."""
    if not groups:
        return None
    if not name:
        claim = settings.MSH_OIDC_USERNAME
        raise _Refused(f"its claim {claim} has no name of at most {LONGEST_NAME} characters")
    user, created = User.objects.get_or_create(username=name, defaults={"is_staff": True})
    if created:
        user.set_unusable_password()
        user.save(update_fields=["password"])
    elif user.has_usable_password() or is_machine(user) or _is_linked(user):
        raise _Refused(f"another user is already named {name}", name)
    answer.account.user = user
    answer.account.save()
    return user


def _is_linked(user: User) -> bool:
    return bool(SocialAccount.objects.filter(user=user).exists())
