"""The REST API of an MSH over one connection: overload waited out, lost requests sent again."""

import gzip
import http.client
import json
import logging
import random
import ssl
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from email.message import Message
from typing import Any, Protocol, Self
from urllib.parse import urlencode, urlsplit

from msh_client.server import Server, tls_context

logger = logging.getLogger(__name__)

SHORTEST_WAIT = 0.25  # seconds
LONGEST_WAIT = 30.0  # seconds
NDJSON = "application/x-ndjson"
NOT_NOW = "not_now"  # the answer to a line that may be accepted later
RETRIED = frozenset({"busy", "closed", "incomplete", "internal"})
"""Codes of problem documents after which the same request may be accepted."""


class ApiRefused(Exception):
    """The MSH will not do this, however often it is asked. Its text says why; `code` is that of
    the problem document, empty if there was none."""

    def __init__(self, status: int, text: str, code: str = "") -> None:
        super().__init__(status, text, code)
        self.status = status
        self.code = code

    def __str__(self) -> str:
        return str(self.args[1])


class ApiUnavailable(Exception):
    """The MSH was overloaded or not there for as long as the client may wait."""


class Clock(Protocol):
    """What is needed of the module `time`."""

    def monotonic(self) -> float: ...

    def sleep(self, seconds: float, /) -> None: ...


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    headers: Message
    """By names in any case."""
    body: bytes


