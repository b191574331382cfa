"""The HTTP endpoint for partners: one POST, one answer (000 §2.5.1, D35, D49).

The partner is known before a byte of the body is read. The answer is its status and, as one line,
the header X-MSH-Error; the dialect decides whether it has a body too.
"""

import logging
import re
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

import psycopg
from django.conf import settings
from django.db import Error as DatabaseError
from django.db import connection
from django.http import HttpRequest, HttpResponse
from rest_framework import exceptions
from rest_framework.request import Request
from rest_framework.views import APIView

from msh import memory, proxies, trace_hook
from msh.flows.receiving.answer import TAKEN, Answer
from msh.flows.receiving.dialects import Receiver, receiver_of
from msh.flows.receiving.incoming import Incoming
from msh.flows.receiving.link_status import status_for
from msh.protocol.errors import RefusedTooOften, Unreadable, UnreadableTermsError
from msh.store import plans
from msh.store.receiving.refusals import note_refused
from msh.web.headers import Utf8Request
from msh.wire import link_status, mime
from msh.wire.dialect import dialect_of
from msh.wire.mail import is_package
from partners.models import Partner

from . import fast_path
from .answers import answered, compose, later
from .authentication import NotAdmitted, PartnerAuthentication

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

logger = logging.getLogger(__name__)


class LengthRequired(exceptions.APIException):
    status_code = 411
    default_detail = "a request needs a Content-Length, or Transfer-Encoding: chunked"


class TooLarge(exceptions.APIException):
    status_code = 413

    def __init__(self) -> None:
        super().__init__(f"a request has at most {settings.MSH_MESSAGE_LIMIT} bytes")


class Endpoint(APIView):
    """`/ebxml/` and `/ebxml/<name>/`: the name only distinguishes our own addresses. The partner is
    looked up in the database here, because a cached one must not cause a refusal."""

    http_method_names = ["post"]
    authentication_classes = [PartnerAuthentication]
    permission_classes = []
    throttle_classes = []
    parser_classes = []
    renderer_classes = []

    incoming = Incoming("", b"")
    """The request as far as it was read."""
    partner: Partner | None = None
    """The partner that sent the request, as soon as there is no doubt."""

    def dispatch(self, request: HttpRequest, *args: object, **kwargs: object) -> HttpResponse:
        """Replaces REST framework's dispatch, without content negotiation and without parsers
        chosen by type, which no partner needs."""
        (method,) = self.http_method_names
        self.request = Request(request, authenticators=self.get_authenticators())
        try:
            self.initial(self.request)
            answer: HttpResponse = getattr(self, method)(self.request)
        except Exception as problem:  # noqa: BLE001  each has its answer
            answer = self.handle_exception(problem)
        # 405 must have it (RFC 9110 15.5.6); with other answers it does no harm.
        answer["Allow"] = method.upper()
        return answer

    def post(self, request: Request) -> HttpResponse:
        self.incoming = incoming = _incoming(request.META)
        memory.collect_after(len(incoming.body))
        receiver = receiver_of(incoming)
        sender: Partner | tuple[Partner, ...] = request.user  # type: ignore[assignment]
        if isinstance(sender, tuple):
            answer = _receive_from_network(receiver, sender, incoming)
        else:
            answer = _receive(receiver, sender, incoming)
        return answered(answer)

    def initial(self, request: Request, *args: object, **kwargs: object) -> None:
        """Check the method, then the partner, then the headers about the body."""
        if request.method != "POST":
            raise exceptions.MethodNotAllowed(str(request.method), "only POST is allowed")
        self._find_partner(request)
        environ = request.META
        encoding = environ.get("HTTP_CONTENT_ENCODING", "identity")
        if encoding.strip().lower() != "identity":
            raise exceptions.UnsupportedMediaType(
                encoding, f"Content-Encoding {encoding} is not supported: send the body unencoded"
            )
        length = environ.get("CONTENT_LENGTH") or ""
        if length.isdecimal() and int(length) > settings.MSH_MESSAGE_LIMIT:
            raise TooLarge
        if not length and not _is_chunked(environ):
            raise LengthRequired

    def _find_partner(self, request: Request) -> None:
        try:
            self.perform_authentication(request)
        except NotAdmitted as refused:
            self.partner = refused.partner
            raise
        sender: Partner | tuple[Partner, ...] = request.user  # type: ignore[assignment]
        candidates = sender if isinstance(sender, tuple) else (sender,)
        if len(candidates) == 1:
            (self.partner,) = candidates

    def handle_exception(self, exc: Exception) -> HttpResponse:  # type: ignore[override]
        match exc:
            case Unreadable():
                return self._refused(exc.status, str(exc), noted=exc.noted)
            case exceptions.APIException():
                return self._refused_by_framework(exc)
            case DatabaseError() | psycopg.Error():
                logger.warning("503 to a partner, the database does not answer: %s", exc)
                return later("temporarily unavailable, nothing was stored")
            case UnreadableTermsError():
                logger.error("503 to a partner", exc_info=exc)
                return later("the state of your link cannot be read, nothing was stored")
            case OSError():
                return self._refused(400, f"the body could not be read: {exc}")
        logger.error("500 to a partner", exc_info=exc)
        return self._refused(500, "internal error, nothing was stored")

    def _refused_by_framework(self, exc: exceptions.APIException) -> HttpResponse:
        headers = {}
        if isinstance(exc, exceptions.AuthenticationFailed):
            headers["WWW-Authenticate"] = self.get_authenticate_header(self.request) or ""
        if isinstance(exc, exceptions.UnsupportedMediaType):
            headers["Accept-Encoding"] = "identity"  # RFC 9110 15.5.16: what would be taken
        wait = getattr(exc, "wait", None)
        if wait is not None:
            headers["Retry-After"] = str(wait)
        return self._refused(exc.status_code, str(exc.detail), headers)

    def _refused(
        self,
        status: int,
        reason: str,
        headers: Mapping[str, str] | None = None,
        *,
        noted: bool = False,
    ) -> HttpResponse:
        """Compose the refusal in the dialect of the request, as far as the request was read."""
        if self.partner and not noted and status in _NOTED:
            _note_refused(self.partner, f"{status}: {reason}")
        dialect = dialect_of(self.request.META.get("CONTENT_TYPE", ""), self.incoming.body)
        return compose(status, reason, headers, dialect.refusal(status, reason))


