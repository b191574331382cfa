"""Header to header document: strict out, valid against the corrected DTD."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from lxml import etree

import msh.wire.trp
from msh.protocol.message import DocumentReference, ErrorReport, Field, Header, Party
from msh.protocol.vocabulary import DeliverySemantics, ErrorCode, MessageType, Severity
from msh.wire import locate
from msh.wire.trp.reader import read
from msh.wire.trp.writer import write
from tests.wire.samples import (
    EXAMPLE,
    ROUTING_HEADER,
    TRANSIENT,
    acknowledgement,
    changed,
    error,
    normal,
    route,
    signal,
)

NS = "{http://www.ebxml.org/namespaces/messageHeader}"
HARD = ErrorReport(ErrorCode.SEQUENCE_GAP, Severity.HARD_ERROR)
BEST_EFFORT = normal(
    semantics=DeliverySemantics.BEST_EFFORT, routing=(route(sequence_number=None),)
)
COMPOSED = {
    "normal": normal(),
    "normal without payload": normal(manifest=()),
    "normal with many payloads": normal(
        manifest=tuple(DocumentReference(f"p{n}@x") for n in range(999))
    ),
    "normal without contexts": normal(from_party=Party("a"), to_party=Party("b")),
    "best effort": BEST_EFFORT,
    "routed": normal(routing=(route(), route(sequence_number=1))),
    "reply": normal(ref_to_message_id="question-1"),
    "acknowledgement": acknowledgement(),
    "transient error": error(TRANSIENT),
    "hard error": error(HARD),
    "error of little": error(HARD, tpa_id="", conversation_id="", ref_to_message_id=""),
}


def tree(header: Header) -> etree._Element:
    return etree.fromstring(write(header))


def names(element: etree._Element) -> list[str]:
    return [str(child.tag).removeprefix(NS) for child in element]


def text(header: Header, path: str) -> str | None:
    element = tree(header).find(f"{NS}{path.replace('/', '/' + NS)}")
    assert element is not None, path
    return element.text


@pytest.fixture(scope="module")
def dtd() -> Iterator[etree.DTD]:
    """The corrected DTD; the draft's own RoutingHeader is in it."""
    path = Path(msh.wire.trp.__file__).with_name("message.dtd")
    with path.open("rb") as file:
        yield etree.DTD(file)


# What is written


@pytest.mark.requirement("000-055")
@pytest.mark.parametrize("name", COMPOSED)
def test_written_message_is_valid(name: str, dtd: etree.DTD) -> None:
    document = tree(COMPOSED[name])
    assert dtd.validate(document), dtd.error_log


@pytest.mark.parametrize("name", COMPOSED)
def test_written_message_is_read_unchanged(name: str) -> None:
    assert read(write(COMPOSED[name])).header == COMPOSED[name]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("<RefToMessageId/>", ""),
        ("<RefToMessageId/>", "<RefToMessageId/><Extra/>"),
        ('"OnceAndOnlyOnce"', '"AtMostOnce"'),
        ('MessageType="Normal"', 'MessageType="Acknowledgment"'),
        ("<SenderURI>", "<SenderURI e-dtype='string'>"),
        (ROUTING_HEADER, ""),
        ("  <Manifest>\n", ROUTING_HEADER + "  <Manifest>\n"),
    ],
)
def test_dtd_rejects_invalid_documents(old: str, new: str, dtd: etree.DTD) -> None:
    assert dtd.validate(etree.fromstring(EXAMPLE.encode()))
    assert not dtd.validate(etree.fromstring(changed(old, new).encode()))


def test_the_example_is_what_we_write() -> None:
    """But for white space between elements."""
    ours, theirs = write(normal()), EXAMPLE.encode()
    parser = etree.XMLParser(remove_blank_text=True)
    assert etree.canonicalize(etree.fromstring(ours, parser)) == etree.canonicalize(
        etree.fromstring(theirs, parser)
    )


