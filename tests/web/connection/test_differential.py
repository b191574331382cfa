"""The same requests as h11 reads, whatever bytes come, in whatever pieces; or a refusal, and the
connection ends."""

import random
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise

import h11
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.web.connection.world import Says, World

JDK = (
    b"Connection: Upgrade, HTTP2-Settings\r\n"
    b"HTTP2-Settings: AAEAAEAAAAIAAAAAAAMAAAAAAAQBAAAAAAUAAEAAAAYABgAA\r\n"
    b"Upgrade: h2c\r\n"
)
"""As Java's HttpClient offers HTTP/2 with each request over plain HTTP."""
OFFERED = (b"h2c", b"websocket", b"WebSocket", b"TLS/1.0", b"nonsense", b"h2c, websocket")
OFFERS = [b"Connection: Upgrade\r\nUpgrade: %b\r\n" % name for name in OFFERED]
INNER = b"GET /inner HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: 192.0.2.77\r\n\r\n"


def chunks(body: bytes, *trailer: bytes) -> bytes:
    return b"%x\r\n%b\r\n0\r\n" % (len(body), body) + b"".join(trailer) + b"\r\n"


def with_length(path: bytes, body: bytes, lines: bytes = b"") -> bytes:
    head = b"POST %b HTTP/1.1\r\nHost: x\r\n%b" % (path, lines)
    return head + b"Content-Length: %d\r\n\r\n" % len(body) + body


def in_chunks(path: bytes, body: bytes, lines: bytes = b"", *trailer: bytes) -> bytes:
    head = b"POST %b HTTP/1.1\r\nHost: x\r\n%b" % (path, lines)
    return head + b"Transfer-Encoding: chunked\r\n\r\n" + chunks(body, *trailer)


GET = b"GET /a HTTP/1.1\r\nHost: x\r\n\r\n"
CORPUS = [
    GET,
    GET + GET,
    b"GET /a?b=c%20d#e HTTP/1.1\r\nHost: x\r\nX-A:  b \r\nX-A: c\r\n\r\n" + GET,
    b"GET http://h/a?b HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET /a HTTP/1.0\r\n\r\n",
    b"GET /a HTTP/1.0\r\nConnection: keep-alive\r\n\r\n" + GET,
    b"HEAD /a HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
    b"\r\n\r\n" + GET,
    b"\n" + GET,
    b"\r\r\n\n" + GET,
    with_length(b"/a", b""),
    with_length(b"/a", b"body") + GET,
    with_length(b"/a", INNER) + GET,
    in_chunks(b"/a", b"body"),
    in_chunks(b"/a", INNER) + GET,
    in_chunks(b"/a", b"body", b"", b"X-Forwarded-For: 192.0.2.77\r\n", b"X-B: c\r\n") + GET,
    b"POST /a HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks(b"body"),
    in_chunks(b"/a", INNER, JDK) + GET,
    with_length(b"/a", INNER, JDK) + GET,
    b"POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n"
    + chunks(b"body"),
    b"POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip, chunked\r\n\r\n" + chunks(b"body"),
    b"POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding : chunked\r\n\r\n" + chunks(b"body"),
    b"POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding:\x0bchunked\r\n\r\n" + chunks(b"body"),
    b"POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nContent-Length: 5\r\n\r\nbodyx",
    b"POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 04\r\n\r\nbody" + GET,
    b"POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: -4\r\n\r\nbody",
    b"POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 4, 4\r\n\r\nbody" + GET,
    b"POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n4;x=y\r\nbody\r\n00\r\n\r\n",
    b"POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n4 \r\nbody\r\n0\r\n\r\n",
    b"POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0x4\r\nbody\r\n0\r\n\r\n",
    b"POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n4\nbody\n0\n\n",
    b"POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nbody\r\n0\r\n\r\n",
    b"CONNECT h:1 HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nbody" + INNER,
    b"GET /a HTTP/1.1\r\nHost: x\r\nX-A: b\r\n c\r\n\r\n",
    b"GET /a HTTP/1.1\r\nHost: x\r\nX_A: b\r\n\r\n",
    b"GET /a HTTP/1.1\r\n\r\n",
    b"GET /a HTTP/1.1\nHost: x\n\n",
    b"GET  /a HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET /a   HTTP/1.1\r\nHost: x\r\n\r\n" + GET,
    b"GET /\xc3\xa4 HTTP/1.1\r\nHost: x\r\nX-A: \xff\xc3\xa4\r\n\r\n",
    *(with_length(b"/a", INNER, offer) + GET for offer in OFFERS),
    *(in_chunks(b"/a", INNER, offer) for offer in OFFERS),
    *(b"GET /a HTTP/1.1\r\nHost: x\r\n" + offer + b"\r\n" + INNER for offer in OFFERS),
]


