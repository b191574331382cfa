"""Anything that can be composed is read back as it was, and nothing else is ever raised than a
refusal."""

import contextlib
import string
from dataclasses import replace
from datetime import UTC, datetime
from email.message import MIMEPart
from email.policy import SMTP

from hypothesis import example, given, settings
from hypothesis import strategies as st

from msh import wire
from msh.protocol.errors import Refused, Unreadable
from msh.protocol.message import (
    DocumentReference,
    ErrorReport,
    Header,
    Party,
    Payload,
    Route,
)
from msh.protocol.vocabulary import DeliverySemantics, ErrorCode, MessageType, Severity
from msh.wire.mime import compose_part, parse
from msh.wire.text import has_control, prose, trimmed
from msh.wire.trp.reader import read
from msh.wire.trp.writer import write
from tests.wire.samples import (
    EXAMPLE,
    ORDER_PART,
    RELATED,
    acknowledgement,
    composed,
    error,
    header_part,
    normal,
    package,
)

BOUNDARY = "msh-0123456789abcdef"
PIECES = st.sampled_from(
    [b"\r\n", b"\n", b"\r", b"--", b"-", b" ", b"--msh-", b"\r\n--msh-0123456789abcde", b"\x00"]
)
CONTENTS = (
    st.binary(max_size=100) | st.lists(PIECES | st.binary(max_size=3)).map(b"".join)
).filter(lambda content: BOUNDARY.encode() not in content)
quickly = settings(deadline=None, max_examples=60)


def values() -> st.SearchStrategy[str]:
    """What a value may be: any text without control characters or white space at its ends."""
    texts = st.text(st.characters(exclude_categories=["Cc", "Cs"]), max_size=12)
    return texts.map(trimmed).filter(lambda text: not has_control(text))