@pytest.mark.requirement("000-039", "000-091")
@pytest.mark.parametrize("name", COMPOSED)
def test_the_routing_header_follows_the_header_in_every_document(name: str) -> None:
    children = names(tree(COMPOSED[name]))
    assert children[:3] == ["Manifest", "Header", "RoutingHeader"]
    if name != "routed":
        assert children.count("RoutingHeader") == 1


@pytest.mark.requirement("000-035")
@pytest.mark.parametrize("name", COMPOSED)
def test_reliable_messaging_info_is_the_last_of_the_header(name: str) -> None:
    """D46."""
    header = tree(COMPOSED[name])[1]
    assert names(header) == ["From", "To", "TPAInfo", "MessageData", "ReliableMessagingInfo"]


@pytest.mark.requirement("000-036")
@pytest.mark.parametrize("semantics", DeliverySemantics)
def test_delivery_semantics_are_written_as_an_attribute(semantics: DeliverySemantics) -> None:
    """D27."""
    number = 1 if semantics is DeliverySemantics.ONCE_AND_ONLY_ONCE else None
    header = normal(semantics=semantics, routing=(route(sequence_number=number),))
    info = tree(header)[1][-1]
    assert dict(info.attrib.items()) == {"DeliverySemantics": semantics}
    assert len(info) == 0


@pytest.mark.requirement("000-040", "000-042", "000-055")
def test_a_reliable_routing_header_has_five_children_in_order() -> None:
    pair = ["SenderURI", "ReceiverURI", "ErrorURI", "Timestamp"]
    assert names(tree(normal())[2]) == [*pair, "SequenceNumber"]
    for header in (BEST_EFFORT, acknowledgement(), error(HARD)):
        assert names(tree(header)[2]) == pair


@pytest.mark.requirement("000-044")
@pytest.mark.parametrize("number", [1, 23, 999_999_999])
def test_a_sequence_number_is_written_without_padding(number: int) -> None:
    """D32."""
    header = normal(routing=(route(sequence_number=number),))
    assert text(header, "RoutingHeader/SequenceNumber") == str(number)


@pytest.mark.requirement("000-041")
@pytest.mark.parametrize(
    ("moment", "written"),
    [
        (datetime(2000, 10, 16, 11, tzinfo=UTC), "20001016T110000.000Z"),
        (datetime(1, 2, 3, 4, 5, 6, 7_999, tzinfo=UTC), "00010203T040506.007Z"),
        (
            datetime(2000, 1, 1, 1, tzinfo=timezone(timedelta(hours=2))),
            "19991231T230000.000Z",
        ),
    ],
)
def test_both_times_are_written_in_one_format(moment: datetime, written: str) -> None:
    """D31, D32."""
    header = normal(timestamp=moment, routing=(route(timestamp=moment),))
    assert text(header, "Header/MessageData/TimeStamp") == written
    assert text(header, "RoutingHeader/Timestamp") == written


@pytest.mark.requirement("000-018", "000-050", "000-051", "000-052", "000-053", "000-054")
def test_an_acknowledgement_says_what_the_draft_demands() -> None:
    """000 section 2.2.2, D33, D37."""
    document = tree(acknowledgement())
    assert document.get("MessageType") == "Acknowledgement"
    header = document[1]
    for tag, uri in (("From", "receiver"), ("To", "sender")):
        (party,) = header.iterchildren(NS + tag)
        assert dict(party[0].attrib.items()) == {"context": "URI"}
        assert party[0].text == f"http://{uri}.example/ebxml/"
    values = {str(each.tag).removeprefix(NS): each.text for each in header[2]}
    assert values == {
        "TPAId": "tpa-4711",
        "ConversationId": "conv-987654321",
        "ServiceInterface": None,
        "Action": None,
    }
    assert text(acknowledgement(), "Header/MessageData/RefToMessageId") == "order-1@sender.example"
    assert header[-1].get("DeliverySemantics") == "BestEffort"


@pytest.mark.requirement("000-019")
def test_a_signal_has_an_empty_manifest() -> None:
    """D51."""
    for header in (acknowledgement(), error(TRANSIENT)):
        assert b"<Manifest/>" in write(header)


