"""Requests of partners that the fast path leaves, and every refusal of one (000 §2.5.1, D35, D49).

The partner is known before a byte of the body is read. It is looked up in the database here,
because a cached one must not cause a refusal. The answer is its status and, as one line, the header
X-MSH-Error; the dialect decides whether it has a body too.
"""

import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeVar

import psycopg
from django.conf import settings
from django.db import Error as DatabaseError
from django.db import connection
from django.http import HttpResponse, QueryDict

from msh import memory, proxies
from msh.allowance import guesses
from msh.flows.receiving.dialects import receiver_of
from msh.flows.receiving.incoming import Answer, Incoming
from msh.flows.receiving.link_status import status_for
from msh.protocol.errors import RefusedTooOften, Unreadable, UnreadableTermsError
from msh.protocol.reason import Refusal
from msh.store.receiving.refusals import count_unanswered, note_refused
from msh.store.receiving.senders import find_sender, find_senders_by_network, is_known
from msh.wire import link_status, mime
from msh.wire.dialect import Entity, dialect_of
from msh.wire.mail import is_package
from partners.models import Partner

if TYPE_CHECKING:
    from wsgiref.types import WSGIEnvironment

T = TypeVar("T")
logger = logging.getLogger(__name__)

INCOMING = "msh.endpoint.incoming"
"""The key in the environment of a request that the fast path has read."""
RETRY_AFTER = 5  # seconds that a partner is asked to wait while the store is down
REASON_LIMIT = 200  # characters of X-MSH-Error


