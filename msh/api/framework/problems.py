"""Errors as problem documents (RFC 9457): what is wrong, in which field, and the cure."""

import logging
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from http import HTTPStatus
from typing import Any

import psycopg
from django.conf import settings
from django.core.exceptions import ObjectDoesNotExist, SuspiciousOperation
from django.db import IntegrityError, InterfaceError, InternalError, OperationalError
from django.http import Http404, HttpRequest, JsonResponse, UnreadablePostError
from django.views.decorators.csrf import csrf_exempt
from rest_framework import exceptions, serializers, status
from rest_framework.request import Request
from rest_framework.response import Response

from msh.flows.delivery.feed import FeedRemoved
from msh.flows.delivery.pull import SettleRefused
from msh.flows.errors import NotPossible, SecondPersonNeeded
from msh.flows.operations import guard
from msh.flows.operations.unchanged import Changed
from msh.flows.sending.prepare import SubmitRefused
from msh.flows.sending.submit import AgreementEnded, MessageIdReused, PartnerClosed
from msh.logs import request_id
from msh.protocol.reason import Refusal, refusal_of

from .rendering import JsonRenderer

logger = logging.getLogger(__name__)

RETRY_AFTER = 5  # seconds
TYPES = "/api/problems"
"""The page that `type` of a problem document leads to, with an anchor for each code."""
CLOSED_FOR = 60  # seconds after which an application may ask again whether a partner is open

TITLES = {
    400: "Bad request",
    401: "Authentication required",
    403: "Permission denied",
    404: "Not found",
    405: "Method not allowed",
    409: "Conflict with stored data",
    410: "Removed by retention",
    411: "Length required",
    412: "Changed since it was read",
    413: "Content too large",
    415: "Unsupported media type",
    422: "Rejected: do not retry without changes",
    429: "Too many requests: wait, then retry",
    500: "Internal server error",
    503: "Service unavailable: retry",
}


class ProblemRenderer(JsonRenderer):
    media_type = "application/problem+json"


class Problem(serializers.Serializer[Any]):
    """A problem document (RFC 9457). `field` names the field that is wrong, where it is one."""

    type = serializers.CharField(
        help_text="the address of a page that explains the `code`, relative to this MSH"
    )
    title = serializers.CharField()
    status = serializers.IntegerField()
    code = serializers.ChoiceField(list(Refusal), help_text="the reason, for programs")
    detail = serializers.CharField(help_text="what is wrong and how to fix it")
    field = serializers.CharField(required=False)
    request_id = serializers.CharField(
        required=False, help_text="that of the header X-Request-Id; the log of the MSH has it"
    )


class FeedProblem(Problem):
    first_position = serializers.IntegerField(
        allow_null=True, required=False, help_text="410: the first one left behind `removed`"
    )
    removed = serializers.IntegerField(
        required=False, help_text="410: the highest position that was removed"
    )


class Refused(exceptions.APIException):
    """A field of the request is wrong. `refusal`: the code, if the status does not say it."""

    status_code: int = status.HTTP_422_UNPROCESSABLE_ENTITY
    facts: Mapping[str, object] = {}
    """What else a program is told."""

    def __init__(self, field: str, detail: str, refusal: Refusal | None = None) -> None:
        super().__init__(detail)
        self.field = field
        self.refusal = refusal or refusal_of(self.status_code)


class Unreadable(Refused):
    status_code = status.HTTP_400_BAD_REQUEST

    def __init__(self, field: str, detail: str) -> None:
        super().__init__(field, detail, Refusal.INVALID if field else Refusal.DOCUMENT)


class TooLarge(Refused):
    status_code = status.HTTP_413_REQUEST_ENTITY_TOO_LARGE


class LengthRequired(exceptions.APIException):
    status_code = status.HTTP_411_LENGTH_REQUIRED
    default_detail = "Send the body with a Content-Length, not in chunks."


class UnsupportedEncoding(Refused):
    """The body has a Content-Encoding that is not one of `taken`."""

    status_code = status.HTTP_415_UNSUPPORTED_MEDIA_TYPE

    def __init__(self, encoding: str, taken: Sequence[str]) -> None:
        said = f"{encoding}: send {' or '.join(taken)}"
        super().__init__("Content-Encoding", said, Refusal.REQUEST)
        self.taken = taken


class Conflict(Refused):
    status_code = status.HTTP_409_CONFLICT


class Gone(Refused):
    """What was there was removed by retention."""

    status_code = status.HTTP_410_GONE

    def __init__(self, detail: str, **facts: object) -> None:
        super().__init__("", detail)
        self.facts = facts


class PreconditionFailed(Refused):
    status_code = status.HTTP_412_PRECONDITION_FAILED


class NotNow(exceptions.APIException):
    """The request may be repeated after `wait` seconds."""

    status_code = status.HTTP_503_SERVICE_UNAVAILABLE

    def __init__(
        self, detail: str, wait: int = RETRY_AFTER, refusal: Refusal = Refusal.BUSY
    ) -> None:
        super().__init__(detail)
        self.wait = wait
        self.refusal = refusal


