"""HTTP and HTTPS: one POST, one answer.

No redirect is followed, no cookie or environment is looked at, and no proxy used but that of the
partner. Of the answer's body nothing is kept but the first words of a refusal, unless the job asks
for it. A request that may have been written is never written a second time: a copy earlier than the
wait would break 000-021 and 000-024. TLS certificates are verified, those of partners as
`msh.transport.tls` says.
"""

import asyncio
import html
import re
import select
import socket
import ssl
import time
from dataclasses import replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from enum import Enum
from http import HTTPStatus
from itertools import takewhile
from typing import Any, NamedTuple, NoReturn
from urllib.parse import unquote, urlsplit

import aiohttp
from aiohttp.abc import AbstractStreamWriter, ResolveResult

from msh.faults import reach
from msh.protocol.attempt import (
    DETAIL_LIMIT,
    AttemptOutcome,
    AttemptResult,
    not_read,
    outcome_of,
    shortened,
)
from msh.protocol.reason import Reason, of_refusal, of_words
from msh.protocol.uri import is_link_local
from msh.transport.coding import UnreadableCoding, decoded
from msh.transport.failures import why
from msh.transport.handshake import why_no_tls
from msh.transport.job import Job
from msh.transport.tls import client_context

IDLE_LIMIT = 1.5
"""Seconds an idle connection is kept. Servers close theirs after 2 s and more; a POST that meets
the close costs the message a whole RetryInterval."""

LOOK_LIMIT = 5.0  # seconds for a second look at a handshake that failed
ANSWER_LIMIT = 64 * 1024  # bytes of an answer's body we read to keep its connection
ANSWER_TYPE_LIMIT = 1000  # characters of an answer's Content-Type
WORDS_READ = 8 * 1024  # bytes at the start of a refusal that its words are taken from
WORDS_LIMIT = 400  # characters
LOCATION_LIMIT = 200  # characters
LONGEST_WAIT = 1e9  # seconds that a Retry-After may ask for: more digits are no other number
EXTERNAL_ID_LIMIT = 1000  # characters
EXTERNAL_ID = "X-MSH-External-Id"
"""Header of a consumer's answer: what its system calls the message (004's id map)."""
CHUNK = 64 * 1024  # bytes given to the socket at a time


class _Unwritten(Enum):
    """Why not a byte of the request was written."""

    STALE = "the peer had closed the pooled connection"
    LATE = "the job's not_after has passed"


class Connector(aiohttp.TCPConnector):
    """Connects to no link-local address, whatever name led there: what is posted, and what comes
    back, is shown to whoever has set the address."""

    def __init__(self, **options: Any) -> None:
        super().__init__(socket_factory=_socket_to, **options)


def _socket_to(address: aiohttp.AddrInfoType) -> socket.socket:
    """If it raises an error, the other addresses of the host are tried."""
    family, kind, protocol, _, (host, *_) = address
    if is_link_local(str(host)):
        raise OSError(f"{host} is a link-local address")
    return socket.socket(family, kind, protocol)


class _Resolver(aiohttp.ThreadedResolver):
    """The resolver of all connections. A name server that does not answer blocks one thread for
    each host."""

    def __init__(self) -> None:
        super().__init__()
        self._asked: dict[object, asyncio.Task[list[ResolveResult]]] = {}

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        key = host, port, family
        if key not in self._asked:
            task = asyncio.create_task(super().resolve(host, port, family))
            self._asked[key] = task
            task.add_done_callback(lambda _: self._asked.pop(key))
        return await asyncio.shield(self._asked[key])


class _Place(NamedTuple):
    """What a connection leads to. `tls`: whom it trusts, and what was shown."""

    url: str  # scheme, host and port
    tls: ssl.SSLContext | bool = True
    proxy: str = ""


