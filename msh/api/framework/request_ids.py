"""The id of a request to the API: in the answer, in its problem document and in the log."""

import re
from collections.abc import Callable
from uuid import uuid4

from django.http import HttpRequest
from django.http.response import HttpResponseBase

from msh.logs import request_id

HEADER = "X-Request-Id"
LIMIT = 128  # characters
_TAKEN = re.compile(rf"[A-Za-z0-9._~:/+=@-]{{1,{LIMIT}}}")


def id_for(shown: str) -> str:
    """Return the id that a client has given its request, or a new one if that is no id."""
    return shown if _TAKEN.fullmatch(shown) else uuid4().hex


class RequestIds:
    """Middleware of the API. What the web server refuses by itself has an id too
    (`msh/web/answer.py`)."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        if not request.path.startswith("/api/"):
            return self._get_response(request)
        number = id_for(request.headers.get(HEADER, ""))
        before = request_id.set(number)
        try:
            response = self._get_response(request)
        finally:
            request_id.reset(before)
        response.headers[HEADER] = number
        return response
