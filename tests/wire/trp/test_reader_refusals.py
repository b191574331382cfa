"""Header document to Header: what is missing or given twice, and what a refusal says."""

import pytest

from msh.protocol.message import Field, PartialHeader
from msh.protocol.vocabulary import ErrorCode, MessageType
from tests.wire.samples import EXAMPLE, ROUTING_HEADER, changed
from tests.wire.trp.reading import (
    NEEDED,
    RELIABLE,
    emptied,
    header,
    of_type,
    refused,
    unreadable,
    without,
)

# What must be there


@pytest.mark.requirement("000-040")
@pytest.mark.parametrize("tag", NEEDED)
def test_a_normal_message_without_a_needed_value_is_refused(tag: str) -> None:
    for document in (without(f"<{tag}>"), emptied(tag)):
        refusal = refused(document)
        assert (refusal.code, refusal.field) == (ErrorCode.VALUE_NOT_RECOGNIZED, NEEDED[tag])


@pytest.mark.requirement("000-039")
def test_header_without_routing_header_has_no_sender() -> None:
    assert "RoutingHeader" in unreadable(changed(ROUTING_HEADER, ""))


@pytest.mark.requirement("000-040")
@pytest.mark.parametrize("tag", ["SenderURI", "ReceiverURI"])
def test_routing_header_without_its_pair_has_no_sender(tag: str) -> None:
    line = next(each for each in EXAMPLE.splitlines() if f"<{tag}>" in each)
    for document in (
        without(f"<{tag}>"),
        emptied(tag),
        changed(f"<{tag}>", f"<{tag}>a&#9;b"),
        changed(f"<{tag}>", f"<{tag}><a/>"),
        changed(line, line * 2),
    ):
        assert tag in unreadable(document)


def test_a_pair_that_is_not_known_goes_before_every_other_refusal() -> None:
    assert "SenderURI" in unreadable(without("SenderURI", of_type("Unheard")))


@pytest.mark.parametrize("message_type", ["Acknowledgement", "Error"])
def test_a_signal_needs_no_business_values(message_type: str) -> None:
    """000 §2.2.2, D52: present and empty, or not there at all."""
    document = of_type(message_type)
    for tag in ("TPAId", "ConversationId", "ServiceInterface", "Action"):
        assert getattr(header(emptied(tag, document)), NEEDED[tag].value) == ""
        assert getattr(header(without(f"<{tag}>", document)), NEEDED[tag].value) == ""


def test_another_document_is_no_header() -> None:
    assert "Envelope" in unreadable("<Envelope/>")
    assert "ebXMLHeader" in unreadable(
        changed("http://www.ebxml.org/namespaces/messageHeader", "u:foreign")
    )


@pytest.mark.parametrize(
    ("message_type", "code"),
    [
        ("StatusRequest", ErrorCode.NOT_SUPPORTED),
        ("normal", ErrorCode.NOT_SUPPORTED),
        ("", ErrorCode.VALUE_NOT_RECOGNIZED),
    ],
)
def test_an_unknown_message_type_is_refused(message_type: str, code: ErrorCode) -> None:
    refusal = refused(of_type(message_type))
    assert (refusal.code, refusal.field) == (code, Field.MESSAGE_TYPE)
    assert refusal.partial.message_type is None
    assert refused(changed('MessageType="Normal"', "")).field is Field.MESSAGE_TYPE


# Twice the same


@pytest.mark.parametrize("tag", [*NEEDED, "SequenceNumber", "RefToMessageId"])
def test_a_value_given_twice_is_refused(tag: str) -> None:
    line = next(each for each in EXAMPLE.splitlines() if f"<{tag}" in each)
    assert refused(changed(line, line * 2)).code is ErrorCode.INCONSISTENT
    assert refused(changed(line, line * 3)).code is ErrorCode.INCONSISTENT


def test_a_value_given_twice_in_two_spellings_or_places_is_refused() -> None:
    line = "<TimeStamp>20001016T110000.000Z</TimeStamp>"
    twice = changed(line, line + line.replace("TimeStamp", "Timestamp"))
    assert refused(twice).field is Field.TIMESTAMP
    twice = changed("<MessageId>", '<MessageId xmlns="">other</MessageId><MessageId>')
    assert refused(twice).field is Field.MESSAGE_ID
    assert refused(twice).partial.message_id == ""
    thrice = changed("<MessageId>", "<MessageId>a</MessageId><MessageId>b</MessageId><MessageId>")
    assert refused(thrice).partial.message_id == ""
    twice = changed("</ebXMLHeader>", RELIABLE + "</ebXMLHeader>")
    assert refused(twice).field is Field.DELIVERY_SEMANTICS


@pytest.mark.parametrize("tag", ["Header", "Manifest", "TPAInfo", "MessageData"])
def test_a_container_given_twice_is_refused(tag: str) -> None:
    start, end = EXAMPLE.index(f"<{tag}>"), EXAMPLE.index(f"</{tag}>") + len(tag) + 3
    twice = EXAMPLE[:end] + EXAMPLE[start:]
    assert refused(twice).code is ErrorCode.INCONSISTENT
    assert refused(EXAMPLE[:start] + f"<{tag}/>" + EXAMPLE[start:]).code is ErrorCode.INCONSISTENT


# Refusals


def test_a_refusal_says_all_that_could_be_read() -> None:
    """D52."""
    refusal = refused(changed('"OnceAndOnlyOnce"', '"AtMostOnce"'))
    assert refusal.partial == PartialHeader(
        message_type=MessageType.NORMAL,
        message_id="order-1@sender.example",
        tpa_id="tpa-4711",
        conversation_id="conv-987654321",
        sender_uri="http://sender.example/ebxml/",
        receiver_uri="http://receiver.example/ebxml/",
        sequence_text="23",
    )
    assert refusal.description == (
        "/ebXMLHeader/Header/ReliableMessagingInfo/@DeliverySemantics"
        " is 'AtMostOnce': OnceAndOnlyOnce or BestEffort"
    )


def test_a_refusal_leaves_empty_what_could_not_be_read() -> None:
    """D52."""
    partial = refused(
        "<ebXMLHeader><RoutingHeader><SenderURI>a</SenderURI><ReceiverURI>b</ReceiverURI>"
        "</RoutingHeader></ebXMLHeader>"
    ).partial
    assert partial == PartialHeader(sender_uri="a", receiver_uri="b")


def test_a_refusal_of_a_foreign_text_is_one_short_line_of_ascii() -> None:
    refusal = refused(changed('"OnceAndOnlyOnce"', '"\u4e2d&#10;' + "x" * 5_000 + '"'))
    assert len(refusal.description) < 300
