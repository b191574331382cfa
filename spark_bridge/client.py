"""The MSH as one task, or the driver, speaks to it."""

import socket
import ssl
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Any

from msh_client.connection import NOT_NOW, ApiRefused, ApiUnavailable, Connection
from msh_client.server import Server
from spark_bridge.options import OnClosed

__all__ = [
    "ApiRefused",
    "ApiUnavailable",
    "Client",
    "PartnerClosed",
    "require_reachable",
]

FIRST_PATIENCE = 15.0  # seconds, for the driver's one request; its last try may take as long again


class PartnerClosed(Exception):
    """An operator has closed a partner to applications, and option onClosed is fail."""


class Client(Connection):
    def server_time(self) -> datetime:
        """What the clock of the MSH says, to the second. Raises ApiRefused or ApiUnavailable."""
        answer = self.ask("GET", "messages", query={"limit": 1})
        try:
            return parsedate_to_datetime(answer.headers.get("Date", "")).astimezone(UTC)
        except ValueError:
            reason = f"{self.server.url} answered without a Date: does a proxy remove it?"
            raise ApiRefused(HTTPStatus.OK, reason) from None

    def submit(
        self,
        lines: Sequence[bytes],
        *,
        compress: bool = False,
        on_closed: OnClosed = "wait",
        stop: bool = False,
    ) -> list[dict[str, Any]]:
        """Hand over messages, one JSON object each; one answer for each, in their order.

        Those to a partner that is closed for now are sent again, until it is open: their order is
        kept, for the MSH accepts none of that partner meanwhile. With `on_closed` setAside their
        answers stay "not_now". `stop`: what comes behind a refused line of its partner is
        "not_sent". Raises ApiRefused, PartnerClosed, and ApiUnavailable also where a partner stays
        closed.
        """
        query = {"on_refusal": "stop"} if stop else {}
        if on_closed == "wait":
            return self.bulk_until_open(lines, compress=compress, **query)
        answers = self.bulk(lines, compress=compress, **query)
        closed = next((answer for answer in answers if answer["result"] == NOT_NOW), None)
        if closed and on_closed == "fail":
            raise PartnerClosed(f"{self.server.url}: {closed['reason']}")
        return answers


def require_reachable(server: Server, scope: str, *, must_answer: bool = True) -> None:
    """Ask the MSH once, on the driver, before the tasks do with all their patience. Raises
    ApiRefused or ApiUnavailable, within 30 seconds, with the cure: at once where the name does not
    exist, the certificate does not fit or the token has no such scope.

    Without `must_answer` an MSH that is away is none of its business, but these two are: for each
    micro-batch of a stream that writes.
    """
    quick = replace(
        server,
        request_timeout=min(server.request_timeout, FIRST_PATIENCE),
        retry_timeout=min(server.retry_timeout, FIRST_PATIENCE if must_answer else 0.0),
    )
    wrong: list[Exception] = []

    def is_final(error: Exception) -> bool:
        if _is_wrong(error):
            wrong.append(error)
        return bool(wrong)

    with Client(quick, is_final=is_final) as client:
        try:
            _require_scope(client.get("token"), scope)
        except ApiUnavailable as unavailable:
            if must_answer or wrong:
                trouble = str(unavailable).partition("; ")[0]
                raise ApiUnavailable(f"{trouble}. {_cure(wrong)}") from None


def _require_scope(token: Any, scope: str) -> None:
    if scope not in token["scopes"]:
        raise ApiRefused(
            HTTPStatus.FORBIDDEN,
            f"The token {token['name']} has no scope {scope}: `manage.py token` makes one.",
        )


def _is_wrong(error: Exception) -> bool:
    """Whether it will not pass by itself. A name server that does not answer may."""
    if isinstance(error, socket.gaierror):
        return error.errno != socket.EAI_AGAIN
    return isinstance(error, ssl.SSLCertVerificationError)


def _cure(wrong: list[Exception]) -> str:
    if wrong and isinstance(wrong[0], ssl.SSLError):
        return (
            "Give the certificate of its authority by option caFile, or in option url the name that"
            " is in its certificate."
        )
    return "Check option url: host, port, scheme and certificate. Does the MSH run?"
