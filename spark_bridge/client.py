"""The REST API of an MSH, as one task speaks to it: one connection, overload waited out."""

import gzip
import http.client
import json
import logging
import random
import socket
import ssl
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Protocol, Self
from urllib.parse import urlencode, urlsplit

from spark_bridge.options import Server

logger = logging.getLogger(__name__)

SHORTEST_WAIT = 0.25  # seconds
LONGEST_WAIT = 30.0  # seconds
NDJSON = "application/x-ndjson"
NOT_NOW = "not_now"  # the answer to a line that may be accepted later
FIRST_PATIENCE = 15.0  # seconds, for the driver's one request; its last try may take as long again
_WRONG = ssl.SSLCertVerificationError, socket.gaierror


class ApiRefused(Exception):
    """The MSH will not do this, however often it is asked. Its text says why."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(status, text)
        self.status = status

    def __str__(self) -> str:
        return str(self.args[1])


class ApiUnavailable(Exception):
    """The MSH was overloaded or not there for all of `retryTimeout`."""


class Clock(Protocol):
    """What is needed of the module `time`."""

    def monotonic(self) -> float: ...

    def sleep(self, seconds: float, /) -> None: ...


@dataclass(frozen=True, slots=True)
class _Answer:
    status: int
    retry_after: float
    body: bytes


class Client:
    """A `with` block over one keep-alive connection. Not for several threads."""

    def __init__(self, server: Server, clock: Clock = time) -> None:
        self._server = server
        self._clock = clock
        self._parts = urlsplit(server.url)
        self._connection: http.client.HTTPConnection | None = None
        self._date = ""
        self.lost_by: Exception | None = None
        """What the last request without an answer met."""
        self.repeated = 0
        """Requests that were sent again."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._hang_up()

    def get(self, path: str, **query: object) -> Any:
        """What the JSON at `path` says. Raises ApiRefused or ApiUnavailable."""
        body = self.get_bytes(path, **query)
        try:
            return json.loads(body)
        except ValueError:
            reason = f"{self._server.url} answered no JSON: is it the address of an MSH?"
            raise ApiRefused(http.HTTPStatus.OK, reason) from None

    def server_time(self) -> datetime:
        """What the clock of the MSH says, to the second. Raises ApiRefused or ApiUnavailable."""
        self.get_bytes("messages", limit=1)
        try:
            return parsedate_to_datetime(self._date).astimezone(UTC)
        except ValueError:
            reason = f"{self._server.url} answered without a Date: does a proxy remove it?"
            raise ApiRefused(http.HTTPStatus.OK, reason) from None

    def get_bytes(self, path: str, **query: object) -> bytes:
        """The body at `path`, in which an id has to be quoted, slashes too. Raises ApiRefused or
        ApiUnavailable."""
        given = {name: value for name, value in query.items() if value not in (None, "")}
        target = f"{path}?{urlencode(given)}" if given else path
        return self._ask("GET", target, b"", {}, _whole)

    def submit(self, lines: Sequence[bytes], *, compress: bool = False) -> list[dict[str, Any]]:
        """Hand over messages, one JSON object each; one answer for each, in their order.

        Those to a partner that is closed for now are sent again, until it is open: their order is
        kept, for the MSH accepts none of that partner meanwhile. Raises ApiRefused, and
        ApiUnavailable also where a partner stays closed.
        """
        answers = self._submit(lines, compress)
        patience = _Patience(self._server.retry_timeout, self._clock)
        while later := [n for n, answer in enumerate(answers) if answer["result"] == NOT_NOW]:
            self.repeated += 1
            patience.wait(0.0, f"{self._server.url}: {answers[later[0]]['reason']}")
            again = self._submit([lines[n] for n in later], compress)
            for n, answer in zip(later, again, strict=True):
                answers[n] = answer
        return answers

    def _submit(self, lines: Sequence[bytes], compress: bool) -> list[dict[str, Any]]:
        """One request. Nobody knows what became of one whose answer was cut, so it is sent again
        as it was: the MSH knows its messages by their ids.
        """
        body = b"\n".join(lines) + b"\n"
        headers = {"Content-Type": NDJSON}
        if compress:
            body, headers["Content-Encoding"] = gzip.compress(body, compresslevel=1), "gzip"
        answer = self._ask(
            "POST", "messages/bulk", body, headers, lambda text: text.count(b"\n") == len(lines)
        )
        return [json.loads(line) for line in answer.splitlines()]

    def _ask(
        self,
        method: str,
        target: str,
        body: bytes,
        headers: dict[str, str],
        complete: Callable[[bytes], bool],
    ) -> bytes:
        patience = _Patience(self._server.retry_timeout, self._clock)
        while True:
            try:
                answer = self._exchange(method, target, body, headers)
                if answer.status == 200 and complete(answer.body):
                    return answer.body
                trouble, wait = f"answered {answer.status}", answer.retry_after
            except (OSError, http.client.HTTPException) as error:
                answer, self.lost_by = None, error
                trouble, wait = f"was lost: {error or type(error).__name__}", 0.0
            if answer is not None and not _is_temporary(answer.status):
                raise ApiRefused(
                    answer.status, f"{self._server.url} {trouble}: {_reason(answer.body)}"
                )
            self._hang_up()
            self.repeated += 1
            patience.wait(wait, f"{self._server.url} {trouble}")

    def _exchange(self, method: str, target: str, body: bytes, headers: dict[str, str]) -> _Answer:
        connection = self._connect()
        address = f"{self._parts.path}/{target}"
        shown = {"Authorization": f"Bearer {self._server.token.reveal()}"}
        with suppress(BrokenPipeError, ConnectionResetError):
            connection.request(method, address, body or None, shown | headers)
        # Also where the MSH, or a proxy, hung up before it had read all: it may have said why.
        response = connection.getresponse()
        self._date = response.getheader("Date", "")
        return _Answer(
            response.status, _seconds(response.getheader("Retry-After")), response.read()
        )

    def _connect(self) -> http.client.HTTPConnection:
        if self._connection is None:
            secure = self._parts.scheme == "https"
            kind = http.client.HTTPSConnection if secure else http.client.HTTPConnection
            self._connection = kind(self._parts.netloc, timeout=self._server.request_timeout)
        return self._connection

    def _hang_up(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def require_reachable(server: Server, *, must_answer: bool = True) -> None:
    """Ask the MSH once, on the driver, before the tasks do with all their patience. Raises
    ApiRefused or ApiUnavailable, within 30 seconds, with the cure.

    Without `must_answer` an MSH that is away is none of its business, but a name that does not
    exist and a certificate that does not fit are: for each micro-batch of a stream that writes.
    """
    quick = replace(
        server,
        request_timeout=min(server.request_timeout, FIRST_PATIENCE),
        retry_timeout=min(server.retry_timeout, FIRST_PATIENCE if must_answer else 0.0),
    )
    with Client(quick) as client:
        try:
            client.get("messages", limit=1)
        except ApiRefused as refused:
            # The token may be one that only sends.
            if refused.status != http.HTTPStatus.FORBIDDEN:
                raise
        except ApiUnavailable as unavailable:
            if must_answer or isinstance(client.lost_by, _WRONG):
                trouble = str(unavailable).removesuffix(_NO_FURTHER_WAIT)
                raise ApiUnavailable(
                    f"{trouble}. Check option url: host, port, scheme and certificate. Does the MSH"
                    " run?"
                ) from None


_NO_FURTHER_WAIT = "; option retryTimeout allows no further wait."


class _Patience:
    """Waits twice as long each time, with jitter, up to `limit` seconds after the beginning."""

    def __init__(self, limit: float, clock: Clock) -> None:
        self._end = clock.monotonic() + limit
        self._clock = clock
        self._next = SHORTEST_WAIT

    def wait(self, at_least: float, trouble: str) -> None:
        """Raises ApiUnavailable when the wait would end after the limit."""
        # Never before the server's time, and not all tasks at the same moment.
        seconds = at_least + self._next * random.uniform(0.5, 1.0)
        if self._clock.monotonic() + seconds > self._end:
            raise ApiUnavailable(f"{trouble}{_NO_FURTHER_WAIT}")
        logger.warning("%s: waiting %.1f s", trouble, seconds)
        self._next = min(2 * self._next, LONGEST_WAIT)
        self._clock.sleep(seconds)


def _whole(_: bytes) -> bool:
    """Of an answer with a length, http.client knows by itself."""
    return True


def _is_temporary(status: int) -> bool:
    """200: an answer that was cut. 500: nobody knows what was kept, as after a lost connection."""
    return status in (200, 408, 429) or status >= 500


def _seconds(retry_after: str | None) -> float:
    """0 for a date or nonsense: our own wait is long enough."""
    return min(float(retry_after), 3600.0) if retry_after and retry_after.isdigit() else 0.0


def _reason(body: bytes) -> str:
    """The detail of a problem document, or the beginning of what came instead."""
    try:
        return str(json.loads(body)["detail"])
    except (ValueError, KeyError, TypeError):
        return body[:200].decode(errors="replace") or "without a word"
