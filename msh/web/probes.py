"""Pages for those who watch or balance the web processes."""

from collections.abc import Callable

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.urls import resolve

PATHS = frozenset({"/health/live", "/health/ready", "/metrics"})


class Probes:
    """Middleware. Who asks may name any host: an orchestrator and Prometheus ask by the address of
    a container, which is in no ALLOWED_HOSTS."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        if request.path not in PATHS:
            return self._get_response(request)
        answer: HttpResponseBase = resolve(request.path).func(request)
        return answer
