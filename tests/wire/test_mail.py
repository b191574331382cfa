"""The same package as a mail (RFC 2045): lines of ASCII out, any MIME mail in."""

from datetime import UTC, datetime

import pytest

from msh import wire
from msh.protocol.errors import Unreadable
from msh.protocol.message import DocumentReference, Header, Party, Payload, Route
from msh.protocol.vocabulary import DeliverySemantics, MessageType
from msh.wire.ebms2 import envelope
from msh.wire.mail import HEAD_LIMIT
from tests.wire.ebms2.samples import composed, message

NOW = datetime(2026, 11, 21, tzinfo=UTC)
EVERY_BYTE = bytes(range(256)) * 40 + b"\n.\r\n..\n\r" + b"x" * 2000
HEADER = Header(
    message_type=MessageType.NORMAL,
    from_party=Party("1"),
    to_party=Party("2"),
    tpa_id="t",
    conversation_id="c",
    service_interface="s",
    action="a",
    message_id="m",
    timestamp=NOW,
    semantics=DeliverySemantics.ONCE_AND_ONLY_ONCE,
    routing=(Route("mailto:a@a", "mailto:b@b", "mailto:a@a", NOW, 1),),
    manifest=(DocumentReference("p1"),),
)


def package() -> tuple[str, bytes]:
    parts = wire.compose_parts([Payload(EVERY_BYTE, "image/png", "p1")], "b0")
    head = wire.compose_head(HEADER, "b0", closing=False)
    return wire.content_type("b0"), head + parts[0]


def mail(content_type: str, body: bytes, *headers: str) -> bytes:
    lines = ["Received: from there", "Subject: ebXML", f"Content-Type: {content_type}", *headers]
    return "\r\n".join([*lines, "", ""]).encode() + body


@pytest.mark.requirement("000-062")
def test_mail_is_short_lines_of_ascii() -> None:
    body = wire.in_lines(*package())

    lines = body.split(b"\r\n")
    assert max(map(len, lines)) <= 76 + len("Content-ID: <ebxmlheader-@msh>")
    assert body.isascii()
    assert b"\0" not in body
    assert not any(b"\r" in line or b"\n" in line for line in lines)


def test_it_is_read_as_the_same_message() -> None:
    content_type, body = package()

    parsed = wire.parse(*wire.package_of(mail(content_type, wire.in_lines(content_type, body))))

    assert parsed == wire.parse(content_type, body)
    assert parsed.payloads[0].content == EVERY_BYTE


@pytest.mark.requirement("000-027")
def test_the_same_bytes_give_the_same_lines_again_and_again() -> None:
    content_type, body = package()
    lines = wire.in_lines(content_type, body)

    assert wire.in_lines(content_type, body) == wire.in_lines(content_type, lines) == lines


def test_a_folded_content_type_is_read() -> None:
    folded = 'multipart/related;\r\n\ttype="application/vnd.eb+xml";\r\n boundary="b0"'
    content_type, body = package()

    found, _ = wire.package_of(mail(folded, wire.in_lines(content_type, body)))

    assert "\n" not in found
    assert 'boundary="b0"' in found


def test_a_signal_may_come_as_one_document_in_base64() -> None:
    text = b"PGE+PC9h\r\nPg=="

    found = wire.package_of(mail("text/xml", text, "Content-Transfer-Encoding: base64"))

    assert found == ("text/xml", b"<a></a>")


@pytest.mark.parametrize(
    ("mail", "why"),
    [
        (b"Subject: hello\r\n\r\nhello\r\n", "no Content-Type"),
        (b"", "do not end"),
        (b"Subject: x\r\n" * HEAD_LIMIT, "do not end"),
        (b"Content-Type: text/xml\r\nContent-Transfer-Encoding: base64\r\n\r\n%%", "base64"),
        (b"Content-Type: text/xml\r\nContent-Transfer-Encoding: 9bit\r\n\r\n%%", "9bit"),
    ],
)
def test_invalid_package_is_refused_with_the_reason(mail: bytes, why: str) -> None:
    with pytest.raises(Unreadable, match=why):
        wire.package_of(mail)


def test_a_thousand_hops_are_refused_at_once() -> None:
    content_type, body = package()
    begin, end = body.index(b"<RoutingHeader>"), body.index(b"</ebXMLHeader>")
    many = body[:begin] + body[begin:end] * 1000 + body[end:]

    with pytest.raises(Unreadable, match="1 to 100 RoutingHeader elements"):
        wire.parse(content_type, many)


@pytest.mark.requirement("EB-160")
def test_what_is_no_package_is_in_base64_as_a_whole() -> None:
    envelope = "<a>é</a>".encode()
    lines = wire.in_lines("text/xml", envelope)
    assert lines.isascii()
    came = wire.package_of(mail("text/xml", lines, "Content-Transfer-Encoding: base64"))
    assert came == ("text/xml", envelope)


@pytest.mark.requirement("EB-051", "EB-160")
@pytest.mark.parametrize("label", ["order.xml", "\u4e2d" * 255, '\xe5 "b".pdf', ""])
def test_a_label_goes_with_the_mail_in_short_lines(label: str) -> None:
    payload = Payload(b"1", "text/plain", "order@sender.example", label, "100 crates")
    content_type, body = composed(message(), [payload])

    lines = wire.in_lines(content_type, body)

    assert max(map(len, lines.split(b"\r\n"))) < 998
    assert lines.isascii()
    assert wire.in_lines(content_type, lines) == lines
    assert envelope.parse(content_type, lines).payloads == (payload,)
    assert envelope.parse(content_type, body).payloads == (payload,)