class LinkStatusEndpoint(Endpoint):
    """`/ebxml/link-status`: a partner can ask here for the state of its numbers (D43)."""

    http_method_names = ["get"]

    def initial(self, request: Request, *args: object, **kwargs: object) -> None:
        self._find_partner(request)
        if isinstance(request.user, tuple):
            raise exceptions.AuthenticationFailed("unknown credentials")

    def get(self, request: Request) -> HttpResponse:
        asked = request.query_params.getlist("message_id")
        partner: Partner = request.user  # type: ignore[assignment]
        status = status_for(partner, asked)
        document = link_status.write(status)
        headers = {"Content-Length": str(len(document)), "Cache-Control": "no-store"}
        return HttpResponse(document, link_status.CONTENT_TYPE, headers=headers)


class EndpointApplication:
    """The WSGI application in front of Django's: it leads partners past everything that is there
    for browsers.

    No session, no CSRF token, and no check of the Host header: partners reach us by names that
    we do not know, and its refusal would have a body (000-058).
    """

    PATH = re.compile(r"/ebxml(/[^/]+)?/?")
    STATUS_PATH = re.compile(r"/ebxml(/[^/]+)?/link-status/?")

    def __init__(self, others: "WSGIApplication") -> None:
        self._others = others
        self._endpoint = Endpoint.as_view()
        self._link_status = LinkStatusEndpoint.as_view()

    def __call__(
        self, environ: "WSGIEnvironment", start_response: "StartResponse"
    ) -> Iterable[bytes]:
        proxies.resolve(environ)
        if trace_hook.recorder is not None:
            trace_hook.recorder.begin(environ)
        path = environ.get("PATH_INFO", "")
        if environ["REQUEST_METHOD"] == "GET" and self.STATUS_PATH.fullmatch(path):
            return self._answer(self._link_status, environ, start_response)
        if self.PATH.fullmatch(path):
            return self._answer_partner(environ, start_response)
        if path.startswith("/api/") and environ["REQUEST_METHOD"] == "POST":
            plans.plan_for_hot_path()
        elif environ["REQUEST_METHOD"] in ("GET", "HEAD"):
            plans.plan_to_read()
        else:
            plans.plan_freely()
        return self._others(environ, start_response)

    def _answer_partner(
        self, environ: "WSGIEnvironment", start_response: "StartResponse"
    ) -> Iterable[bytes]:
        plans.plan_for_hot_path()
        if trace_hook.recorder is not None:
            start_response = trace_hook.recorder.watch(start_response)
        answer = fast_path.take(environ)
        if answer is None:
            return self._answer(self._endpoint, environ, start_response)
        if answer != _TAKEN:
            response = answered(answer)
            response["Allow"] = "POST"
            return _send(response, start_response)
        # Django's handler does this after each request; this one does not pass through it.
        connection.close_if_unusable_or_obsolete()
        start_response("204 No Content", [("Allow", "POST")])
        return ()

    @staticmethod
    def _answer(
        view: Callable[[HttpRequest], HttpResponse],
        environ: "WSGIEnvironment",
        start_response: "StartResponse",
    ) -> Iterable[bytes]:
        plans.plan_for_hot_path()
        return _send(view(Utf8Request(environ)), start_response)


