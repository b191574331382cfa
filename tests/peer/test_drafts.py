"""What the peer writes is what a test said, and what it reads is what was written."""

import pytest

from .drafts import FIELDS, Draft, Payload, acknowledgement, error, normal
from .reading import Message, NotAMessage
from .writing import OMIT, Raw

TEXTS = {
    "tpa_id": "Header/TPAInfo/TPAId",
    "conversation_id": "Header/TPAInfo/ConversationId",
    "service_interface": "Header/TPAInfo/ServiceInterface",
    "action": "Header/TPAInfo/Action",
    "message_id": "Header/MessageData/MessageId",
    "timestamp": "Header/MessageData/TimeStamp",
    "ref_to_message_id": "Header/MessageData/RefToMessageId",
    "sender_uri": "RoutingHeader/SenderURI",
    "receiver_uri": "RoutingHeader/ReceiverURI",
    "error_uri": "RoutingHeader/ErrorURI",
    "routing_timestamp": "RoutingHeader/Timestamp",
    "sequence_number": "RoutingHeader/SequenceNumber",
    "from_party": "Header/From/PartyId",
    "to_party": "Header/To/PartyId",
}


def read(draft: Draft) -> Message:
    return Message(draft.content_type, draft.body)


@pytest.mark.parametrize("field", TEXTS)
def test_every_field_can_be_set_emptied_and_left_out(field: str) -> None:
    draft = normal()
    assert read(draft.but(**{field: 'a <b> & "c"'})).text(TEXTS[field]) == 'a <b> & "c"'
    assert read(draft.but(**{field: ""})).text(TEXTS[field]) == ""
    assert read(draft.but(**{field: OMIT})).text(TEXTS[field]) is None


def test_raw_goes_in_unescaped() -> None:
    assert read(normal(action=Raw("&#65; <!-- x -->"))).text("Header/TPAInfo/Action") == "A "


def test_a_normal_message_has_the_draft_s_outline() -> None:
    assert read(normal()).outline() == [
        "ebXMLHeader",
        ".Manifest",
        "..DocumentReference",
        "...DocumentLabel",
        "...DocumentId",
        "...DocumentDescription",
        ".Header",
        "..From",
        "...PartyId",
        "..To",
        "...PartyId",
        "..TPAInfo",
        "...TPAId",
        "...ConversationId",
        "...ServiceInterface",
        "...Action",
        "..MessageData",
        "...MessageId",
        "...TimeStamp",
        "...RefToMessageId",
        "..ReliableMessagingInfo",
        ".RoutingHeader",
        "..SenderURI",
        "..ReceiverURI",
        "..ErrorURI",
        "..Timestamp",
        "..SequenceNumber",
    ]


def test_a_best_effort_message_has_no_number() -> None:
    message = read(normal(semantics="BestEffort"))
    assert message.semantics == "BestEffort"
    assert message.sequence_number is None


@pytest.mark.parametrize("encoding", ["binary", "base64", "quoted-printable"])
@pytest.mark.parametrize(
    "content", [b"", b"\r\n", b"\n", b"\r", bytes(range(256)) * 40, b"--peer\r\n--", b"a=b \r\n"]
)
def test_payloads_come_through_byte_for_byte(content: bytes, encoding: str) -> None:
    payloads = [Payload(content, transfer_encoding=encoding), Payload(b"second")]
    assert read(normal(payloads=payloads)).payloads == [content, b"second"]


def test_a_changed_copy_keeps_its_identity() -> None:
    first = normal()
    copy = first.but(action="Other")
    assert copy.message_id == first.message_id
    assert copy["timestamp"] == first["timestamp"]
    assert copy.body != first.body


def test_a_draft_is_the_same_bytes_every_time() -> None:
    draft = normal()
    assert draft.body == draft.body
    assert normal().message_id != draft.message_id


def test_an_unknown_field_is_refused() -> None:
    with pytest.raises(TypeError, match="no such field: sequence"):
        normal(sequence=1)
    assert "sequence" not in FIELDS


def test_an_acknowledgement_answers_the_message_that_came() -> None:
    came = read(normal(tpa_id="tpa-9", sender_uri="http://a/", receiver_uri="http://b/"))
    ack = read(acknowledgement(came))
    assert ack.message_type == "Acknowledgement"
    assert ack.ref_to_message_id == came.message_id
    assert (ack.from_party, ack.to_party) == ("http://b/", "http://a/")
    assert (ack.sender_uri, ack.receiver_uri) == ("http://b/", "http://a/")
    assert (ack.tpa_id, ack.conversation_id) == ("tpa-9", came.conversation_id)
    assert ack.semantics == "BestEffort"
    assert ack.sequence_number is None
    assert len(ack.parts) == 1


def test_an_error_says_what_was_asked() -> None:
    message = read(error("id-1", "TransientError", min_retry_secs=5))
    assert message.message_type == "Error"
    assert message.ref_to_message_id == "id-1"
    assert message.error_code == "TransientError"
    assert message.text("ErrorHeader/Error/Severity") == "TransientError"
    assert message.text("ErrorHeader/Error/MinRetrySecs") == "5"
    assert read(error("id-1", "SequenceGap")).text("ErrorHeader/Error/MinRetrySecs") is None


def test_several_routing_headers_or_none() -> None:
    two = read(normal(routing_headers=[{}, {"sender_uri": "http://router/"}]))
    assert [e.text for e in two.find_all("RoutingHeader/SenderURI")][1] == "http://router/"
    assert read(normal(routing_headers=[])).find("RoutingHeader") is None


@pytest.mark.parametrize(
    ("content_type", "body"),
    [
        ("multipart/related", b"--x\r\n\r\n\r\n--x--"),
        ("multipart/related; boundary=x", b"--y\r\n\r\n--y--"),
        ("multipart/related; boundary=x", b"--x\r\nA: b\r\n\r\nunclosed"),
        ("multipart/related; boundary=x", b"--x\r\nno end\r\n--x--"),
    ],
)
def test_invalid_package_is_not_a_message(content_type: str, body: bytes) -> None:
    with pytest.raises(NotAMessage):
        Message(content_type, body)


def test_invalid_xml_is_not_a_message() -> None:
    message = Message("application/vnd.eb+xml", b"<a>")
    with pytest.raises(NotAMessage):
        message.root  # noqa: B018
