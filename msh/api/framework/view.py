"""The base class of all views of the API."""

from collections.abc import Callable, Iterable, Sequence
from http import HTTPStatus
from typing import Any
from urllib.parse import quote, urlencode

from django.http import HttpResponse
from rest_framework.exceptions import PermissionDenied
from rest_framework.negotiation import DefaultContentNegotiation
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from msh import memory
from msh.models import Scope
from msh.protocol.four_eyes import Alone
from msh.store.history import Actor

from .access import HasScope, TokenAuthentication, TokenThrottle, partners_of
from .problems import LengthRequired, TooLarge, Unreadable, UnsupportedEncoding, handler
from .rendering import JsonRenderer

SMALL = 64 * 1024  # bytes
ROOT = "/api/v1"


class OneAnswer(DefaultContentNegotiation):
    """Each address answers in the one type that it has, whatever `Accept` says: to a caller that
    knows no other, bytes of a payload or a problem document are worth more than a 406
    (RFC 9110, 12.5.1 leaves it to us).
    """

    def select_renderer(
        self,
        request: Request,
        renderers: Iterable[BaseRenderer],
        format_suffix: str | None = None,
    ) -> tuple[BaseRenderer, str]:
        renderer = next(iter(renderers))
        return renderer, renderer.media_type or ""


class ApiView(APIView):
    """`scopes`: what a token needs, by method. `narrows`: a token that is bound to partners meets
    nothing of others here. Without it such a token is refused."""

    authentication_classes = [TokenAuthentication]
    permission_classes = [HasScope]
    throttle_classes = [TokenThrottle]
    content_negotiation_class = OneAnswer
    renderer_classes = [JsonRenderer]
    scopes: dict[str, Scope] = {}
    takes_tags = False
    """It compares If-Match; elsewhere a request with one is refused."""
    narrows = False
    encodings: Sequence[str] = ("identity",)
    """The Content-Encodings of bodies that are accepted."""

    def body_limit(self) -> int:
        """Bytes of a request's body, at most."""
        return SMALL

    def initial(self, request: Request, *args: object, **kwargs: object) -> None:
        super().initial(request, *args, **kwargs)
        if not self.narrows and partners_of(request) is not None:
            raise PermissionDenied(f"Token {request.auth} is bound to partners, this path is not.")
        encoding = request.META.get("HTTP_CONTENT_ENCODING", "identity").strip().lower()
        if encoding not in self.encodings:
            raise UnsupportedEncoding(encoding, self.encodings)
        if "HTTP_IF_MATCH" in request.META and request.method != "GET" and not self.takes_tags:
            raise Unreadable("If-Match", "If-Match: this path compares none; omit it")
        if "HTTP_TRANSFER_ENCODING" in request.META:
            raise LengthRequired
        length = int(request.META.get("CONTENT_LENGTH") or 0)
        if length > self.body_limit():
            raise TooLarge("", f"A request to this path has at most {self.body_limit()} bytes.")
        memory.collect_after(length)

    def get_exception_handler(self) -> Callable[..., Response]:
        return handler


def actor(request: Request, reason: str, alone: str = "") -> Actor:
    """Return the actor for the history: the token's user, and the token. `alone`: the reason for
    acting without a second person."""
    approval = Alone(alone) if alone else None
    return Actor(request.user.get_username(), f"{reason} (API token {request.auth})", approval)


def created(document: Any, *path: object, **query: str) -> Response:
    """The answer 201, with the address of what was created as its Location."""
    address = "/".join([ROOT, *(quote(str(part), safe="") for part in path)])
    query_string = f"?{urlencode(query)}" if query else ""
    headers = {"Location": f"{address}{query_string}"}
    return Response(document, HTTPStatus.CREATED, headers=headers)


def attachment(content: bytes, content_type: str, name: str) -> HttpResponse:
    """A partner's bytes: for a program, never to be shown by a browser."""
    headers = {
        "Content-Disposition": f"attachment; filename*=UTF-8''{quote(name or 'payload', safe='')}",
        "Content-Security-Policy": "sandbox",
        "X-Content-Type-Options": "nosniff",
    }
    return HttpResponse(content, content_type, headers=headers)