class _Connection(Connector):
    """One connection, and what is known of it. aiohttp takes the connections of a connector in
    turn; here each has a connector and a session of its own, and `HttpTransport` chooses."""

    def __init__(self, resolver: _Resolver, place: _Place) -> None:
        super().__init__(limit=0, keepalive_timeout=IDLE_LIMIT, resolver=resolver)
        self.session = aiohttp.ClientSession(
            connector=self,
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={"User-Agent": "MSH", "Accept-Encoding": "identity"},
            skip_auto_headers=("Accept",),
            auto_decompress=False,
            timeout=aiohttp.ClientTimeout(total=None),
        )
        self.transport: asyncio.Transport | None = None
        self.has_carried = False  # a POST before this one
        self.place = place
        self.partner_id = 0
        self.free_since = 0.0

    async def connect(self, *request: Any, **options: Any) -> Any:
        """aiohttp calls it for each request, and composes its head then."""
        made = await super().connect(*request, **options)
        self.has_carried = self.transport is not None and self.transport is made.transport
        self.transport = made.transport
        return made


class HttpTransport:
    """Connections of one event loop. Make it and use it inside that loop."""

    def __init__(self) -> None:
        self._resolver = _Resolver()
        self._connections: list[_Connection] = []
        self._free: list[_Connection] = []  # the one that was used last at the end

    async def post(self, job: Job) -> AttemptResult | None:
        if job.is_late(time.monotonic()):
            return None
        try:
            place = _place_of(job)
            if place.proxy and is_link_local(host := urlsplit(job.url).hostname or ""):
                return _failed(Reason.CONNECTION, f"{host} is a link-local address")
        except ValueError as error:
            return _failed(*why(error))
        connection = self._take(job, place)
        try:
            return await self._post(connection, job)
        finally:
            connection.free_since = time.monotonic()
            self._free.append(connection)

    async def _post(self, connection: _Connection, job: Job) -> AttemptResult | None:
        body = _Body(job, connection)
        began_at = time.monotonic()
        expires = asyncio.get_running_loop().time() + job.deadline
        try:
            async with asyncio.timeout_at(expires):
                response = await self._post_fresh(job, body)
        except aiohttp.ConnectionTimeoutError:
            limit = _time_to_connect(job, began_at)
            return _failed(Reason.TIMEOUT, f"no connection within {limit:.1g} s", body)
        except TimeoutError:
            detail = f"no answer within {job.deadline:g} s{body.unsent}"
            return _failed(Reason.TIMEOUT, detail, body)
        except (aiohttp.ClientError, OSError, ValueError) as error:
            if body.unwritten is _Unwritten.LATE:
                return None
            reason, words = why(error)
            if found := await _why_no_tls(job, connection, reason, expires):
                reason, words = Reason.TLS, found
            return _failed(reason, words, body)
        start, size, is_whole = await _finish(response, expires, job.answer_limit)
        result = _result(response, _words(response, start))
        if job.answer_limit and start:
            limit = job.answer_limit
            result = _with_answer(result, response, start, size, limit, is_whole=is_whole)
        return result

    def _take(self, job: Job, place: _Place) -> _Connection:
        """The one that carried the last POST to the same partner, so that one process of the other
        side serves a pair; else the one that was used last for the same address."""
        expired = time.monotonic() - IDLE_LIMIT
        alive = takewhile(lambda one: one.free_since > expired, reversed(self._free))
        known = [one for one in alive if one.place == place]
        if known:
            own = (one for one in known if one.partner_id == job.partner_id)
            connection = next(own, known[0])
            self._free.remove(connection)
        elif self._free and self._free[0].free_since <= expired:
            connection = self._free.pop(0)  # closed by now, and opened anew
        else:
            connection = _Connection(self._resolver, place)
            self._connections.append(connection)
        connection.place, connection.partner_id = place, job.partner_id
        return connection

    async def close(self) -> None:
        await asyncio.gather(*(one.session.close() for one in self._connections))

    async def _post_fresh(self, job: Job, body: "_Body") -> aiohttp.ClientResponse:
        while True:
            body.unwritten = None
            try:
                return await self._post_once(job, body)
            except aiohttp.ClientError:
                if body.unwritten is not _Unwritten.STALE:
                    raise

    async def _post_once(self, job: Job, body: "_Body") -> aiohttp.ClientResponse:
        headers = dict(job.headers)
        if job.content_type:
            headers["Content-Type"] = job.content_type
        if job.authorization:
            headers["Authorization"] = job.authorization
        timeout = aiohttp.ClientTimeout(connect=_time_to_connect(job, time.monotonic()))
        place = body.connection.place
        more, options = proxied(place.url, place.proxy)
        return await body.connection.session.post(
            job.url,
            data=body,
            headers=headers | more,
            allow_redirects=False,
            timeout=timeout,
            ssl=place.tls,
            **options,
        )


