"""django-allauth's OpenID Connect, with what it leaves out: a nonce, and the signature always."""

import secrets
from typing import Any
from urllib.parse import urljoin

from allauth.core.exceptions import ImmediateHttpResponse
from allauth.socialaccount.adapter import DefaultSocialAccountAdapter, get_adapter
from allauth.socialaccount.models import SocialLogin
from allauth.socialaccount.providers.oauth2.client import OAuth2Error
from allauth.socialaccount.providers.openid_connect.provider import OpenIDConnectProvider
from allauth.socialaccount.providers.openid_connect.views import OpenIDConnectOAuth2Adapter
from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.urls import reverse

from .log_in import log_in, refuse
from .tokens import NotProven, verified

_NOT_ASKED = "its answer does not belong to a log-in that this browser has begun"


class Exchange(OpenIDConnectOAuth2Adapter):
    """The requests to the provider."""

    @property
    def openid_config(self) -> dict[str, object]:
        config: dict[str, Any] = super().openid_config
        if config.get("issuer") != settings.MSH_OIDC_ISSUER:
            raise OAuth2Error(
                f"The provider's discovery document names another issuer: {config.get('issuer')!r}."
            )
        return config

    def get_callback_url(self, request: HttpRequest, app: object) -> str:
        """Return it as it is registered at the provider, whatever host name the request has."""
        address: str = urljoin(settings.MSH_CONSOLE_URL, reverse("sign_on_callback"))
        return address

    def complete_login(
        self, request: HttpRequest, app: Any, token: object, **kwargs: Any
    ) -> SocialLogin:
        with get_adapter().get_requests_session() as session:
            answer = session.get(self.openid_config["jwks_uri"])
            answer.raise_for_status()
        try:
            claims = verified(
                kwargs["response"].get("id_token") or "",
                answer.json(),
                issuer=settings.MSH_OIDC_ISSUER,
                client=app.client_id,
            )
        except NotProven as problem:
            raise OAuth2Error(str(problem)) from None
        return self.get_provider().sociallogin_from_response(request, {"id_token": claims})


class Provider(OpenIDConnectProvider):
    oauth2_adapter_class = Exchange

    def get_callback_url(self) -> str:
        return reverse("sign_on_callback")

    def get_auth_params_from_request(self, request: HttpRequest, action: object) -> dict[str, str]:
        """Return nothing of the request: its address may come from anybody."""
        return {}

    def get_scope_from_request(self, request: HttpRequest) -> list[str]:
        return list(self.get_scope())

    def redirect(self, request: HttpRequest, process: str, **kwargs: Any) -> HttpResponse:
        nonce = secrets.token_urlsafe(24)
        kwargs["auth_params"] = {**kwargs.get("auth_params", {}), "nonce": nonce}
        answer: HttpResponse = super().redirect(request, "login", nonce=nonce, **kwargs)
        return answer


class Adapter(DefaultSocialAccountAdapter):
    """allauth asks it at each step. It ends each log-in itself, in the console's own way."""

    def pre_social_login(self, request: HttpRequest, sociallogin: SocialLogin) -> None:
        raise ImmediateHttpResponse(log_in(request, sociallogin))

    def on_authentication_error(
        self,
        request: HttpRequest,
        provider: object,
        error: object = None,
        exception: Exception | None = None,
        extra_context: object = None,
    ) -> None:
        asked = request.GET.get("error", "")
        why = str(exception or (asked and f"the provider answered {asked}"))
        raise ImmediateHttpResponse(refuse(request, why or _NOT_ASKED))