def handler(error: Exception, context: Mapping[str, Request]) -> Response:
    """REST framework's exception handler: every answer that is not what was asked for."""
    if isinstance(error, SecondPersonNeeded):
        return Response(asdict(guard.ask(error)), status.HTTP_202_ACCEPTED)
    known = _as_api_exception(error)
    headers = {}
    if known.status_code == 401:
        headers["WWW-Authenticate"] = 'Bearer realm="api"'
    wait = getattr(known, "wait", None)
    if wait is not None:
        headers["Retry-After"] = str(math.ceil(wait))
    if isinstance(known, UnsupportedEncoding):
        headers["Accept-Encoding"] = ", ".join(known.taken)  # RFC 9110 15.5.16
    about = (getattr(known, "field", ""), getattr(known, "refusal", None))
    document = problem_document(known.status_code, _text(known.detail), *about)
    document |= getattr(known, "facts", {})
    request = context["request"]
    request.accepted_renderer = ProblemRenderer()
    request.accepted_media_type = ProblemRenderer.media_type
    answer = Response(document, known.status_code, headers=headers)
    answer.content_type = ProblemRenderer.media_type
    return answer


@csrf_exempt
def not_found(request: HttpRequest) -> JsonResponse:
    return outside_views(404, f"{request.path} is not a path of this API: see /api/docs")


def outside_views(status: int, detail: str) -> JsonResponse:
    """The problem document of a request that no view has seen."""
    document = problem_document(status, detail)
    answer = JsonResponse(document, status=status, content_type=ProblemRenderer.media_type)
    if status == HTTPStatus.SERVICE_UNAVAILABLE:
        answer.headers["Retry-After"] = str(RETRY_AFTER)
    return answer


_Translation = Callable[[Any], exceptions.APIException]


def _store_fails(error: Exception) -> exceptions.APIException:
    """Nobody knows what was kept: a connection may be lost at a commit, or after it."""
    if isinstance(error.__cause__, psycopg.errors.QueryCanceled):  # of a GET only
        seconds = f"{settings.MSH_READ_TIMEOUT:g}"
        return NotNow(f"This took longer than {seconds} seconds. Request less, or retry later.")
    logger.warning(
        "503 to an application, the database failed: %s: %s", type(error).__name__, error
    )
    return NotNow("The database is unavailable or busy. Retry the same request.")


# The first that fits counts. What fits none is internal server error.
_TRANSLATIONS: Sequence[tuple[tuple[type[Exception], ...], _Translation]] = (
    # Found by one statement, and gone at the next.
    ((ObjectDoesNotExist,), lambda _: exceptions.NotFound("It has just been removed.")),
    (
        (exceptions.ParseError, SuspiciousOperation, UnreadablePostError),
        lambda error: Unreadable("", f"The body does not match its Content-Type: {error}"),
    ),
    ((exceptions.APIException,), lambda error: error),
    ((MessageIdReused,), lambda error: Conflict(error.field, str(error), error.code)),
    ((Changed,), lambda error: PreconditionFailed("If-Match", str(error))),
    (
        (NotPossible, SettleRefused),
        lambda error: Conflict("", str(error), getattr(error, "code", None)),
    ),
    (
        (FeedRemoved,),
        lambda error: Gone(str(error), first_position=error.first_position, removed=error.removed),
    ),
    ((PartnerClosed,), lambda error: NotNow(str(error), CLOSED_FOR, error.code)),
    ((AgreementEnded,), lambda error: Refused(error.field, str(error), error.code)),
    ((SubmitRefused,), lambda error: Refused(error.field, str(error))),
    ((Http404,), lambda error: exceptions.NotFound(str(error))),
    (
        (
            *(OperationalError, InterfaceError, InternalError, IntegrityError),
            *(psycopg.OperationalError, OSError),
        ),
        _store_fails,
    ),
)


def _as_api_exception(error: Exception) -> exceptions.APIException:
    for kinds, translate in _TRANSLATIONS:
        if isinstance(error, kinds):
            return translate(error)
    logger.error("500 to an application", exc_info=error)
    return exceptions.APIException("Internal server error; see the log.")


def problem_document(
    status: int, detail: str, field: str = "", refusal: Refusal | None = None
) -> dict[str, object]:
    code = refusal or refusal_of(status)
    document: dict[str, object] = {
        "type": f"{TYPES}#{code}",
        "title": TITLES.get(status) or HTTPStatus(status).phrase,
        "status": status,
        "code": code,
        "detail": detail,
    }
    more = {"field": field, "request_id": request_id.get()}
    return document | {name: value for name, value in more.items() if value}


def _text(detail: object) -> str:
    if isinstance(detail, dict):
        return "; ".join(f"{field}: {_text(reason)}" for field, reason in detail.items())
    if isinstance(detail, list):
        return " ".join(map(_text, detail))
    return str(detail)