class Connection:
    """A `with` block over one keep-alive connection. Not for several threads."""

    def __init__(
        self,
        server: Server,
        clock: Clock = time,
        *,
        is_final: Callable[[Exception], bool] = lambda _: False,
    ) -> None:
        """`is_final`: whether what a request met instead of an answer will not pass by itself."""
        self.server = server
        self.clock = clock
        self._is_final = is_final
        self._parts = urlsplit(server.url)
        self._connection: http.client.HTTPConnection | None = None
        self._tls: ssl.SSLContext | None = None
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
            reason = f"{self.server.url} answered no JSON: is it the address of an MSH?"
            raise ApiRefused(http.HTTPStatus.OK, reason) from None

    def get_bytes(self, path: str, **query: object) -> bytes:
        """The body at `path`, in which an id has to be quoted, slashes too. Raises ApiRefused or
        ApiUnavailable."""
        return self.ask("GET", path, query=query).body

    def bulk(
        self, lines: Sequence[bytes], *, compress: bool = False, **query: object
    ) -> list[dict[str, Any]]:
        """Hand over messages, one JSON object each; one answer for each, in their order.

        Nobody knows what became of a request whose answer was cut, so it is sent again as it was:
        the MSH knows its messages by their ids. Raises ApiRefused or ApiUnavailable.
        """
        body = b"\n".join(lines) + b"\n"
        headers = {"Content-Type": NDJSON}
        if compress:
            body, headers["Content-Encoding"] = gzip.compress(body, compresslevel=1), "gzip"
        answer = self.ask(
            "POST",
            "messages/bulk",
            body,
            headers,
            query=query,
            complete=lambda text: text.count(b"\n") == len(lines),
        )
        return [json.loads(line) for line in answer.body.splitlines()]

    def bulk_until_open(
        self, lines: Sequence[bytes], *, compress: bool = False, **query: object
    ) -> list[dict[str, Any]]:
        """As `bulk`; lines to a partner that is closed for now are sent again, until it is open.
        Their order is kept, for the MSH accepts none of that partner meanwhile. Raises
        ApiUnavailable also where a partner stays closed."""
        answers = self.bulk(lines, compress=compress, **query)
        patience = Patience(self.server.retry_timeout, self.clock)
        while later := [n for n, answer in enumerate(answers) if answer["result"] == NOT_NOW]:
            self.repeated += 1
            patience.wait(0.0, f"{self.server.url}: {answers[later[0]]['reason']}")
            again = self.bulk([lines[n] for n in later], compress=compress, **query)
            for n, answer in zip(later, again, strict=True):
                answers[n] = answer
        return answers

    def ask(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        headers: Mapping[str, str] | None = None,
        *,
        query: Mapping[str, object] | None = None,
        complete: Callable[[bytes], bool] = lambda _: True,  # with a length, http.client knows
    ) -> Answer:
        """The answer with a status below 300. Parameters that are None or empty are left out; a
        list is a parameter for each element. Raises ApiRefused or ApiUnavailable."""
        target = _target(path, query or {})
        patience = Patience(self.server.retry_timeout, self.clock)
        renewed = False
        while True:
            try:
                answer = self._exchange(method, target, body, headers or {})
            except (OSError, http.client.HTTPException) as error:
                trouble, wait = f"was lost: {error or type(error).__name__}", 0.0
                if self._is_final(error):
                    raise ApiUnavailable(f"{self.server.url} {trouble}") from None
            else:
                if answer.status < 300 and complete(answer.body):
                    return answer
                trouble = f"answered {answer.status}"
                wait = _seconds(answer.headers.get("Retry-After"))
                if answer.status == http.HTTPStatus.UNAUTHORIZED and not renewed:
                    renewed = True
                    if self.server.token.renew():
                        self._hang_up()
                        continue
                reason, code = _reason(answer.body)
                if not _is_temporary(answer.status, code):
                    text = f"{self.server.url} {trouble}: {reason}"
                    raise ApiRefused(answer.status, text, code)
            self._hang_up()
            self.repeated += 1
            patience.wait(wait, f"{self.server.url} {trouble}")

    def _exchange(
        self, method: str, target: str, body: bytes, headers: Mapping[str, str]
    ) -> Answer:
        connection = self._connect()
        address = f"{self._parts.path}/{target}"
        shown = {
            "Authorization": f"Bearer {self.server.token.reveal()}",
            "User-Agent": self.server.user_agent,
        }
        with suppress(BrokenPipeError, ConnectionResetError):
            connection.request(method, address, body or None, shown | dict(headers))
        # Also where the MSH, or a proxy, hung up before it had read all: it may have said why.
        response = connection.getresponse()
        return Answer(response.status, response.headers, response.read())

    def _connect(self) -> http.client.HTTPConnection:
        if self._connection is None:
            place, seconds = self._parts.netloc, self.server.request_timeout
            if self._parts.scheme == "https":
                self._tls = self._tls or tls_context(self.server)
                self._connection = http.client.HTTPSConnection(
                    place, timeout=seconds, context=self._tls
                )
            else:
                self._connection = http.client.HTTPConnection(place, timeout=seconds)
        return self._connection

    def _hang_up(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


class Patience:
    """Waits twice as long each time, with jitter, up to `limit` seconds after the beginning."""

    def __init__(self, limit: float, clock: Clock) -> None:
        self._end = clock.monotonic() + limit
        self._clock = clock
        self._next = SHORTEST_WAIT

    def wait(self, at_least: float, trouble: str) -> None:
        """Raises ApiUnavailable when the wait would end after the limit."""
        # Never before the server's time, and not all clients at the same moment.
        seconds = at_least + self._next * random.uniform(0.5, 1.0)
        if self._clock.monotonic() + seconds > self._end:
            raise ApiUnavailable(f"{trouble}; retryTimeout allows no further wait.")
        logger.warning("%s: waiting %.1f s", trouble, seconds)
        self._next = min(2 * self._next, LONGEST_WAIT)
        self._clock.sleep(seconds)


def _target(path: str, query: Mapping[str, object]) -> str:
    given = {name: value for name, value in query.items() if value not in (None, "")}
    return f"{path}?{urlencode(given, doseq=True)}" if given else path


def _is_temporary(status: int, code: str) -> bool:
    """200: an answer that was cut. 500: nobody knows what was kept, as after a lost connection.
    The code decides, if there is one: a proxy gives none."""
    return code in RETRIED if code else status in (200, 408, 429) or status >= 500


def _seconds(retry_after: str | None) -> float:
    """0 for a date or nonsense: our own wait is long enough."""
    return min(float(retry_after), 3600.0) if retry_after and retry_after.isdigit() else 0.0


def _reason(body: bytes) -> tuple[str, str]:
    """The detail and the code of a problem document, or the beginning of what came instead."""
    try:
        problem = json.loads(body)
        return str(problem["detail"]), str(problem.get("code", ""))
    except (ValueError, KeyError, TypeError, AttributeError):
        return body[:200].decode(errors="replace") or "without a word", ""