def test_an_error_header_follows_the_routing_header() -> None:
    document = tree(error(TRANSIENT))
    assert names(document) == ["Manifest", "Header", "RoutingHeader", "ErrorHeader"]
    values = {str(each.tag).removeprefix(NS): each.text for each in document[3][0]}
    assert values == {
        "ErrorCode": "TransientError",
        "Severity": "TransientError",
        "MinRetrySecs": "120",
        "Location": "/ebXMLHeader/RoutingHeader/SequenceNumber",
        "Description": "the onward link is suspended",
    }
    assert names(tree(error(HARD))[3][0]) == ["ErrorCode", "Severity"]


def test_markup_in_a_value_is_escaped() -> None:
    nasty = '</MessageId><x y="&amp;\'">]]>'
    header = normal(
        message_id=nasty,
        from_party=Party(nasty, nasty),
        manifest=(DocumentReference("a&b%<c>@x", nasty, nasty),),
    )
    assert read(write(header)).header == header


def test_prose_is_written_on_one_line() -> None:
    report = ErrorReport(ErrorCode.UNKNOWN, Severity.HARD_ERROR, description="one\r\ntwo\x00")
    written = read(write(error(report))).header.error
    assert written is not None
    assert written.description == "one two"


# What is not written


@pytest.mark.parametrize(
    ("attribute", "value"),
    [
        ("message_id", ""),
        ("message_id", "x" * 256),
        ("message_id", " x"),
        ("message_id", "a\nb"),
        ("message_id", "a\x00b"),
        ("message_id", "\ud800"),
        ("message_id", "\ufffe"),
        ("ref_to_message_id", "x" * 256),
        ("tpa_id", ""),
        ("conversation_id", ""),
        ("service_interface", ""),
        ("action", ""),
        ("action", "a\tb"),
        ("action", "x" * 1025),
        ("from_party", Party("")),
        ("to_party", Party("a", "b\n")),
        ("timestamp", datetime(2000, 1, 1)),  # noqa: DTZ001
    ],
)
def test_a_value_that_would_not_be_read_back_is_not_written(attribute: str, value: Any) -> None:
    with pytest.raises(ValueError, match=attribute):
        write(normal(**{attribute: value}))


@pytest.mark.parametrize(
    "changes",
    [
        {"sender_uri": ""},
        {"receiver_uri": " http://a/"},
        {"error_uri": ""},
        {"sequence_number": None},
        {"sequence_number": 0},
        {"sequence_number": 1_000_000_000},
        {"sequence_number": -1},
    ],
)
def test_a_route_that_would_not_be_read_back_is_not_written(changes: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(changes))):
        write(normal(routing=(route(**changes),)))


@pytest.mark.parametrize(
    "header",
    [
        normal(routing=()),
        normal(routing=(route(),) * 101),
        normal(semantics=DeliverySemantics.BEST_EFFORT),
        normal(error=HARD),
        normal(manifest=(DocumentReference(""),)),
        acknowledgement(routing=(route(),)),
        signal(MessageType.ERROR),
        error(ErrorReport(ErrorCode.SEQUENCE_GAP, Severity.HARD_ERROR, min_retry_secs=1)),
        error(ErrorReport(ErrorCode.TRANSIENT_ERROR, Severity.TRANSIENT_ERROR, min_retry_secs=-1)),
    ],
)
def test_a_header_at_odds_with_itself_is_not_written(header: Header) -> None:
    with pytest.raises(ValueError, match=r"."):
        write(header)


# Locations


@pytest.mark.parametrize("field", Field)
def test_every_field_has_a_location(field: Field) -> None:
    location = locate(field)
    assert location.startswith("/ebXMLHeader")
    document = tree(error(TRANSIENT)) if field is Field.ERROR else tree(normal())
    path = location.replace("/", "/e:").replace("e:@", "@")
    found = document.xpath(path, namespaces={"e": NS[1:-1]})
    assert isinstance(found, list)
    assert found


def test_the_location_of_the_sequence_number() -> None:
    assert locate(Field.SEQUENCE_NUMBER) == "/ebXMLHeader/RoutingHeader/SequenceNumber"
