"""Whole messages: header document and payloads in one package."""

from collections.abc import Sequence
from email import message_from_bytes, policy

import pytest

from msh import wire
from msh.protocol.errors import Refused, Unreadable
from msh.protocol.message import DocumentReference, Field, Header, Payload
from msh.protocol.received import ReceivedMessage
from msh.protocol.vocabulary import ErrorCode, MessageType
from msh.wire.trp.envelope import parse_readable
from tests.wire.samples import (
    EXAMPLE,
    MANIFEST,
    NO_PAYLOAD,
    ORDER,
    ORDER_PART,
    RELATED,
    TRANSIENT,
    acknowledgement,
    alone,
    changed,
    composed,
    error,
    header_part,
    normal,
    order,
    package,
    parsed,
    route,
)

OTHER = Payload(b"\x00\xff\r\n--\r\n", "image/png", "p2@x", "Picture", "of a crate")
REFERENCE_2 = DocumentReference("p2@x", "Picture", "of a crate")
TWO = normal(manifest=(*normal().manifest, REFERENCE_2))


def unreadable(content_type: str, body: bytes, status: int = 400) -> str:
    with pytest.raises(Unreadable) as caught:
        wire.parse(content_type, body)
    assert caught.value.status == status
    reason = str(caught.value)
    assert reason.isascii()
    assert reason.isprintable()
    return reason


def mime_problem(document: str, *parts: bytes) -> str:
    with pytest.raises(Refused) as caught:
        wire.parse(RELATED % "edge", package(header_part(document), *parts))
    refused = caught.value
    assert (refused.code, refused.field) == (ErrorCode.MIME_PROBLEM, Field.MANIFEST)
    assert refused.partial.message_id == "order-1@sender.example"
    assert refused.partial.sequence_text == "23"
    assert refused.description.isascii()
    return refused.description


# Composing


def test_a_body_is_the_head_and_its_parts() -> None:
    """D36: parts are kept from the submit on, the head is put before them when it is sent."""
    boundary = wire.new_boundary()
    parts = wire.compose_parts([order(), OTHER], boundary)
    head = wire.compose_head(TWO, boundary, closing=False)
    delimiter = b"--%b\r\n" % boundary.encode()
    assert all(each.startswith(delimiter) for each in (head, *parts))
    assert parts[-1].endswith(b"\r\n--%b--\r\n" % boundary.encode())
    message = wire.parse(wire.content_type(boundary), head + b"".join(parts))
    assert message.header == TWO
    assert message.payloads == (order(), OTHER)


def test_a_message_is_read_by_another_parser() -> None:
    content_type, body = composed(TWO, [order(), OTHER])
    raw = b"Content-Type: " + content_type.encode() + b"\r\n\r\n" + body
    message = message_from_bytes(raw, policy=policy.HTTP)
    assert message.get_content_type() == "multipart/related"
    assert message.get_param("type") == "application/vnd.eb+xml"
    assert message.get_param("version") == "0.21"
    head, *payloads = message.iter_parts()
    assert not message.defects
    assert head.get_content_type() == "application/vnd.eb+xml"
    assert head.get_param("charset") == "UTF-8"
    assert [part["Content-ID"] for part in payloads] == [
        "<payload-1-4711@sender.example>",
        "<p2@x>",
    ]
    assert [part.get_content_type() for part in payloads] == ["application/xml", "image/png"]
    assert [part.get_payload(decode=True) for part in payloads] == [ORDER, OTHER.content]


@pytest.mark.requirement("000-018", "000-019")
@pytest.mark.parametrize("header", [acknowledgement(), error(TRANSIENT)])
def test_a_signal_is_one_part_and_nothing_else(header: Header) -> None:
    """D51."""
    content_type, body = wire.compose_signal(header)
    raw = b"Content-Type: " + content_type.encode() + b"\r\n\r\n" + body
    parts = list(message_from_bytes(raw, policy=policy.HTTP).iter_parts())
    assert len(parts) == 1
    assert wire.parse(content_type, body).header == header
    assert wire.parse(content_type, body).payloads == ()


@pytest.mark.parametrize(
    "header", [normal(), normal(manifest=()), acknowledgement(manifest=(REFERENCE_2,))]
)
def test_only_a_signal_without_payload_is_composed_as_a_signal(header: Header) -> None:
    with pytest.raises(ValueError, match="Acknowledgement or an Error"):
        wire.compose_signal(header)