class NotTaken(Unreadable):
    """The request is refused with this status; `headers` go with the answer."""

    def __init__(
        self,
        status: int,
        refusal: Refusal,
        reason: str,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(reason, refusal)
        self.status, self.headers = status, headers


class Request:
    """A request, as far as it was read. `partner`: the one that sent it, as soon as there is no
    doubt."""

    def __init__(self, environ: "WSGIEnvironment") -> None:
        self.environ = environ
        self.incoming = Incoming("", b"")
        self.partner: Partner | None = None

    def find_sender(self) -> Partner | tuple[Partner, ...]:
        """The partner whose credential is shown, if it comes from its networks. Without
        Authorization and certificate those that are known by their network alone. Raises
        NotTaken."""
        shown = self.environ.get("HTTP_AUTHORIZATION", "")
        certificate = self.environ.get(proxies.CERTIFICATE, "")
        address = self.environ.get("REMOTE_ADDR", "")
        if (
            not shown
            and not certificate
            and (several := _senders_by_network(self.environ, address))
        ):
            if len(several) == 1:
                (self.partner,) = several
            return several
        self.partner = partner = _sender_by_credential(shown, certificate, address)
        if not partner.admits(address):
            reason = f"partner {partner} is not allowed from {address}"
            raise NotTaken(403, Refusal.NETWORK, reason)
        return partner

    def read(self) -> Incoming:
        """The request as the fast path has read it, or as it is read now."""
        found: Incoming | None = self.environ.get(INCOMING)
        if found is None:
            content_type = self.environ.get("CONTENT_TYPE", "")
            body = _decoded(self.environ, content_type, _body(self.environ))
            found = Incoming(content_type, body)
        self.incoming = found
        return found

    def refusal(self, problem: Exception) -> HttpResponse:
        match problem:
            case Unreadable(status=status, refusal=code):
                if self.partner and code is not Refusal.CREDENTIALS:  # which are another's
                    note_refused(self.partner.pk, "RequestRefused", code, f"{status}: {problem}")
                return self._refused(status, str(problem), getattr(problem, "headers", None))
            case RefusedTooOften():
                if self.partner:
                    count_unanswered(self.partner.pk)
                wait = {"Retry-After": str(problem.wait)}
                return self._refused(429, str(problem), wait)
            case DatabaseError() | psycopg.Error():
                logger.warning("503 to a partner, the database does not answer: %s", problem)
                return _later("temporarily unavailable, nothing was stored")
            case UnreadableTermsError():
                logger.error("503 to a partner", exc_info=problem)
                return _later("the state of your link cannot be read, nothing was stored")
            case OSError():
                broken = Unreadable(f"the body could not be read: {problem}", Refusal.INCOMPLETE)
                return self.refusal(broken)
        logger.error("500 to a partner", exc_info=problem)
        return self._refused(500, "internal error, nothing was stored")

    def _refused(
        self, status: int, reason: str, headers: Mapping[str, str] | None = None
    ) -> HttpResponse:
        """Compose the refusal in the dialect of the request, as far as the request was read."""
        dialect = dialect_of(self.environ.get("CONTENT_TYPE", ""), self.incoming.body)
        return compose(status, reason, headers, dialect.refusal(status, reason))


def take_post(environ: "WSGIEnvironment") -> HttpResponse:
    """`/ebxml/` and `/ebxml/<name>/`: the name only distinguishes our own addresses."""
    return _answer(_receive, environ, "POST")


def tell_link_status(environ: "WSGIEnvironment") -> HttpResponse:
    """`/ebxml/link-status`: a partner can ask here for the state of its numbers (D43)."""
    return _answer(_link_status, environ, "GET")


def _answer(
    act: Callable[[Request], HttpResponse], environ: "WSGIEnvironment", allowed: str
) -> HttpResponse:
    request = Request(environ)
    try:
        answer = act(request)
    except Exception as problem:  # noqa: BLE001  each has its answer
        answer = request.refusal(problem)
    # 405 must have it (RFC 9110 15.5.6); with other answers it does no harm.
    answer["Allow"] = allowed
    return answer


def _receive(request: Request) -> HttpResponse:
    """Check the method, then the partner, then the headers about the body; then read it."""
    environ = request.environ
    if environ["REQUEST_METHOD"] != "POST":
        raise NotTaken(405, Refusal.REQUEST, "only POST is allowed")
    sender = request.find_sender()
    encoding = environ.get("HTTP_CONTENT_ENCODING", "identity")
    if encoding.strip().lower() != "identity":
        reason = f"Content-Encoding {encoding} is not supported: send the body unencoded"
        # RFC 9110 15.5.16: what would be taken
        raise NotTaken(415, Refusal.REQUEST, reason, {"Accept-Encoding": "identity"})
    length = environ.get("CONTENT_LENGTH") or ""
    if length.isdecimal() and int(length) > settings.MSH_MESSAGE_LIMIT:
        raise _too_large()
    if not length and not _is_chunked(environ):
        reason = "a request needs a Content-Length, or Transfer-Encoding: chunked"
        raise NotTaken(411, Refusal.REQUEST, reason)
    incoming = request.read()
    memory.collect_after(len(incoming.body))
    receiver = receiver_of(incoming)
    if not isinstance(sender, tuple):
        return answered(receiver.receive(sender, incoming))
    if receiver.receive_from_network is None:
        raise _unknown()
    return answered(receiver.receive_from_network(sender, incoming))


def _link_status(request: Request) -> HttpResponse:
    partner = request.find_sender()
    if isinstance(partner, tuple):
        raise _unknown()
    query = QueryDict(request.environ.get("QUERY_STRING", "").encode("latin-1"))
    document = link_status.write(status_for(partner, query.getlist("message_id")))
    headers = {"Content-Length": str(len(document)), "Cache-Control": "no-store"}
    return HttpResponse(document, link_status.CONTENT_TYPE, headers=headers)


# --- who sends it ---------------------------------------------------------------------------------


def _senders_by_network(environ: "WSGIEnvironment", address: str) -> tuple[Partner, ...]:
    if guesses.wait(address):
        return ()
    content_type = environ.get("CONTENT_TYPE", "")
    return on_a_connection_that_works(lambda: find_senders_by_network(address, content_type))


def _sender_by_credential(shown: str, certificate: str, address: str) -> Partner:
    wait = guesses.wait(address)
    if wait and not on_a_connection_that_works(lambda: is_known(shown, certificate)):
        reason = f"too many failed authentications from {address}"
        raise NotTaken(429, Refusal.CREDENTIALS, reason, {"Retry-After": str(wait)})
    partner = on_a_connection_that_works(lambda: find_sender(shown, certificate))
    if partner is None:
        guesses.spend(address)
        raise _unknown(certificate)
    return partner


def _unknown(certificate: str = "") -> NotTaken:
    reason = "unknown credentials"
    if certificate:
        reason += f", with the client certificate of SHA-256 {certificate}"
    offered = 'Bearer realm="ebxml", Basic realm="ebxml"'
    challenge = {"WWW-Authenticate": offered}
    return NotTaken(401, Refusal.CREDENTIALS, reason, challenge)


def on_a_connection_that_works(act: Callable[[], T]) -> T:
    """The first statement of a request also serves as the health check of its connection.

    `act` is called a second time if the database was restarted since the last request, so it must
    be repeatable.
    """
    connection.health_check_done = True  # type: ignore[attr-defined]
    try:
        return act()
    except DatabaseError:
        if connection.is_usable():
            raise
        connection.close()
        return act()


# --- its body -------------------------------------------------------------------------------------


def _body(environ: "WSGIEnvironment") -> bytes:
    """Read the whole body, whatever its type. A body that is too large is refused without reading
    on."""
    stream = environ["wsgi.input"]
    if _is_chunked(environ):
        body: bytes = stream.read(settings.MSH_MESSAGE_LIMIT + 1)
        if len(body) > settings.MSH_MESSAGE_LIMIT:
            raise _too_large()
        return body
    announced = int(environ["CONTENT_LENGTH"])
    body = stream.read(announced)
    if len(body) < announced:
        reason = f"the body has {len(body)} bytes, {announced} were announced"
        raise Unreadable(reason, Refusal.INCOMPLETE)
    return body


def _too_large() -> Unreadable:
    reason = f"a request has at most {settings.MSH_MESSAGE_LIMIT} bytes"
    return Unreadable(reason, Refusal.TOO_LARGE)


def _decoded(environ: "WSGIEnvironment", content_type: str, body: bytes) -> bytes:
    """HTTP has no Content-Transfer-Encoding, but senders that grew out of mail put that of the
    entity into its head. A package has none of its own (RFC 2045 6.4), only its parts have."""
    encoding = environ.get("HTTP_CONTENT_TRANSFER_ENCODING")
    if encoding is None:
        return body
    try:
        decoded = mime.Part({"content-transfer-encoding": encoding}, body, 0, len(body)).content()
    except ValueError as error:
        reason = f"Content-Transfer-Encoding of the request: {error}"
        raise Unreadable(reason, Refusal.REQUEST) from None
    if decoded != body and is_package(content_type):
        raise Unreadable(
            f"Content-Transfer-Encoding {encoding} of the request: a multipart has none but 7bit,"
            " 8bit or binary, its parts may",
            Refusal.REQUEST,
        )
    return decoded


def _is_chunked(environ: "WSGIEnvironment") -> bool:
    return "chunked" in environ.get("HTTP_TRANSFER_ENCODING", "").lower()


# --- the answer -----------------------------------------------------------------------------------


def compose(
    status: int,
    reason: str = "",
    headers: Mapping[str, str] | None = None,
    entity: Entity | None = None,
) -> HttpResponse:
    """No body unless the dialect has one (000-058)."""
    answer = HttpResponse(status=status, headers=headers)
    if entity is not None:
        answer.content, answer["Content-Type"] = entity.body, entity.content_type
        for name, value in entity.headers:
            answer[name] = value
    else:
        del answer["Content-Type"]
    if status != 204:
        answer["Content-Length"] = str(len(answer.content))
    if reason:
        line = " ".join(reason.split())[:REASON_LIMIT]
        answer["X-MSH-Error"] = line.encode("ascii", "replace").decode()
    return answer


def answered(answer: Answer) -> HttpResponse:
    headers = None if answer.wait is None else {"Retry-After": str(answer.wait)}
    return compose(answer.status, answer.reason, headers, answer.entity)


def _later(reason: str) -> HttpResponse:
    return compose(503, reason, {"Retry-After": str(RETRY_AFTER)})
