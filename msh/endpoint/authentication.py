"""Authentication of partners: by the Authorization header, then by the network of the sender."""

from collections.abc import Callable
from typing import TypeVar

from django.db import Error as DatabaseError
from django.db import connection
from rest_framework import exceptions
from rest_framework.authentication import BaseAuthentication
from rest_framework.request import Request

from msh.allowance import guesses
from msh.store.receiving.senders import (
    find_sender,
    find_senders_by_network,
    is_known,
)
from partners.models import Partner

T = TypeVar("T")


class NotAdmitted(exceptions.PermissionDenied):
    """The partner has shown its credential, but from an address outside its networks."""

    def __init__(self, partner: Partner, address: str) -> None:
        super().__init__(f"partner {partner} is not allowed from {address}")
        self.partner = partner


class PartnerAuthentication(BaseAuthentication):
    """Finds the partner by the Authorization header and checks its network. Without that header it
    gives a tuple: the partners that are known by their network alone."""

    def authenticate(self, request: Request) -> tuple[Partner | tuple[Partner, ...], None]:
        environ = request.META
        shown, address = environ.get("HTTP_AUTHORIZATION", ""), environ.get("REMOTE_ADDR", "")
        if not shown and (partners := self._by_network(address, environ.get("CONTENT_TYPE", ""))):
            return partners, None
        return self._found(shown, address), None

    @staticmethod
    def _by_network(address: str, content_type: str) -> tuple[Partner, ...]:
        if guesses.wait(address):
            return ()
        return on_a_connection_that_works(lambda: find_senders_by_network(address, content_type))

    @staticmethod
    def _found(shown: str, address: str) -> Partner:
        wait = guesses.wait(address)
        if wait and not on_a_connection_that_works(lambda: is_known(shown)):
            raise exceptions.Throttled(wait, f"too many failed authentications from {address}")
        partner = on_a_connection_that_works(lambda: find_sender(shown))
        if partner is None:
            guesses.spend(address)
            raise exceptions.AuthenticationFailed("unknown credentials")
        if not partner.admits(address):
            raise NotAdmitted(partner, address)
        return partner

    def authenticate_header(self, request: Request) -> str:
        return 'Bearer realm="ebxml", Basic realm="ebxml"'


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
