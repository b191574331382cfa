"""Fast path of the endpoint: a cached partner, a body with a Content-Length."""

import io
from typing import TYPE_CHECKING

import psycopg
from django.conf import settings
from django.db import Error as DatabaseError

from msh import memory
from msh.flows.receiving.answer import Answer
from msh.flows.receiving.dialects import receiver_of
from msh.flows.receiving.incoming import Incoming
from msh.protocol.errors import RefusedTooOften, UnreadableTermsError
from msh.store.receiving.senders import cached_sender
from partners.models import Partner

from .authentication import on_a_connection_that_works

if TYPE_CHECKING:
    from wsgiref.types import WSGIEnvironment


INCOMING = "msh.endpoint.incoming"
"""The key in the environment under which the request that was read here is passed on."""
_NEED_THE_VIEW = frozenset(
    {"HTTP_CONTENT_ENCODING", "HTTP_CONTENT_TRANSFER_ENCODING", "HTTP_TRANSFER_ENCODING"}
)


def take(environ: "WSGIEnvironment") -> Answer | None:
    """Take a request of a known partner. Returns None, with nothing done, for all other requests
    and after an error: then the view handles the request and gives the answer. Nothing is refused
    here."""
    partner = _partner(environ)
    body = None if partner is None else _body(environ)
    if partner is None or body is None:
        return None
    incoming = Incoming(environ.get("CONTENT_TYPE", ""), body)
    environ[INCOMING] = incoming
    take_at_once = receiver_of(incoming).receive_fast_path
    try:
        answer = on_a_connection_that_works(lambda: take_at_once(partner, incoming))
    except (DatabaseError, psycopg.Error, UnreadableTermsError, RefusedTooOften):
        return None
    if answer is not None:
        memory.collect_after(len(body))
    return answer


def _partner(environ: "WSGIEnvironment") -> Partner | None:
    if environ["REQUEST_METHOD"] != "POST" or not _NEED_THE_VIEW.isdisjoint(environ):
        return None
    partner = cached_sender(environ.get("HTTP_AUTHORIZATION", ""))
    if partner is None or not partner.admits(environ.get("REMOTE_ADDR", "")):
        return None
    return partner


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
