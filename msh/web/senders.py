"""The sender of a request, for which limits are kept, and the largest body that it may send."""

import logging
from collections.abc import Mapping
from http.cookies import CookieError, SimpleCookie
from importlib import import_module
from typing import Any, NamedTuple

import psycopg
from django.conf import settings
from django.contrib.auth import SESSION_KEY
from django.db import Error as DatabaseError
from django.db import connection
from django.urls import Resolver404, resolve
from django.utils import timezone

from msh.allowance import guesses
from msh.api.framework.access import TokenAuthentication
from msh.api.framework.view import ApiView
from msh.protocol.reason import Refusal
from msh.proxies import CERTIFICATE
from msh.store.receiving import refusals
from msh.store.receiving.senders import (
    cached_sender,
    find_sender,
    find_senders_by_network,
    is_known,
)
from msh.wire.dialect import dialect_by_network

from .limits import CONSOLE_BODY_LIMIT, UNKNOWN_BODY_LIMIT

logger = logging.getLogger(__name__)

Environ = Mapping[str, Any]


class Sender(NamedTuple):
    """`known`: it has shown who it is, so that its limits are its own. `partner_id`, if there is no
    doubt which partner it is."""

    name: str
    known: bool = False
    partner_id: int | None = None


class Admission(NamedTuple):
    """The sender of a body, and how many bytes of it are taken."""

    sender: Sender
    limit: int


def is_partner(path: str) -> bool:
    return path.startswith("/ebxml/") or path == "/ebxml"


def is_api(path: str) -> bool:
    return path.startswith("/api/")


def of_partner(partner_id: int) -> Sender:
    return Sender(f"partner {partner_id}", known=True, partner_id=partner_id)


def address_of(environ: Environ) -> Sender:
    return Sender(f"address {environ['REMOTE_ADDR']}")


def cached(environ: Environ) -> Sender | None:
    """The sender, if this process has authenticated it before. No database access."""
    shown, certificate = _shown(environ)
    if not shown and not certificate:
        return None
    path = environ["PATH_INFO"]
    if is_partner(path):
        partner = cached_sender(shown, certificate)
        if partner is not None and partner.admits(environ["REMOTE_ADDR"]):
            return of_partner(partner.pk)
    elif is_api(path):
        token = TokenAuthentication.cached(shown)
        if token is not None:
            return Sender(f"token {token}", known=True)
    return None


def _shown(environ: Environ) -> tuple[str, str]:
    """The Authorization header, and the client certificate."""
    return environ.get("HTTP_AUTHORIZATION", ""), environ.get(CERTIFICATE, "")


def sender_of(environ: Environ) -> Sender:
    return cached(environ) or address_of(environ)


def admit(environ: Environ, announced: int) -> Admission | None:
    """The sender of a body and how much is taken, if that is known without the database."""
    path = environ["PATH_INFO"]
    sender = cached(environ)
    if sender is not None:
        return Admission(sender, body_limit(path))
    if not is_partner(path) and not is_api(path) and announced <= UNKNOWN_BODY_LIMIT:
        return Admission(address_of(environ), UNKNOWN_BODY_LIMIT)
    return None


def may_be_known(environ: Environ) -> bool:
    """Whether it is worth asking the database."""
    path = environ["PATH_INFO"]
    header = "HTTP_AUTHORIZATION" if is_partner(path) or is_api(path) else "HTTP_COOKIE"
    if environ.get(header):
        return True
    return is_partner(path) and (CERTIFICATE in environ or _by_network(environ))


def _is_known(path: str, shown: str, certificate: str) -> bool:
    if is_partner(path):
        return is_known(shown, certificate)
    return is_api(path) and TokenAuthentication.is_known(shown)


def _by_network(environ: Environ) -> bool:
    return dialect_by_network(environ.get("CONTENT_TYPE", "")) is not None


def find(environ: Environ) -> Admission | None:
    """Find the sender in the database. None if it is unknown. Raises the database's errors."""
    path = environ["PATH_INFO"]
    shown, certificate = _shown(environ)
    sender = None
    if guesses.wait(environ["REMOTE_ADDR"]) and not _is_known(path, shown, certificate):
        return None
    if is_partner(path) and not shown and not certificate:
        address = environ["REMOTE_ADDR"]
        partners = find_senders_by_network(address, environ.get("CONTENT_TYPE", ""))
        if partners:
            first = of_partner(partners[0].pk)
            sender = first if len(partners) == 1 else first._replace(partner_id=None)
    elif is_partner(path):
        partner = find_sender(shown, certificate)
        if partner is not None and partner.admits(environ["REMOTE_ADDR"]):
            sender = of_partner(partner.pk)
    elif is_api(path):
        token = TokenAuthentication.find(shown)
        if token is not None and not token.why_refused(environ["REMOTE_ADDR"], timezone.now()):
            sender = Sender(f"token {token.pk}", known=True)
    elif name := _user(environ.get("HTTP_COOKIE", "")):
        sender = Sender(name, known=True)
    return None if sender is None else Admission(sender, body_limit(path))


def find_if_possible(environ: Environ) -> Admission | None:
    """Like `find`; but None if the database fails. Then the application answers with the error."""
    try:
        return find(environ)
    except (DatabaseError, psycopg.Error) as error:
        logger.warning(
            "the sender of a request to %s cannot be identified: %s", environ["PATH_INFO"], error
        )
        return None


def note_refused(partner_id: int, refusal: Refusal, reason: str) -> None:
    """Record a refusal as the endpoint does, for a request that never reaches it. Runs in a
    thread."""
    try:
        refusals.note_refused(partner_id, "RequestRefused", refusal, reason)
    finally:
        connection.close_if_unusable_or_obsolete()


def body_limit(path: str) -> int:
    """Bytes that are taken at this address of somebody who is known."""
    if is_partner(path):
        return int(settings.MSH_MESSAGE_LIMIT)
    if not is_api(path):
        return CONSOLE_BODY_LIMIT
    try:
        view = getattr(resolve(path).func, "cls", None)
    except Resolver404:
        return 0
    return view().body_limit() if view and issubclass(view, ApiView) else 0


def _user(cookies: str) -> str | None:
    try:
        morsel = SimpleCookie(cookies).get(settings.SESSION_COOKIE_NAME)
    except CookieError:
        return None
    if morsel is None:
        return None
    sessions = import_module(settings.SESSION_ENGINE)
    user = sessions.SessionStore(morsel.value).get(SESSION_KEY)
    return None if user is None else f"user {user}"