PROSE = st.text(max_size=12).map(prose)
TEXTS = values().filter(bool)
CONTENT_IDS = st.text(
    "".join(sorted(set(string.printable) - set(string.whitespace) - set("<>"))), min_size=1
)
CONTENT_TYPES = st.sampled_from(
    ["application/xml", "image/png", 'text/plain; charset="utf-8"', 'a/b; c=d; e="f;g"']
)
INSTANTS = st.datetimes(timezones=st.just(UTC)).map(
    lambda moment: moment.replace(microsecond=moment.microsecond // 1000 * 1000)
)
PARTIES = st.builds(Party, TEXTS, values())
PAYLOADS = st.lists(
    st.builds(Payload, CONTENTS, CONTENT_TYPES, CONTENT_IDS, PROSE, PROSE),
    max_size=5,
    unique_by=lambda payload: payload.content_id,
)


def routes(reliable: bool) -> st.SearchStrategy[Route]:
    numbers = st.integers(1, 999_999_999) if reliable else st.none()
    return st.builds(Route, TEXTS, TEXTS, TEXTS, INSTANTS, numbers)


@st.composite
def messages(draw: st.DrawFn) -> tuple[Header, list[Payload]]:
    semantics = draw(st.sampled_from(DeliverySemantics))
    payloads = draw(PAYLOADS)
    reliable = semantics is DeliverySemantics.ONCE_AND_ONLY_ONCE
    header = Header(
        message_type=MessageType.NORMAL,
        from_party=draw(PARTIES),
        to_party=draw(PARTIES),
        tpa_id=draw(TEXTS),
        conversation_id=draw(TEXTS),
        service_interface=draw(TEXTS),
        action=draw(TEXTS),
        message_id=draw(TEXTS),
        timestamp=draw(INSTANTS),
        semantics=semantics,
        routing=tuple(draw(st.lists(routes(reliable), min_size=1, max_size=3))),
        ref_to_message_id=draw(values()),
        manifest=tuple(DocumentReference(p.content_id, p.label, p.description) for p in payloads),
    )
    return header, payloads


@quickly
@given(messages())
def test_a_message_is_read_back_as_it_was(message: tuple[Header, list[Payload]]) -> None:
    header, payloads = message
    received = wire.parse(*composed(header, payloads))
    assert received.header == header
    assert received.payloads == tuple(payloads)


@quickly
@given(messages(), INSTANTS, routes(reliable=True))
def test_recomposed_copy_has_the_same_digest(
    message: tuple[Header, list[Payload]], timestamp: datetime, route: Route
) -> None:
    """D45: another boundary, another TimeStamp, another route."""
    header, payloads = message
    if not header.reliable:
        route = replace(route, sequence_number=None)
    copy = replace(header, timestamp=timestamp, routing=(route,))
    first = wire.parse(*composed(header, payloads))
    second = wire.parse(*composed(copy, payloads))
    assert first.content_digest == second.content_digest


REPORTS = st.builds(
    lambda code, severity, location, description, seconds: ErrorReport(
        code,
        severity,
        location,
        description,
        seconds if code is ErrorCode.TRANSIENT_ERROR else None,
        ErrorCode.UNKNOWN.value if code is ErrorCode.UNKNOWN else "",
    ),
    st.sampled_from(ErrorCode),
    st.sampled_from(Severity),
    PROSE,
    PROSE,
    st.none() | st.integers(0, 10**6),
)


@quickly
@given(st.one_of(st.just(acknowledgement()), REPORTS.map(error)))
def test_a_signal_is_read_back_as_it_was(header: Header) -> None:
    received = wire.parse(*wire.compose_signal(header))
    assert received.header == header


@quickly
@given(st.lists(CONTENTS, min_size=1, max_size=6))
@example([b"", b"\r", b"\n", b"--msh-0123456789abcde", b"--", b"\r\n--"])
def test_any_bytes_go_through_a_package(contents: list[bytes]) -> None:
    last = len(contents) - 1
    body = b"".join(
        compose_part(f"p{n}@x", "a/b", content, BOUNDARY, last=n == last)
        for n, content in enumerate(contents)
    )
    parts = parse(f"multipart/related; boundary={BOUNDARY}", body, alone=frozenset())
    assert [part.content() for part in parts] == contents


@quickly
@given(CONTENTS, st.sampled_from(["base64", "quoted-printable"]))
def test_any_bytes_encoded_by_another_library_are_decoded(content: bytes, encoding: str) -> None:
    part = MIMEPart(SMTP)
    part.set_content(content, "application", "octet-stream", cte=encoding)
    head, _, encoded = part.as_bytes().partition(b"\r\n\r\n")
    if encoding == "base64":
        encoded = encoded.rstrip(b"\r\n")
    body = package(head + b"\r\n\r\n" + encoded)
    (read,) = parse("multipart/related; boundary=edge", body, alone=frozenset())
    assert read.content() == content


@quickly
@given(st.data())
def test_a_damaged_message_is_read_or_refused(data: st.DataObject) -> None:
    """Whatever stands on the wire, no other exception comes out."""
    body = bytearray(package(header_part(EXAMPLE), ORDER_PART))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(body) - 1))
        length = data.draw(st.integers(0, 60))
        body[at : at + length] = data.draw(
            st.binary(max_size=4) | st.sampled_from([b"<", b">", b"&", b"\r\n", b"--edge\r\n"])
        )
    with contextlib.suppress(Unreadable, Refused):
        wire.parse(RELATED % "edge", bytes(body))


@quickly
@given(st.text(max_size=60), st.binary(max_size=60))
def test_a_stranger_is_refused(content_type: str, body: bytes) -> None:
    for declared in (content_type, "text/xml", RELATED % content_type):
        with contextlib.suppress(Unreadable, Refused):
            wire.parse(declared, body)


@quickly
@given(st.text(max_size=40), st.text(max_size=40))
def test_a_header_is_written_so_that_it_is_read_back_or_not_at_all(one: str, other: str) -> None:
    header = normal(
        message_id=one,
        action=other,
        from_party=Party(other, one),
        manifest=(DocumentReference(other),),
    )
    try:
        document = write(header)
    except ValueError:
        return
    assert read(document).header == header
