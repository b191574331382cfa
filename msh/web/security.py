"""What restricts browsers, by headers of our pages, and what error pages may show."""

from collections.abc import Callable

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.views.debug import SafeExceptionReporterFilter

_HEADER = "Content-Security-Policy"
_POLICY = (
    "default-src 'none'; script-src {script}; style-src 'self' 'unsafe-inline';"
    " img-src 'self' data:; font-src 'self'; connect-src 'self'; manifest-src 'self';"
    " form-action 'self'; base-uri 'self'; frame-ancestors 'none'"
)
CONSOLE_POLICY = _POLICY.format(script="'self' 'unsafe-eval'")
"""Unfold's Alpine.js evaluates expressions that stand in attributes. No script stands in a page."""
POLICY = _POLICY.format(script="'self'")


class ContentSecurityPolicy:
    """Middleware. An answer that has a policy of its own, such as a payload, keeps it."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        response = self._get_response(request)
        is_console = request.path.startswith("/admin/")
        response.headers.setdefault(_HEADER, CONSOLE_POLICY if is_console else POLICY)
        return response


class SecretsHidden(SafeExceptionReporterFilter):
    """Django's, also with DEBUG: what functions declare as sensitive, such as a private key, is in
    no error page."""

    def is_active(self, request: HttpRequest | None) -> bool:
        return True
