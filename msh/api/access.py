"""Who may do what: a token, its scopes, and the permissions of its user."""

from typing import Any

from django.conf import settings
from rest_framework import exceptions
from rest_framework.authentication import BaseAuthentication
from rest_framework.permissions import BasePermission
from rest_framework.request import Request
from rest_framework.throttling import SimpleRateThrottle
from rest_framework.views import APIView

from msh.models import ApiToken, Scope
from partners.models import digest_of


class TokenAuthentication(BaseAuthentication):
    """`Authorization: Bearer TOKEN`, or nothing: cookies of the console do not count here."""

    def authenticate(self, request: Request) -> tuple[Any, ApiToken] | None:
        scheme, _, secret = request.META.get("HTTP_AUTHORIZATION", "").partition(" ")
        if scheme.lower() != "bearer":
            return None
        digest = digest_of(secret.strip())
        token = ApiToken.objects.select_related("user").filter(sha256=digest).first()
        if token is None or not token.user.is_active:
            raise exceptions.AuthenticationFailed(
                "This token is unknown: `manage.py token NAME` makes one."
            )
        return token.user, token

    def authenticate_header(self, request: Request) -> str:
        return 'Bearer realm="api"'


class HasScope(BasePermission):
    """The view's `scopes`, by method, name the one that a token needs."""

    def has_permission(self, request: Request, view: APIView) -> bool:
        if not isinstance(request.auth, ApiToken):
            raise exceptions.NotAuthenticated("Show a token: Authorization: Bearer TOKEN.")
        scopes: dict[str, Scope] = getattr(view, "scopes", {})
        needed = scopes.get(str(request.method))
        if needed is not None:
            require(request, needed)
        return True


def require(request: Request, scope: Scope) -> None:
    """Raises PermissionDenied if the token has not this scope."""
    token: Any = request.auth
    if scope not in token.scopes:
        raise exceptions.PermissionDenied(
            f"Token {token} lacks the scope {scope.value}: an administrator can add it."
        )


def require_permissions(request: Request, *names: str) -> None:
    """Raises PermissionDenied if the token's user could not do this in the console either."""
    if not request.user.has_perms(names):
        raise exceptions.PermissionDenied(
            f"User {request.user} of token {request.auth} needs the permissions {', '.join(names)}."
        )


class TokenThrottle(SimpleRateThrottle):
    """MSH_API_RATE requests of one token, in each web process."""

    def get_rate(self) -> str | None:
        return settings.MSH_API_RATE or None

    def get_cache_key(self, request: Request, view: APIView) -> str | None:
        if not isinstance(request.auth, ApiToken):
            return None
        return f"msh-api-{request.auth.pk}"