def test_payloads_that_no_package_can_hold_are_not_composed() -> None:
    with pytest.raises(ValueError, match="same content id"):
        wire.compose_parts([order(), order(b"other")], "edge")
    with pytest.raises(ValueError, match=r"payload-1-4711@sender\.example contains the boundary"):
        wire.compose_parts([OTHER, order(b"--edge")], "edge")
    many = [Payload(b"", content_id=f"p{n}@x") for n in range(1000)]
    with pytest.raises(ValueError, match="at most 999"):
        wire.compose_parts(many, "edge")
    assert len(wire.compose_parts(many[1:], "edge")) == 999


def test_a_header_document_beyond_the_limit_is_not_composed() -> None:
    reference = DocumentReference("p2@x", description="x" * wire.HEADER_LIMIT)
    with pytest.raises(ValueError, match="larger than"):
        wire.compose_head(normal(manifest=(reference,)), "edge", closing=True)


def test_a_header_document_that_holds_the_boundary_is_not_composed() -> None:
    with pytest.raises(ValueError, match="contains the boundary"):
        wire.compose_head(normal(action="--edge"), "edge", closing=True)


def test_a_forwarded_message_has_its_header_document_and_one_more_route() -> None:
    received = alone().header_document
    head = wire.compose_routed_head(received, route(sequence_number=7), "edge", closing=True)
    header = wire.parse(wire.content_type("edge"), head).header
    assert [hop.sequence_number for hop in header.routing] == [23, 7]


def test_the_content_of_a_composed_part_is_found_again() -> None:
    first, last = wire.compose_parts([OTHER, order()], "edge")
    assert wire.part_content(first, "edge") == OTHER.content
    assert wire.part_content(last, "edge") == ORDER


def test_unusable_payload_names_are_refused_before_composing() -> None:
    wire.check_names([OTHER, order()])
    with pytest.raises(ValueError, match="content type"):
        wire.check_names([Payload(b"", "text/plain\r\nX: y", "p@x")])


# Parsing


def test_a_message_is_read_with_its_header_document() -> None:
    message = parsed()
    assert message.header == normal()
    assert message.payloads == (order(),)
    assert message.header_document == EXAMPLE.encode()


@pytest.mark.parametrize(
    "content_type",
    [
        "application/vnd.eb+xml",
        'Application/VND.eb+xml; version="0.21"; charset="utf-8"',
        "application/xml",
        "text/xml; charset=UTF-8",
    ],
)
def test_a_header_only_message_may_come_as_it_is(content_type: str) -> None:
    """D51."""
    message = wire.parse(content_type, NO_PAYLOAD.encode())
    assert message.header == normal(manifest=())
    assert message.payloads == ()


def test_an_acknowledgement_of_another_hand_is_read() -> None:
    """No Manifest, the American spelling, no namespace, nothing that the draft does not ask."""
    message = wire.parse(
        "text/xml",
        b"<ebXMLHeader MessageType='Acknowledgment'><Header>"
        b"<From><PartyId>http://b/</PartyId></From><To><PartyId>http://a/</PartyId></To>"
        b"<TPAInfo><TPAId>t</TPAId><ConversationId>c</ConversationId><ServiceInterface/><Action/>"
        b"</TPAInfo><MessageData><MessageId>m</MessageId><Timestamp>20001016T110000Z</Timestamp>"
        b"<RefToMessageId>r</RefToMessageId></MessageData>"
        b"<ReliableMessagingInfo><DeliverySemantics>BestEffort</DeliverySemantics>"
        b"</ReliableMessagingInfo></Header><RoutingHeader><SenderURI>http://b/</SenderURI>"
        b"<ReceiverURI>http://a/</ReceiverURI><ErrorURI>http://b/</ErrorURI>"
        b"<Timestamp>20001016T110000Z</Timestamp></RoutingHeader></ebXMLHeader>",
    )
    header = message.header
    assert header.message_type is MessageType.ACKNOWLEDGEMENT
    assert header.ref_to_message_id == "r"
    assert (header.from_party.party_id, header.to_party.party_id) == ("http://b/", "http://a/")


def test_payloads_come_in_the_order_of_the_manifest() -> None:
    content_type, body = composed(TWO, [OTHER, order()])
    assert wire.parse(content_type, body).payloads == (order(), OTHER)


def test_start_names_the_header_document() -> None:
    root = b"Content-ID: <root@x>\r\n" + header_part()
    body = package(ORDER_PART, root)
    message = wire.parse((RELATED % "edge") + '; start="<root@x>"', body)
    assert message.header == normal()
    assert message.payloads == (order(),)