LINES = re.compile(rb"\A[\r\n]+")
SPACES = re.compile(rb"\A([A-Z]+) +")
BEFORE_VERSION = re.compile(rb"\A([A-Z]+ [^ \r\n]+) +(?=HTTP/)")


@dataclass(frozen=True)
class Read:
    """What has to be the same."""

    method: str
    headers: tuple[tuple[str, str], ...]
    body: bytes


def as_h11_reads(data: bytes) -> list[Read]:
    """Those that are whole, up to one that is the last of its connection. Each is read by a
    connection of its own: h11 stops where a protocol might be changed. Unlike us, it does not take
    empty lines before a request, whatever ends them (RFC 9112 2.2), several spaces in its first
    line (3), and a second request of a client of HTTP/1.0."""
    requests: list[Read] = []
    while data:
        connection = h11.Connection(h11.SERVER, max_incomplete_event_size=1 << 20)
        data = SPACES.sub(rb"\1 ", LINES.sub(b"", data))
        data = BEFORE_VERSION.sub(rb"\1 ", data)
        connection.receive_data(data)
        try:
            request = connection.next_event()
            if not isinstance(request, h11.Request):
                break
            body = b""
            while isinstance(event := connection.next_event(), h11.Data):
                body += bytes(event.data)
        except h11.RemoteProtocolError:
            break
        if not isinstance(event, h11.EndOfMessage):
            break
        requests.append(Read(request.method.decode(), _names(request), body))
        old = request.http_version == b"1.0" and (b"connection", b"keep-alive") in request.headers
        if connection.their_state is h11.MUST_CLOSE and not old:
            break
        data = connection.trailing_data[0]
    return requests


def _names(request: h11.Request) -> tuple[tuple[str, str], ...]:
    """As WSGI has them."""
    joined: dict[str, list[str]] = {}
    for name, value in request.headers:
        if b"_" not in name:
            key = name.decode().upper().replace("-", "_")
            joined.setdefault(key, []).append(value.decode("latin-1"))
    return tuple(sorted((name, ",".join(values)) for name, values in joined.items()))


def as_we_read(world: World, data: bytes, cuts: list[int]) -> tuple[list[Read], bytes]:
    """What reached the application, and what the client got."""
    world.seen.clear()
    client = world.connect()
    cuts = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    try:
        for start, end in pairwise(cuts):
            client.send(data[start:end])
        client.end()
    except ConnectionError:
        pass
    got = client.rest()
    client.close()
    world.wait_until_nothing_is_open()
    return [
        Read(
            one.method,
            tuple(sorted((_without_http(k), v) for k, v in one.headers.items() if v)),
            one.body or b"",
        )
        for one in world.seen
    ], got


def _without_http(name: str) -> str:
    return name.removeprefix("HTTP_")


HIDDEN = ("X_FORWARDED_FOR", "X_FORWARDED_PROTO", "FORWARDED", "X_REAL_IP")
"""Of a proxy that is not trusted."""


def assert_same(world: World, data: bytes, cuts: list[int]) -> None:
    ours, got = as_we_read(world, data, cuts)
    theirs = [
        Read(
            one.method,
            tuple((k, v) for k, v in one.headers if k not in HIDDEN and v),
            one.body,
        )
        for one in as_h11_reads(data)
    ]
    assert ours == theirs[: len(ours)]
    if len(ours) < len(theirs):  # then we have said that we read no more
        assert b" 400 " in got or b" 431 " in got or b" 50" in got or b"Connection: close" in got


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    world = World()
    world.answer = lambda _: Says("200 OK", pieces=[b"ok"])
    yield world
    world.close()