async def _why_no_tls(job: Job, connection: _Connection, reason: Reason, expires: float) -> str:
    """Look once more, and send nothing: the words of a failed handshake name no certificate, and
    a server that refuses ours may just cut a connection on which it has received more."""
    may_be = reason is Reason.TLS or (reason is Reason.CUT and not connection.has_carried)
    loop = asyncio.get_running_loop()
    left = min(LOOK_LIMIT, expires - loop.time())
    if job.access is None or connection.place.tls is True or not may_be or left <= 0:
        return ""
    return await loop.run_in_executor(None, why_no_tls, job.url, job.access, left)


def _place_of(job: Job) -> _Place:
    """Raises TlsUnusable."""
    url = "/".join(job.url.split("/", 3)[:3])
    access = job.access
    if access is None:
        return _Place(url)
    is_tls = url.lower().startswith("https:")
    tls = client_context(access.authorities, access.certificate) if is_tls else True
    return _Place(url, tls, access.proxy)


def proxied(url: str, proxy: str) -> tuple[dict[str, str], dict[str, Any]]:
    """Headers of a request, and what else aiohttp is told, for one that goes through this proxy.
    User and password apart from its address, which errors show."""
    if not proxy:
        return {}, {}
    parts = urlsplit(proxy)
    options: dict[str, Any] = {"proxy": f"http://{parts.netloc.rpartition('@')[2]}"}
    if parts.username is None:
        return {}, options
    login = (unquote(parts.username), unquote(parts.password or ""))
    shown = {"Proxy-Authorization": aiohttp.encode_basic_auth(*login)}
    if url.lower().startswith("https:"):  # the proxy sees nothing of the request itself
        return {}, options | {"proxy_headers": shown}
    return shown, options


def _time_to_connect(job: Job, now: float) -> float:
    """Seconds. A connection that comes later is of no use: nothing is written after `not_after`."""
    return max(0.001, min(job.not_after - now, job.deadline))


class _Body(aiohttp.Payload):
    """The stored bytes, and what is known of their way out."""

    def __init__(self, job: Job, connection: _Connection) -> None:
        super().__init__(job.body)
        self._job = job
        self.connection = connection
        self.begun = False
        self._sent = len(job.body)
        self.unwritten: _Unwritten | None = None

    @property
    def size(self) -> int:
        return len(self._job.body)

    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        return self._job.body.decode(encoding, errors)

    async def write(self, writer: AbstractStreamWriter) -> None:
        """aiohttp calls this with the head composed and not yet written."""
        self._check()
        before, after = self._job.crash_points
        reach(before)
        self.begun, self._sent = True, 0
        view = memoryview(self._job.body)
        for start in range(0, len(view), CHUNK):
            await writer.write(view[start : start + CHUNK])
            self._sent = min(start + CHUNK, len(view))
        reach(after)

    @property
    def unsent(self) -> str:
        """The words about a body that was not sent completely: the peer may be reading too slowly
        for the deadline. The bytes counted have left us, apart from those in the connection's
        buffer."""
        whole = len(self._job.body)
        return f": {self._sent} of {whole} bytes had been sent" if self._sent < whole else ""

    def _check(self) -> None:
        connection = self.connection
        if connection.has_carried:
            if _hung_up(connection.transport):
                self._refuse(_Unwritten.STALE)
        elif connection.transport is None or connection.transport.is_closing():
            raise aiohttp.ClientConnectionResetError("closed by the peer as soon as it was open")
        if self._job.is_late(time.monotonic()):
            self._refuse(_Unwritten.LATE)
        self._job.note_begin()

    def _refuse(self, why: _Unwritten) -> NoReturn:
        self.unwritten = why  # aiohttp wraps the error, so the reason is kept here
        raise aiohttp.ClientConnectionError(why.value)


