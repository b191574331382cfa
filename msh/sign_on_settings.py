"""The settings of django-allauth, which serves log-ins at an identity provider (OpenID Connect) and
the second factor.

It is loaded only where one of them is set, so nobody else waits for it or has its tables.
"""

from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any
from urllib.parse import urlsplit

from django.apps import apps as django_apps
from django.conf import settings
from django.core.checks import CheckMessage, Error
from django.core.checks import Warning as Caution
from django.core.exceptions import ImproperlyConfigured
from django.urls import reverse_lazy

APPS = [
    "allauth",
    "allauth.account",
    "allauth.socialaccount",
    "allauth.socialaccount.providers.openid_connect",
    "allauth.mfa",
    "msh.sign_on",
]
ADAPTER = "msh.sign_on.provider.Adapter"
SECOND_FACTOR_ADAPTER = "msh.sign_on.second_factor.Adapter"
PROVIDER = "sso"
"""The name of the provider in the table of accounts."""
_DISCOVERY = "/.well-known/openid-configuration"


def apps() -> list[str]:
    if find_spec("allauth") is None:
        raise ImproperlyConfigured(
            "MSH_OIDC_ISSUER and MSH_SECOND_FACTOR need django-allauth: pip install 'msh[sso]'."
        )
    return APPS


def middleware(*, asks_for_codes: bool) -> list[str]:
    gate = ["msh.sign_on.gate.SecondFactor"] if asks_for_codes else []
    return ["allauth.account.middleware.AccountMiddleware", *gate]


def menu(*, asks_for_codes: bool) -> list[dict[str, Any]]:
    """Return the user's menu in the console."""
    entry = {"title": "Second factor", "link": reverse_lazy("second_factor_set_up")}
    return [entry] if asks_for_codes else []


def providers(issuer: str, client: str, secret: str) -> dict[str, object]:
    return {
        "openid_connect": {
            "provider_class": "msh.sign_on.provider.Provider",
            "APPS": [
                {
                    "provider_id": PROVIDER,
                    "name": "Single sign-on",
                    "client_id": client,
                    "secret": secret,
                    "settings": {
                        "server_url": issuer.rstrip("/") + _DISCOVERY,
                        "oauth_pkce_enabled": True,
                        "fetch_userinfo": False,
                    },
                }
            ],
        }
    }


def check_provider() -> Iterator[CheckMessage]:
    """Check the provider's address: what is read there over HTTP decides who is an
    administrator."""
    if not settings.MSH_OIDC_ISSUER:
        return
    parts = urlsplit(settings.MSH_OIDC_ISSUER)
    is_here = parts.hostname in {"127.0.0.1", "localhost", "::1"}
    if not (parts.hostname and (parts.scheme == "https" or (parts.scheme == "http" and is_here))):
        yield Error(
            f"MSH_OIDC_ISSUER is {settings.MSH_OIDC_ISSUER!r}, which is not an https URL.",
            hint="Set it to exactly the issuer in the provider's discovery document.",
            id="msh.E016",
        )
    if not settings.MSH_OIDC_CLIENT_ID or not settings.MSH_OIDC_ROLES:
        yield Error(
            "MSH_OIDC_ISSUER is set, but not MSH_OIDC_CLIENT_ID and MSH_OIDC_ROLES.",
            hint="Nobody can log in at the provider. See docs/howto/sign-on.md.",
            id="msh.E017",
        )


def check_roles() -> Iterator[CheckMessage]:
    """A role that is misspelt would ask nobody for a code, and let nobody in."""
    roles = django_apps.get_model("auth.Group").objects
    named = {*settings.MSH_SECOND_FACTOR, *settings.MSH_OIDC_ROLES.values()} - {"all"}
    known = set(roles.filter(name__in=named).values_list("name", flat=True))
    if unknown := sorted(named - known):
        yield Caution(
            f"MSH_SECOND_FACTOR or MSH_OIDC_ROLES names roles that do not exist: {unknown}.",
            hint="The roles are listed in the console, under Roles.",
            id="msh.W004",
        )