_TAKEN = Answer(TAKEN)
_NOTED = frozenset({400, 403, 411, 413, 415})
"""Statuses of refusals that are about the request, not about us."""


def _note_refused(partner: Partner, reason: str) -> None:
    try:
        note_refused(partner.pk, "RequestRefused", reason)
    except (DatabaseError, psycopg.Error) as error:
        logger.warning("a refused request of %s is not counted: %s", partner, error)


def _send(answer: HttpResponse, start_response: "StartResponse") -> Iterable[bytes]:
    connection.close_if_unusable_or_obsolete()
    start_response(f"{answer.status_code} {answer.reason_phrase}", list(answer.items()))
    return (answer.content,) if answer.content else ()


def _receive(receiver: Receiver, partner: Partner, incoming: Incoming) -> Answer:
    try:
        return receiver.receive(partner, incoming)
    except RefusedTooOften as refused:
        raise exceptions.Throttled(refused.wait, str(refused)) from None


def _receive_from_network(
    receiver: Receiver, partners: tuple[Partner, ...], incoming: Incoming
) -> Answer:
    if receiver.receive_from_network is None:
        raise exceptions.AuthenticationFailed("unknown credentials")
    try:
        return receiver.receive_from_network(partners, incoming)
    except RefusedTooOften as refused:
        raise exceptions.Throttled(refused.wait, str(refused)) from None


def _incoming(environ: "WSGIEnvironment") -> Incoming:
    """Return the request as the fast path has read it, or read it now."""
    found: Incoming | None = environ.get(fast_path.INCOMING)
    if found is not None:
        return found
    content_type = environ.get("CONTENT_TYPE", "")
    return Incoming(content_type, _decoded(environ, content_type, _body(environ)))


def _body(environ: "WSGIEnvironment") -> bytes:
    """Read the whole body, whatever its type. A body that is too large is refused without reading
    on."""
    stream = environ["wsgi.input"]
    if _is_chunked(environ):
        body: bytes = stream.read(settings.MSH_MESSAGE_LIMIT + 1)
        if len(body) > settings.MSH_MESSAGE_LIMIT:
            raise TooLarge
        return body
    announced = int(environ["CONTENT_LENGTH"])
    body = stream.read(announced)
    if len(body) < announced:
        raise Unreadable(f"the body has {len(body)} bytes, {announced} were announced")
    return body


def _decoded(environ: "WSGIEnvironment", content_type: str, body: bytes) -> bytes:
    """HTTP has no Content-Transfer-Encoding, but senders that grew out of mail put that of the
    entity into its head. A package has none of its own (RFC 2045 6.4), only its parts have."""
    encoding = environ.get("HTTP_CONTENT_TRANSFER_ENCODING")
    if encoding is None:
        return body
    try:
        decoded = mime.Part({"content-transfer-encoding": encoding}, body, 0, len(body)).content()
    except ValueError as error:
        raise Unreadable(f"Content-Transfer-Encoding of the request: {error}") from None
    if decoded != body and is_package(content_type):
        raise Unreadable(
            f"Content-Transfer-Encoding {encoding} of the request: a multipart has none but 7bit,"
            " 8bit or binary, its parts may"
        )
    return decoded


def _is_chunked(environ: "WSGIEnvironment") -> bool:
    return "chunked" in environ.get("HTTP_TRANSFER_ENCODING", "").lower()