def _hung_up(transport: asyncio.Transport | None) -> bool:
    """Whether the idle peer has closed, or spoken out of turn, without our having noticed."""
    if transport is None or transport.is_closing():
        return True
    poll = select.poll()
    poll.register(transport.get_extra_info("socket").fileno(), select.POLLIN)
    return bool(poll.poll(0))


def _failed(reason: Reason, detail: str, body: _Body | None = None) -> AttemptResult:
    """`body`: None if no connection was tried."""
    return AttemptResult(
        AttemptOutcome.FAILED,
        detail=one_line(detail, DETAIL_LIMIT),
        body_sent=body is not None and body.begun,
        reason=reason,
    )


def _result(response: aiohttp.ClientResponse, words: str) -> AttemptResult:
    detail = f"{response.status} {response.reason or ''}".strip()
    refusal = response.headers.get("X-MSH-Error", "")
    said = refusal or words
    wait = retry_after(response.headers.get("Retry-After", ""), response.headers.get("Date", ""))
    detail += "" if wait is None else f" (Retry-After: {wait:.0f} s)"
    detail += _moved_to(response)
    if said == response.reason:
        said = ""
    line = one_line(detail, DETAIL_LIMIT)
    return AttemptResult(
        outcome_of(response.status),
        status=response.status,
        status_line=line,
        detail=one_line(f"{line}: {said}", DETAIL_LIMIT) if said else line,
        retry_after=wait,
        external_id=header_text(response.headers.get(EXTERNAL_ID, ""), EXTERNAL_ID_LIMIT),
        reason=_reason(response, refusal, said),
    )


def _reason(response: aiohttp.ClientResponse, refusal: str, said: str) -> Reason:
    """Return the reason that the answer gives beyond its status; NONE if it gives none. `refusal`:
    the text of X-MSH-Error; `said`: that text, or the beginning of the body."""
    if response.status == HTTPStatus.NO_CONTENT and (line := one_line(refusal, DETAIL_LIMIT)):
        return of_refusal(line)
    if _moved_to(response):
        return Reason.MOVED
    is_refused = HTTPStatus.BAD_REQUEST <= response.status < HTTPStatus.INTERNAL_SERVER_ERROR
    return of_words(said) if is_refused else Reason.NONE


def _moved_to(response: aiohttp.ClientResponse) -> str:
    """Return the words about a redirect. It is not followed: an operator asks the partner about the
    new address."""
    location = one_line(response.headers.get("Location", ""), LOCATION_LIMIT)
    is_redirect = HTTPStatus.MULTIPLE_CHOICES <= response.status < HTTPStatus.BAD_REQUEST
    return f" (Location: {location})" if is_redirect and location else ""


def _words(response: aiohttp.ClientResponse, start: bytes) -> str:
    """Return what the body says to a reader. That of a success only if it is a page: no MSH answers
    so, but a proxy or a log-in of the network does."""
    kind = response.headers.get("Content-Type", "text/plain").partition(";")[0].strip().lower()
    is_page = kind in ("text/html", "application/xhtml+xml")
    is_text = kind.startswith("text/") or kind.endswith(("json", "xml"))
    if not (is_page if response.status < 400 else is_text):
        return ""
    try:
        text, _ = decoded(start, encoding_of(response), WORDS_READ)
    except UnreadableCoding:
        return ""
    shown = text.decode(errors="replace")
    if is_page:
        shown = text_of_page(shown)
    words = shortened(plain(shown), WORDS_LIMIT)
    return "" if words == response.reason else words  # many servers say both times the same


# A page may end anywhere: only its beginning is read.
_UNSHOWN = re.compile(r"<(head|script|style)\b.*?(?:</\1\s*>|\Z)", re.IGNORECASE | re.DOTALL)
_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
_TAG = re.compile(r"</?[a-z!?][^>]*(?:>|\Z)", re.IGNORECASE)
_TITLE = re.compile(r"<title\b[^>]*>([^<]*)", re.IGNORECASE)


