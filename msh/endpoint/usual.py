"""What partners nearly always send, taken without a view: of a partner that is remembered, a body
whose length is announced."""

import io
from typing import TYPE_CHECKING

import psycopg
from django.conf import settings
from django.db import Error as DatabaseError

from msh import memory
from msh.flows.receiving.answer import Answer
from msh.flows.receiving.dialects import receiver_of
from msh.protocol.errors import UnreadableTermsError
from msh.store.receiving.senders import remembered_sender
from partners.models import Partner

from .authentication import on_a_connection_that_works

if TYPE_CHECKING:
    from wsgiref.types import WSGIEnvironment


_UNUSUAL = frozenset(
    {"HTTP_CONTENT_ENCODING", "HTTP_CONTENT_TRANSFER_ENCODING", "HTTP_TRANSFER_ENCODING"}
)


def take(environ: "WSGIEnvironment") -> Answer | None:
    """None, with nothing done, for all else, and for what goes wrong: then the view does it anew,
    and has the answer. Nothing is refused here."""
    partner = _partner(environ)
    body = None if partner is None else _body(environ)
    if partner is None or body is None:
        return None
    content_type = environ.get("CONTENT_TYPE", "")
    take_usual = receiver_of(content_type, body).receive_fast_path
    try:
        answer = on_a_connection_that_works(lambda: take_usual(partner, content_type, body))
    except (DatabaseError, psycopg.Error, UnreadableTermsError):
        return None
    if answer is not None:
        memory.collect_after(len(body))
    return answer


def _partner(environ: "WSGIEnvironment") -> Partner | None:
    if environ["REQUEST_METHOD"] != "POST" or not _UNUSUAL.isdisjoint(environ):
        return None
    partner = remembered_sender(environ.get("HTTP_AUTHORIZATION", ""))
    if partner is None or not partner.admits(environ.get("REMOTE_ADDR", "")):
        return None
    return partner


def _body(environ: "WSGIEnvironment") -> bytes | None:
    """The view may read it again."""
    length = environ.get("CONTENT_LENGTH", "")
    if not length.isdecimal() or int(length) > settings.MSH_MESSAGE_LIMIT:
        return None
    try:
        body: bytes = environ["wsgi.input"].read(int(length))
    except OSError:
        return None
    environ["wsgi.input"] = io.BytesIO(body)
    return body if len(body) == int(length) else None
