"""Access: a token, its scopes, and the permissions of its user."""

import math
from collections.abc import Iterable
from typing import Any, TypeVar

from django.conf import settings
from django.contrib.auth.models import User
from django.db import DEFAULT_DB_ALIAS
from django.db.models import QuerySet
from django.utils import timezone
from rest_framework import exceptions
from rest_framework.authentication import BaseAuthentication
from rest_framework.permissions import BasePermission
from rest_framework.request import Request
from rest_framework.throttling import SimpleRateThrottle
from rest_framework.views import APIView

from msh.allowance import Known, guesses
from msh.models import ApiToken, Scope
from msh.store.cache import Cache
from msh.store.operations.token_use import find_token, note_use
from partners.models import digest_of

RowsT = TypeVar("RowsT", bound=QuerySet[Any, Any])

_cached: Cache[str, int] = Cache()


tokens = Known(lambda: ApiToken.objects.values_list("sha256", flat=True))


class TokenAuthentication(BaseAuthentication):
    """`Authorization: Bearer TOKEN`, or nothing: cookies of the console do not count here."""

    @staticmethod
    def cached(authorization: str) -> int | None:
        """The key of the token that this process has seen last by this header, as it was then."""
        digest = _digest_shown(authorization)
        return _cached.get(digest) if digest else None

    @staticmethod
    def is_known(authorization: str) -> bool:
        """Whether this is somebody's token, or was some seconds ago."""
        digest = _digest_shown(authorization)
        return digest is not None and digest in tokens

    @staticmethod
    def find(authorization: str) -> ApiToken | None:
        """The token that an Authorization header shows, if its user is active."""
        digest = _digest_shown(authorization)
        if digest is None:
            return None
        token = _known(digest)
        if token is None or not token.user.is_active:
            _cached.pop(digest, None)
            return None
        _cached.put(digest, token.pk)
        return token

    def authenticate(self, request: Request) -> tuple[User, ApiToken] | None:
        shown = request.META.get("HTTP_AUTHORIZATION", "")
        if _digest_shown(shown) is None:
            return None
        address = request.META.get("REMOTE_ADDR", "")
        if (wait := guesses.wait(address)) and not self.is_known(shown):
            raise exceptions.Throttled(
                wait, "Too many requests with unknown tokens from your address."
            )
        token = self.find(shown)
        if token is None:
            guesses.spend(address)
            raise exceptions.AuthenticationFailed(
                "Unknown token. Create one with `manage.py token NAME`."
            )
        if why := token.why_refused(address, timezone.now()):
            raise exceptions.AuthenticationFailed(why)
        if not vars(token)["use_is_noted"]:
            note_use(token.pk)
        return token.user, token

    def authenticate_header(self, request: Request) -> str:
        return 'Bearer realm="api"'


# In the order of the models, which `from_db` expects.
_OF_USER = ("is_superuser", "username", "is_active")
_OF_TOKEN = (
    *("id", "user_id", "name", "sha256", "scopes", "expires", "networks", "created"),
    "last_used",
)


def _known(digest: str) -> ApiToken | None:
    """Return the token with its user, and with what `find_token` has read of both."""
    found = find_token(digest)
    if found is None:
        return None
    token = ApiToken.from_db(DEFAULT_DB_ALIAS, _OF_TOKEN, [found[name] for name in _OF_TOKEN])
    user = [found["user_id"], *(found[name] for name in _OF_USER)]
    token.user = User.from_db(DEFAULT_DB_ALIAS, ["id", *_OF_USER], user)
    read = ("permissions", "partner_ids", "use_is_noted")
    vars(token).update({name: found[name] for name in read})
    return token


def _digest_shown(authorization: str) -> str | None:
    scheme, _, secret = authorization.partition(" ")
    return digest_of(secret.strip()) if scheme.lower() == "bearer" else None


class HasScope(BasePermission):
    """The view's `scopes`, by method, name the one that a token needs."""

    def has_permission(self, request: Request, view: APIView) -> bool:
        if not isinstance(request.auth, ApiToken):
            raise exceptions.NotAuthenticated(
                "Authentication required: send Authorization: Bearer TOKEN."
            )
        scopes: dict[str, Scope] = getattr(view, "scopes", {})
        needed = scopes.get(str(request.method))
        if needed is not None:
            require(request, needed)
        return True


def require(request: Request, scope: Scope) -> None:
    """Raises PermissionDenied if the token has not this scope, or its user may not do that."""
    token: Any = request.auth
    if scope not in token.scopes:
        raise exceptions.PermissionDenied(
            f"Token {token} lacks the scope {scope.value}: ask an administrator for a token that"
            " has it."
        )
    if missing := token.lacks(scope):
        raise exceptions.PermissionDenied(_needs(request, missing))


def require_permissions(request: Request, *names: str) -> None:
    """Raises PermissionDenied if the token's user could not do this in the console either."""
    if not request.user.has_perms(names):
        raise exceptions.PermissionDenied(_needs(request, names))


def partners_of(request: Request) -> frozenset[int] | None:
    """The partners that the token is bound to; None: it is not bound."""
    return frozenset(vars(request.auth)["partner_ids"]) or None


def within(request: Request, rows: RowsT, partner: str = "partner") -> RowsT:
    """The rows that exist for the token. `partner`: the path to the partner of a row."""
    bound = partners_of(request)
    return rows if bound is None else rows.filter(**{f"{partner}__in": bound})


def _needs(request: Request, permissions: Iterable[str]) -> str:
    names = ", ".join(permissions)
    return f"User {request.user} of token {request.auth} needs the permissions {names}."


class TokenThrottle(SimpleRateThrottle):
    """MSH_API_RATE requests of one token, in each web process: `num_requests` in `duration`
    seconds, or None in None."""

    num_requests: int | None
    duration: int | None

    def get_rate(self) -> str | None:
        return settings.MSH_API_RATE or None

    def get_cache_key(self, request: Request, view: APIView) -> str | None:
        if not isinstance(request.auth, ApiToken):
            return None
        return f"msh-api-{request.auth.pk}"

    def allow_request(self, request: Request, view: APIView) -> bool:
        """Also tell how much is left, as draft-ietf-httpapi-ratelimit-headers-10 has it."""
        allowed = super().allow_request(request, view)
        if self.num_requests and self.duration and self.key is not None:
            left = max(0, self.num_requests - len(self.history))
            oldest = self.history[-1] if self.history else self.now
            reset = max(0, math.ceil(oldest + self.duration - self.now))
            view.headers["RateLimit-Policy"] = f'"token";q={self.num_requests};w={self.duration}'
            view.headers["RateLimit"] = f'"token";r={left};t={reset}'
        return allowed