def text_of_page(page: str) -> str:
    """Return what a reader of an HTML page sees, without tags; its title, if that is nothing."""
    text = html.unescape(_TAG.sub(" ", _UNSHOWN.sub(" ", _COMMENT.sub(" ", page)))).strip()
    title = _TITLE.search(page)
    return text or (html.unescape(title[1]) if title else "")


def encoding_of(response: aiohttp.ClientResponse) -> str:
    return ", ".join(response.headers.getall("Content-Encoding", ()))


def _with_answer(
    result: AttemptResult,
    response: aiohttp.ClientResponse,
    start: bytes,
    size: int,
    limit: int,
    *,
    is_whole: bool,
) -> AttemptResult:
    """Add the body of the answer, which the job asked for. If it cannot be used, the detail says
    so, because an operator who reads that the partner has answered looks for the answer."""
    kind = header_text(response.headers.get("Content-Type", ""), ANSWER_TYPE_LIMIT)
    unread = f"of more than {limit} bytes, or cut short"
    if is_whole:
        try:
            body, is_whole = decoded(start, encoding_of(response), limit)
        except UnreadableCoding as encoding:
            is_whole, unread = False, f"Content-Encoding {encoding}"
    if not is_whole:
        said = f"{result.detail}, {not_read(size, kind)} ({unread})"
        return replace(result, detail=one_line(said, DETAIL_LIMIT))
    return replace(result, answer=(kind, body))


async def _finish(
    response: aiohttp.ClientResponse, expires: float, answer_limit: int
) -> tuple[bytes, int, bool]:
    """Read a small body to keep the connection, hang up on a large one. The status stands.
    Returns the body's first bytes, WORDS_READ or `answer_limit` at most, how many have come, and
    whether the first are all of it."""
    size, left, kept = 0, max(ANSWER_LIMIT, answer_limit + 1), answer_limit or WORDS_READ
    start = bytearray()
    try:
        async with asyncio.timeout_at(expires):
            while left > 0 and not response.content.at_eof():
                piece = await response.content.read(left)
                size += len(piece)
                left -= len(piece)
                start += piece[: kept - len(start)]
    except (aiohttp.ClientError, OSError):  # TimeoutError is an OSError
        left = 0
    if left > 0:
        response.release()
    else:
        response.close()
    return bytes(start), size, left > 0 and len(start) == size


def retry_after(value: str, date: str) -> float | None:
    """Seconds that a Retry-After header asks for, None if unusable (D54).

    An HTTP date is measured against `date`, the answer's Date header, so that the peer's clock
    need not be ours; without one, against our clock.
    """
    value = value.strip()
    if value.isascii() and value.isdigit():
        return min(float(value), LONGEST_WAIT)
    then = _http_date(value)
    if then is None:
        return None
    seconds = (then - (_http_date(date) or datetime.now(UTC))).total_seconds()
    return min(seconds, LONGEST_WAIT) if seconds >= 0 else None


def _http_date(text: str) -> datetime | None:
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def header_text(value: str, limit: int) -> str:
    """A header's value as text that any column takes; "" if it has more than `limit` characters.

    aiohttp reads UTF-8 and turns every other byte into a surrogate. Those values are taken for
    Latin-1, as RFC 9110 §5.5 has it of old. What cannot be printed becomes a question mark.
    """
    if not value.isascii():
        raw = value.encode("utf-8", "surrogateescape")
        try:
            value = raw.decode("utf-8")
        except UnicodeDecodeError:
            value = raw.decode("latin-1")
    value = value.strip()
    text = "".join(c if c.isprintable() else "?" for c in value)
    return text if len(text) <= limit else ""


def one_line(text: str, limit: int) -> str:
    """`text` as printable ASCII on one line, at most `limit` characters."""
    return plain(text)[:limit]


def plain(text: str) -> str:
    """`text` as printable ASCII on one line."""
    line = " ".join(text.split()).encode("ascii", "replace").decode()
    return "".join(c if c.isprintable() else "?" for c in line)
