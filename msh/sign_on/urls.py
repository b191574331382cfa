"""Log-in at the identity provider, there and back; the second factor."""

from collections.abc import Callable

from allauth.socialaccount.providers.oauth2.client import OAuth2Error
from allauth.socialaccount.providers.oauth2.views import OAuth2CallbackView, OAuth2LoginView
from django.apps import apps
from django.conf import settings
from django.contrib import admin
from django.http import HttpRequest, HttpResponse
from django.urls import path

from msh.sign_on_settings import PROVIDER

from . import factor_pages
from .log_in import refuse
from .provider import Exchange

# Users are under Users, and the provider is in the settings: allauth has pages for both.
for _model in apps.get_models():
    if _model.__module__.startswith("allauth.") and admin.site.is_registered(_model):
        admin.site.unregister(_model)


def _view(of: type[OAuth2LoginView | OAuth2CallbackView]) -> Callable[[HttpRequest], HttpResponse]:
    def view(request: HttpRequest) -> HttpResponse:
        try:
            answer: HttpResponse = of.adapter_view(Exchange(request, PROVIDER))(request)
        except (OAuth2Error, OSError, ValueError, KeyError) as problem:  # of HTTP, of what it sent
            return refuse(request, f"it cannot be asked ({type(problem).__name__}: {problem})")
        return answer

    return view


urlpatterns = []
if settings.MSH_OIDC_ISSUER:
    urlpatterns += [
        path("admin/sign-on/", _view(OAuth2LoginView), name="sign_on"),
        path("admin/sign-on/callback/", _view(OAuth2CallbackView), name="sign_on_callback"),
    ]
if settings.MSH_SECOND_FACTOR:
    urlpatterns += [
        path("admin/second-factor/", factor_pages.ask, name="second_factor"),
        path("admin/second-factor/set-up/", factor_pages.set_up, name="second_factor_set_up"),
    ]