@pytest.fixture(autouse=True)
def known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Anybody may send a body of any size, in chunks too."""
    from msh.web import senders  # noqa: PLC0415
    from msh.web.senders import Admission  # noqa: PLC0415
    from tests.web.connection.world import PARTNER  # noqa: PLC0415

    monkeypatch.setattr(senders, "admit", lambda *_: Admission(PARTNER, 1 << 20))
    monkeypatch.setattr(senders, "is_partner", lambda _: True)


@pytest.mark.parametrize("number", range(len(CORPUS)))
@pytest.mark.parametrize("step", [1, 7, 0])
def test_what_is_written_by_hand(world: World, number: int, step: int) -> None:
    data = CORPUS[number]
    assert_same(world, data, list(range(step, len(data), step)) if step else [])


PIECES = [
    *(b"GET ", b"POST ", b"/a", b"*", b" HTTP/1.1", b" HTTP/1.0", b"\r\n", b"\n", b"\r", b" "),
    *(b"\t", b":", b"Host: x\r\n", b"Content-Length: ", b"4", b"0", b"Transfer-Encoding: "),
    *(b"chunked", b"identity", b"Connection: ", b"close", b"keep-alive", b"Upgrade", b"\x00"),
    *(b"\xff", b"body", b"4\r\nbody\r\n", b"0\r\n\r\n", b"\r\n\r\n", b";", b",", b"_", b"Expect: "),
    *(b"100-continue\r\n", *OFFERS, INNER, GET),
]
WORDS = st.lists(st.sampled_from(PIECES), min_size=1, max_size=12).map(b"".join)


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    """Something of the corpus, changed in a few places."""
    data = draw(st.sampled_from(CORPUS))
    for _ in range(draw(st.integers(1, 3))):
        start = draw(st.integers(0, len(data)))
        end = min(len(data), start + draw(st.integers(0, 6)))
        data = data[:start] + draw(st.sampled_from([b"", *PIECES])) + data[end:]
    return data + draw(st.sampled_from([b"", GET]))


@given(
    data=st.one_of(mutated(), WORDS, st.binary(max_size=60)),
    cuts=st.lists(st.integers(0, 500), max_size=3),
)
@settings(
    max_examples=200,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_any_bytes(world: World, data: bytes, cuts: list[int]) -> None:
    assert_same(world, data, cuts)


@pytest.mark.parametrize("offer", [JDK, *OFFERS])
@pytest.mark.parametrize("framed", [with_length, in_chunks])
@pytest.mark.parametrize("step", [0, 3])
def test_an_offered_upgrade_changes_nothing(
    world: World, offer: bytes, framed: Callable[[bytes, bytes, bytes], bytes], step: int
) -> None:
    """The body is read, whatever it says, and only then the next request."""
    data = framed(b"/a", INNER, offer)
    cuts = list(range(step, len(data), step)) if step else []
    (with_offer,), _ = as_we_read(world, data, cuts)
    (without,), _ = as_we_read(world, framed(b"/a", INNER, b""), cuts)
    offered = ("CONNECTION", "UPGRADE", "HTTP2_SETTINGS")
    headers = tuple(one for one in with_offer.headers if one[0] not in offered)
    assert (with_offer.body, headers) == (INNER, without.headers)


def test_a_trailer_is_no_header_of_the_next_request(world: World) -> None:
    """aiohttp 3.14.5 takes it for one: a request in chunks is the last of its connection."""
    data = in_chunks(b"/a", b"body", b"", b"Authorization: Bearer other\r\n") + GET
    for cuts in ([], [len(data) - len(GET)], random.Random(1).sample(range(len(data)), 5)):
        requests, got = as_we_read(world, data, cuts)
        assert [dict(one.headers).get("AUTHORIZATION") for one in requests] == [None]
        assert b"Connection: close" in got
