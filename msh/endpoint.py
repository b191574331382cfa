"""Partners come in: one POST, one answer without a body (000 §2.5.1, D35, D49).

The partner is known before a byte of the body is read. What the answer has to say stands in its
status and, as one line, in the header X-MSH-Error.
"""

import logging
from typing import IO, Any

import psycopg
from django.conf import settings
from django.db import Error as DatabaseError
from django.http import HttpRequest, HttpResponse
from rest_framework import exceptions
from rest_framework.authentication import BaseAuthentication
from rest_framework.parsers import BaseParser
from rest_framework.request import Request
from rest_framework.views import APIView

from msh.flows.receive import receive
from msh.protocol.errors import Unreadable
from partners.models import Partner

logger = logging.getLogger(__name__)

RETRY_AFTER = 5  # seconds that a partner is asked to wait while the store is down
REASON_LIMIT = 200  # characters of X-MSH-Error


class LengthRequired(exceptions.APIException):
    status_code = 411
    default_detail = "a request needs a Content-Length, or Transfer-Encoding: chunked"


class TooLarge(exceptions.APIException):
    status_code = 413

    def __init__(self) -> None:
        super().__init__(f"a request has at most {settings.MSH_MESSAGE_LIMIT} bytes")


class PartnerAuthentication(BaseAuthentication):
    """Authorization header → partner, by one indexed query; then where it may come from."""

    def authenticate(self, request: Request) -> tuple[Partner, None]:
        partner = Partner.objects.by_credential(request.META.get("HTTP_AUTHORIZATION", ""))
        if partner is None:
            raise exceptions.AuthenticationFailed("no partner shows itself by this Authorization")
        if not partner.admits(request.META["REMOTE_ADDR"]):
            raise exceptions.PermissionDenied(
                f"partner {partner.name} may not come from {request.META['REMOTE_ADDR']}"
            )
        return partner, None

    def authenticate_header(self, request: Request) -> str:
        return 'Bearer realm="ebxml"'


class RawParser(BaseParser):
    """The body as bytes, whatever its type. Refuses, without reading on, what is too large."""

    media_type = "*/*"

    def parse(
        self, stream: IO[bytes], media_type: str | None = None, parser_context: Any = None
    ) -> bytes:
        limit = settings.MSH_MESSAGE_LIMIT
        body = _read(stream, limit + 1)
        if len(body) > limit:
            raise TooLarge
        return body


def _read(stream: IO[bytes], limit: int) -> bytes:
    """At most `limit` bytes; a stream may give fewer at a time than it is asked for."""
    pieces: list[bytes] = []
    size = 0
    while size < limit and (piece := stream.read(min(limit - size, 1 << 20))):
        pieces.append(piece)
        size += len(piece)
    return b"".join(pieces)


class Endpoint(APIView):
    """`/ebxml/` and `/ebxml/<name>/`."""

    authentication_classes = [PartnerAuthentication]
    permission_classes = []
    throttle_classes = []
    parser_classes = [RawParser]
    renderer_classes = []

    def post(self, request: Request, name: str = "") -> HttpResponse:
        body = self._body(request)
        content_type = request.META.get("CONTENT_TYPE", "")
        answer = receive(request.user, content_type, body)  # type: ignore[arg-type]
        return _answer(answer.status, answer.reason)

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        """Method, then partner, then what the headers say of the body."""
        if request.method != "POST":
            raise exceptions.MethodNotAllowed(request.method or "")
        self.perform_authentication(request)
        encoding = request.META.get("HTTP_CONTENT_ENCODING", "identity")
        if encoding.strip().lower() != "identity":
            raise exceptions.UnsupportedMediaType(
                encoding, f"Content-Encoding {encoding} is not taken: send the body as it is"
            )
        length = request.META.get("CONTENT_LENGTH") or ""
        if length.isdecimal() and int(length) > settings.MSH_MESSAGE_LIMIT:
            raise TooLarge
        if not length and not _is_chunked(request):
            raise LengthRequired

    def handle_exception(self, exc: Exception) -> HttpResponse:
        match exc:
            case Unreadable():
                return _answer(exc.status, str(exc))
            case exceptions.AuthenticationFailed() | exceptions.NotAuthenticated():
                refused = _answer(401, str(exc.detail))
                refused["WWW-Authenticate"] = self.get_authenticate_header(self.request) or ""
                return refused
            case exceptions.MethodNotAllowed():
                refused = _answer(405, "only POST carries a message")
                refused["Allow"] = "POST"
                return refused
            case exceptions.APIException():
                return _answer(exc.status_code, str(exc.detail))
            case DatabaseError() | psycopg.Error():
                logger.warning("503 to a partner, the store does not answer: %s", exc)
                unavailable = _answer(503, "the store is not available, nothing was taken")
                unavailable["Retry-After"] = str(RETRY_AFTER)
                return unavailable
        logger.error("500 to a partner", exc_info=exc)
        return _answer(500, "an error of ours, nothing was taken")

    def _body(self, request: Request) -> bytes:
        if _is_chunked(request):
            # Django gives a request without Content-Length an empty body.
            return RawParser().parse(request.META["wsgi.input"])
        body: bytes = request.data or b""
        announced = int(request.META["CONTENT_LENGTH"])
        if len(body) < announced:
            raise Unreadable(f"the body has {len(body)} bytes, {announced} were announced")
        return body


def _is_chunked(request: Request | HttpRequest) -> bool:
    return "chunked" in request.META.get("HTTP_TRANSFER_ENCODING", "").lower()


def _answer(status: int, reason: str = "") -> HttpResponse:
    """No body, on every path (000-058)."""
    answer = HttpResponse(status=status)
    del answer["Content-Type"]
    if reason:
        line = " ".join(reason.split())[:REASON_LIMIT]
        answer["X-MSH-Error"] = line.encode("ascii", "replace").decode()
    return answer