@pytest.mark.parametrize(
    ("document_id", "content_id"),
    [("a%26b@x", "a&amp;b@x"), ("a%26b@x", "a%26b@x"), ("a&amp;b@x", "a%26b@x")],
)
def test_a_content_id_is_compared_unquoted(document_id: str, content_id: str) -> None:
    """RFC 2392."""
    document = changed("payload-1-4711@sender.example", document_id)
    raw = content_id.replace("&amp;", "&").encode()
    (payload,) = parsed(document, b"Content-ID: <" + raw + b">\r\n\r\none").payloads
    assert payload.content_id == "a&b@x"


@pytest.mark.parametrize("header_only", [True, False])
@pytest.mark.parametrize("charset", ["ISO-8859-1", "utf-16", "utf-7"])
def test_another_charset_is_refused(charset: str, header_only: bool) -> None:
    """D59."""
    content_type = f'application/vnd.eb+xml; charset="{charset}"'
    if header_only:
        reason = unreadable(content_type, NO_PAYLOAD.encode())
    else:
        body = package(header_part(EXAMPLE, content_type), ORDER_PART)
        reason = unreadable(RELATED % "edge", body)
    assert "send UTF-8" in reason


def test_a_header_document_may_be_encoded_for_transfer() -> None:
    head = b"Content-Transfer-Encoding: quoted-printable\r\n\r\n"
    assert parsed_with_head(head + EXAMPLE.replace("=", "=3D").encode()).header == normal()


def parsed_with_head(head: bytes) -> ReceivedMessage:
    return wire.parse(RELATED % "edge", package(head, ORDER_PART))


def test_a_header_document_with_an_unknown_encoding_is_refused() -> None:
    head = b"Content-Transfer-Encoding: x-own\r\n\r\n" + EXAMPLE.encode()
    assert "x-own" in unreadable(RELATED % "edge", package(head, ORDER_PART))


def test_the_limit_of_the_header_document_is_the_callers() -> None:
    """D60."""
    size = len(NO_PAYLOAD.encode())
    wire.parse("text/xml", NO_PAYLOAD.encode(), header_limit=size)
    with pytest.raises(Unreadable, match=f"at most {size - 1}"):
        wire.parse("text/xml", NO_PAYLOAD.encode(), header_limit=size - 1)
    padded = NO_PAYLOAD.encode() + b" " * wire.HEADER_LIMIT
    assert str(wire.HEADER_LIMIT) in unreadable("text/xml", padded)


def test_invalid_message_is_refused() -> None:
    unreadable("application/json", b"{}", status=415)
    unreadable("", b"", status=415)
    unreadable("text/xml", b"")
    unreadable("text/xml", b"<soap:Envelope xmlns:soap='u:soap'/>")
    unreadable(RELATED % "edge", package(b"Content-Type: image/png\r\n\r\n\x89PNG"))
    unreadable(RELATED % "edge", package(ORDER_PART, header_part()))


# Parts against the Manifest


@pytest.mark.parametrize(
    ("document", "parts"),
    [
        (EXAMPLE, []),
        (NO_PAYLOAD, [ORDER_PART]),
        (changed(MANIFEST, ""), [ORDER_PART]),
        (EXAMPLE, [ORDER_PART, ORDER_PART]),
        (EXAMPLE, [ORDER_PART, b"\r\nnameless"]),
        (EXAMPLE, [b"\r\nnameless"]),
        (EXAMPLE, [ORDER_PART, b"Content-ID: <other@x>\r\n\r\n"]),
        (changed(MANIFEST, MANIFEST.replace("  <Manifest>", "<Manifest>") * 1), [b"\r\n"]),
        (changed("cid:payload-1-4711@sender.example", "http://sender.example/order"), [ORDER_PART]),
        (EXAMPLE, [b"Content-Transfer-Encoding: x\r\n" + ORDER_PART]),
        (EXAMPLE, [b"Content-Transfer-Encoding: base64\r\n" + ORDER_PART]),
    ],
)
def test_parts_that_are_not_those_of_the_manifest_are_refused(
    document: str, parts: Sequence[bytes]
) -> None:
    mime_problem(document, *parts)


@pytest.mark.parametrize("came", ["a/b; c=" + "d" * 255, "a/b; name=x; c=" + "d" * 300])
def test_a_content_type_that_is_too_long_loses_what_is_too_long(came: str) -> None:
    (payload,) = parsed(EXAMPLE, ORDER_PART.replace(b"application/xml", came.encode())).payloads
    assert payload.content_type == came[: came.index("; c=")]


