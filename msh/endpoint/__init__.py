"""The HTTP endpoint for partners: one POST, one answer. A cached partner and a body with a
Content-Length take the fast path; `view.py` has all other requests, and all refusals."""

import io
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

import psycopg
from django.conf import settings
from django.db import Error as DatabaseError
from django.db import connection
from django.http import HttpResponse

from msh import memory, proxies, trace_hook
from msh.flows.receiving.dialects import receiver_of
from msh.flows.receiving.incoming import TAKEN, Answer, Incoming
from msh.protocol.errors import RefusedTooOften, UnreadableTermsError
from msh.store import plans
from msh.store.receiving.senders import cached_sender

from . import view
from .view import INCOMING, answered, on_a_connection_that_works

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

_TAKEN = Answer(TAKEN)
_NEED_THE_VIEW = frozenset(
    {"HTTP_CONTENT_ENCODING", "HTTP_CONTENT_TRANSFER_ENCODING", "HTTP_TRANSFER_ENCODING"}
)


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

    def __call__(
        self, environ: "WSGIEnvironment", start_response: "StartResponse"
    ) -> Iterable[bytes]:
        proxies.resolve(environ)
        if trace_hook.recorder is not None:
            trace_hook.recorder.begin(environ)
        path = environ.get("PATH_INFO", "")
        if environ["REQUEST_METHOD"] == "GET" and self.STATUS_PATH.fullmatch(path):
            plans.plan_for_hot_path()
            return _send(view.tell_link_status(environ), start_response)
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
        answer = take_at_once(environ)
        if answer is None:
            return _send(view.take_post(environ), start_response)
        if answer != _TAKEN:
            response = answered(answer)
            response["Allow"] = "POST"
            return _send(response, start_response)
        # Django's handler does this after each request; this one does not pass through it.
        connection.close_if_unusable_or_obsolete()
        start_response("204 No Content", [("Allow", "POST")])
        return ()


def _send(answer: HttpResponse, start_response: "StartResponse") -> Iterable[bytes]:
    connection.close_if_unusable_or_obsolete()
    start_response(f"{answer.status_code} {answer.reason_phrase}", list(answer.items()))
    return (answer.content,) if answer.content else ()


def take_at_once(environ: "WSGIEnvironment") -> Answer | None:
    """Take a request of a cached partner. Returns None, with nothing done, for all other requests
    and after an error: then the view handles the request and gives the answer. Nothing is refused
    here."""
    if environ["REQUEST_METHOD"] != "POST" or not _NEED_THE_VIEW.isdisjoint(environ):
        return None
    shown, certificate = environ.get("HTTP_AUTHORIZATION", ""), environ.get(proxies.CERTIFICATE, "")
    partner = cached_sender(shown, certificate)
    if partner is None or not partner.admits(environ.get("REMOTE_ADDR", "")):
        return None
    body = _body(environ)
    if body is None:
        return None
    incoming = Incoming(environ.get("CONTENT_TYPE", ""), body)
    environ[INCOMING] = incoming
    receive = receiver_of(incoming).receive_fast_path
    try:
        answer = on_a_connection_that_works(lambda: receive(partner, incoming))
    except (DatabaseError, psycopg.Error, UnreadableTermsError, RefusedTooOften):
        return None
    if answer is not None:
        memory.collect_after(len(body))
    return answer


def _body(environ: "WSGIEnvironment") -> bytes | None:
    length = environ.get("CONTENT_LENGTH", "")
    if not length.isdecimal() or int(length) > settings.MSH_MESSAGE_LIMIT:
        return None
    try:
        body: bytes = environ["wsgi.input"].read(int(length))
    except OSError:
        return None
    # The view may have to read the body again.
    environ["wsgi.input"] = io.BytesIO(body)
    return body if len(body) == int(length) else None