def test_a_manifest_that_names_a_part_twice_is_refused() -> None:
    start = EXAMPLE.index("    <DocumentReference>")
    end = EXAMPLE.index("  </Manifest>")
    twice = EXAMPLE[:end] + EXAMPLE[start:]
    assert "twice" in mime_problem(twice, ORDER_PART)


def test_the_problem_names_the_part() -> None:
    assert "payload-1-4711@sender.example" in mime_problem(EXAMPLE)
    broken = b"Content-Transfer-Encoding: base64\r\n" + ORDER_PART
    assert "base64" in mime_problem(EXAMPLE, broken)


# The digest of the content (D45)

ENCODED_ORDER_PART = (
    b"Content-Transfer-Encoding: base64\r\ncontent-type: Application/XML\r\n"
    b"Content-ID: <payload-1-4711@sender.example>\r\n\r\nPE9yZGVyPjEwMCBj\r\ncmF0ZXM8L09yZGVyPg=="
)


def test_a_rebuilt_message_has_the_same_digest() -> None:
    digest = parsed().content_digest
    assert len(digest) == 32
    rebuilt = [
        parsed(EXAMPLE, ENCODED_ORDER_PART),
        parsed(changed("20001016T110000.000Z", "2000-10-16T11:05:00Z")),
        parsed(changed(">23<", ">24<")),
        parsed(changed("20001016T110000.250Z", "20001016T110500.000Z")),
        parsed(changed('Version="0.21"', "Version='0.21' xmlns:x='u:x'")),
        parsed("\ufeff" + EXAMPLE.replace("\n", "\r\n")),
        parsed(EXAMPLE.replace("  ", "")),
        parsed(changed("<RefToMessageId/>", "<RefToMessageId></RefToMessageId><!-- x -->")),
        wire.parse(
            RELATED % "other",
            package(header_part(), ORDER_PART, boundary="other", newline=b"\n"),
        ),
    ]
    assert {message.content_digest for message in rebuilt} == {digest}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("100 crates", "101 crates"),
        ("<DocumentLabel>Pur", "<DocumentLabel>pur"),
        ("<TPAId>tpa-4711", "<TPAId>tpa-4712"),
        ("conv-987654321", "conv-987654322"),
        ("order-1@", "order-2@"),
        ("<RefToMessageId/>", "<RefToMessageId>x</RefToMessageId>"),
        ("</TPAInfo>", "<Extra>1</Extra></TPAInfo>"),
        ('context="DUNS">1', 'context="DUN">1'),
    ],
)
def test_another_header_has_another_digest(old: str, new: str) -> None:
    assert parsed(changed(old, new)).content_digest != parsed().content_digest


@pytest.mark.parametrize(
    "part",
    [
        ORDER_PART + b"\n",
        ORDER_PART.replace(b"100", b"101"),
        ORDER_PART.replace(b"/xml", b"/xml; charset=utf-16"),
        ORDER_PART.replace(b"/xml", b"/json"),
    ],
)
def test_another_payload_has_another_digest(part: bytes) -> None:
    assert parsed(EXAMPLE, part).content_digest != parsed().content_digest


def test_parameters_of_a_content_type_have_no_order() -> None:
    one = ORDER_PART.replace(b"/xml", b"/xml; a=1; charset=UTF-8")
    other = ORDER_PART.replace(b"/xml", b'/xml;Charset="UTF-8";\r\n A=1')
    assert parsed(EXAMPLE, one).content_digest == parsed(EXAMPLE, other).content_digest


def test_bytes_moved_from_one_payload_to_the_next_change_the_digest() -> None:
    def digest(first: bytes, second: bytes) -> bytes:
        payloads = [order(first), Payload(second, "application/xml", "p2@x")]
        header = normal(manifest=(*normal().manifest, DocumentReference("p2@x")))
        return wire.parse(*composed(header, payloads)).content_digest

    assert digest(b"ab", b"c") != digest(b"a", b"bc")
    assert digest(b"ab", b"c") == digest(b"ab", b"c")


def test_a_header_without_canonical_form_is_refused() -> None:
    document = changed("<TPAInfo>", '<TPAInfo xmlns:x="relative">', NO_PAYLOAD)
    with pytest.raises(Unreadable, match="namespace"):
        alone(document)


def test_a_truncated_message_is_known_by_its_header() -> None:
    """D45."""
    body = package(header_part(), ORDER_PART)
    received = parse_readable(RELATED % "edge", body[:-20])
    assert isinstance(received.damage, Unreadable)
    whole = wire.parse(RELATED % "edge", body)
    assert whole.content_digest.startswith(received.content_digest)
