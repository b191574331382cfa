"""Envelopes that we compose: their form, what they may not hold, and that they are read back."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lxml import etree

from msh.protocol.ebms import signals
from msh.protocol.ebms.message import (
    Acknowledgment,
    AckRequested,
    Error,
    Message,
    MessageOrder,
    Party,
    PartyId,
    Reference,
    Service,
    StatusResponse,
)
from msh.protocol.ebms.signature import (
    ENVELOPED,
    SHA256,
    UNSIGNED_NODES,
    XPATH,
    SignedReference,
    Transform,
    shortened,
)
from msh.protocol.ebms.vocabulary import (
    SERVICE,
    Actor,
    ErrorCode,
    Kind,
    MessageStatus,
    OrderStatus,
    Severity,
)
from msh.protocol.message import Payload
from msh.wire import mime
from msh.wire.ebms2 import envelope
from msh.wire.ebms2.names import EB, SOAP, XLINK, XSI, ds, eb, soap
from tests.wire.ebms2.samples import MOMENT, composed, header, message, signal

ERROR = Error("ValueNotRecognized", Severity.ERROR, "//eb:CPAId", "what is this? <&>")
DIGESTS = (
    SignedReference(
        "", SHA256, "ZWZnaA==", (Transform(ENVELOPED), Transform(XPATH, UNSIGNED_NODES))
    ),
    SignedReference("cid:order@x", SHA256, "YWJjZA=="),
)
ALONE: dict[str, Message] = {
    "business": message(manifest=()),
    "best effort": message(manifest=(), ack_requested=(), eliminates_duplicates=False),
    "ordered": message(manifest=(), order=MessageOrder(0, OrderStatus.RESET)),
    "synchronous": message(manifest=(), sync_reply=True, time_to_live=None),
    "external": message(manifest=(Reference("mid:1@x"),)),
    "both actors": message(
        manifest=(),
        ack_requested=(AckRequested(signed=True), AckRequested(actor=Actor.NEXT_MSH)),
    ),
    "acknowledgment": signals.acknowledgment(signal(), [AckRequested()], MOMENT),
    "acknowledgment of both": signals.acknowledgment(
        signal(), [AckRequested(), AckRequested(actor=Actor.NEXT_MSH)], MOMENT
    ),
    "error": signals.message_error(signal(), (ERROR, Error("Unknown", Severity.WARNING))),
    "warning": signals.message_error(signal(), (replace(ERROR, severity=Severity.WARNING),)),
    "ping": signals.ping(signal(), sync_reply=True),
    "pong": signals.pong(signal()),
    "status request": signals.status_request(signal(), "order-1@sender.example"),
    "status response": signals.status_response(
        signal(), StatusResponse("order-1@sender.example", MessageStatus.PROCESSED, MOMENT)
    ),
    "status unknown": signals.status_response(
        signal(), StatusResponse("order-1@sender.example", MessageStatus.NOT_RECOGNIZED)
    ),
}


def document(whole: Message) -> etree._Element:
    return etree.fromstring(envelope.compose_alone(whole)[1])


def header_names(whole: Message) -> list[str]:
    found = document(whole).find(soap("Header"))
    assert found is not None
    return [etree.QName(each).localname for each in found]


# Read or composed here, decided by a flow: EB-144.
@pytest.mark.requirement("EB-001", "EB-028", "EB-053", "EB-095")
@pytest.mark.parametrize("name", ALONE)
def test_what_we_compose_is_read_as_it_was(name: str) -> None:
    received = envelope.parse(*envelope.compose_alone(ALONE[name]))
    assert received.message == ALONE[name]
    assert received.defects == ()


@pytest.mark.requirement("EB-018", "EB-021", "EB-022")
@pytest.mark.parametrize("name", ALONE)
def test_prefixes_versions_and_must_understand_are_ours(name: str) -> None:
    root = document(ALONE[name])
    assert root.nsmap == {"SOAP": SOAP, "eb": EB, "xlink": XLINK, "xsi": XSI}
    assert root.get(f"{{{XSI}}}schemaLocation", "").split()[::2] == [SOAP, EB]
    assert all(child.nsmap == root.nsmap for child in root.iter())
    header_element, body = root
    for block in header_element:
        assert (block.get(eb("version")), block.get(soap("mustUnderstand"))) == ("2.0", "1")
    for block in body:
        assert (block.get(eb("version")), block.get(soap("mustUnderstand"))) == ("2.0", None)


@pytest.mark.requirement("EB-028", "EB-041", "EB-042")
def test_the_header_is_written_in_the_order_of_the_schema() -> None:
    found = document(ALONE["business"]).find(f".//{eb('MessageHeader')}")
    assert found is not None
    assert [etree.QName(each).localname for each in found] == [
        *("From", "To", "CPAId", "ConversationId", "Service", "Action", "MessageData"),
        *("DuplicateElimination", "Description"),
    ]
    assert found[-2].text is None
    assert found[-1].get("{http://www.w3.org/XML/1998/namespace}lang") == "en"


# Read or composed here, decided by a flow: EB-078, EB-120.
@pytest.mark.requirement("EB-068")
@pytest.mark.parametrize(
    ("name", "blocks"),
    [
        ("best effort", ["MessageHeader"]),
        ("business", ["MessageHeader", "AckRequested"]),
        ("synchronous", ["MessageHeader", "SyncReply", "AckRequested"]),
        ("ordered", ["MessageHeader", "MessageOrder", "AckRequested"]),
        ("acknowledgment of both", ["MessageHeader", "Acknowledgment", "Acknowledgment"]),
        ("error", ["MessageHeader", "ErrorList"]),
        ("pong", ["MessageHeader"]),
    ],
)
def test_a_message_has_the_blocks_of_its_kind(name: str, blocks: list[str]) -> None:
    assert header_names(ALONE[name]) == blocks


@pytest.mark.requirement("EB-037")
@pytest.mark.parametrize(
    "moment",
    [
        datetime(2026, 11, 22, 12, 0, 0, 999_999, tzinfo=UTC),
        datetime(2026, 11, 22, 13, tzinfo=timezone(timedelta(hours=1))),
    ],
)
def test_times_are_utc_to_the_second(moment: datetime) -> None:
    root = document(message(manifest=(), timestamp=moment))
    assert root.findtext(f".//{eb('Timestamp')}") == "2026-11-22T12:00:00Z"


@pytest.mark.requirement("EB-054", "EB-055")
def test_errors_are_written_with_qualified_attributes_and_the_highest_severity() -> None:
    error_list = document(ALONE["error"]).find(f".//{eb('ErrorList')}")
    assert error_list is not None
    assert error_list.get(eb("highestSeverity")) == "Error"
    assert dict(error_list[0].attrib.items()) == {
        eb("codeContext"): "urn:oasis:names:tc:ebxml-msg:service:errors",
        eb("errorCode"): "ValueNotRecognized",
        eb("severity"): "Error",
        eb("location"): "//eb:CPAId",
    }
    warning = document(ALONE["warning"]).find(f".//{eb('ErrorList')}")
    assert warning is not None
    assert warning.get(eb("highestSeverity")) == "Warning"


@pytest.mark.requirement("EB-054")
@pytest.mark.parametrize("code", ErrorCode)
def test_every_code_can_be_reported(code: ErrorCode) -> None:
    whole = signals.message_error(signal(), (Error(code),))
    assert envelope.parse(*envelope.compose_alone(whole)).message.errors == (Error(code),)


@pytest.mark.requirement("EB-046", "EB-051")
def test_the_manifest_says_what_the_payloads_are() -> None:
    payloads = [Payload(b"1", "text/plain", "a@x", description="one"), Payload(b"2", "a/b", "b@x")]
    whole = message(manifest=envelope.manifest(payloads))
    content_type, body = composed(whole, payloads)
    assert envelope.parse(content_type, body).payloads == tuple(payloads)
    root = etree.fromstring(mime.parse(content_type, body, alone=frozenset())[0].content())
    references = root.findall(f".//{eb('Reference')}")
    assert [each.get(f"{{{XLINK}}}href") for each in references] == ["cid:a@x", "cid:b@x"]
    assert {each.get(f"{{{XLINK}}}type") for each in references} == {"simple"}
    assert document(ALONE["business"]).find(f".//{eb('Manifest')}") is None


# Read or composed here, decided by a flow: EB-098.
def test_an_acknowledgment_carries_the_digests_it_is_given() -> None:
    whole = signals.acknowledgment(signal(), [AckRequested()], MOMENT, DIGESTS)
    received = envelope.parse(*envelope.compose_alone(whole)).message.acknowledgments[0].digests
    assert received == tuple(replace(each, transforms=()) for each in DIGESTS)
    (xpath,) = document(whole).iter(ds("XPath"))
    assert shortened(xpath.text or "", ["SOAP"]) == UNSIGNED_NODES


# Read or composed here, decided by a flow: EB-038.
@pytest.mark.requirement("EB-034", "EB-035", "EB-036", "EB-045", "EB-096", "EB-145")
@pytest.mark.parametrize(
    ("whole", "words"),
    [
        (message(service=Service(SERVICE)), "no Action"),
        (message(service=Service("a b", "string")), "white space"),
        (message(from_party=Party(())), "PartyId is missing"),
        (message(to_party=Party((PartyId(""),))), "PartyId is missing"),
        (message(cpa_id=""), "CPAId is missing"),
        (message(cpa_id=" a"), "CPAId"),
        (message(action="a\tb"), "Action"),
        (message(message_id="a" * 256), "MessageId"),
        (message(timestamp=datetime(2026, 11, 22)), "no time zone"),  # noqa: DTZ001
        (message(acknowledgments=(Acknowledgment("a", MOMENT),)), "cannot have an Acknowledgment"),
        (message(errors=(ERROR,)), "cannot have an ErrorList"),
        (message(status_request="a"), "cannot have a StatusRequest"),
        (message(status_response=StatusResponse("a", MessageStatus.RECEIVED)), "StatusResponse"),
        (message(order=MessageOrder(-1)), "SequenceNumber"),
        (message(order=MessageOrder(100_000_000)), "SequenceNumber"),
        (message(manifest=(Reference(""),)), "href is missing"),
        (signals.message_error(signal(), ()), "needs an ErrorList"),
        (signals.message_error(signal(), (ERROR,) * 11), "at most 10"),
        (signals.message_error(signal(), (Error(""),)), "errorCode is missing"),
        (signals.message_error(signal(""), (ERROR,)), "a RefToMessageId"),
        (signals.acknowledgment(signal(), [], MOMENT), "needs an Acknowledgment"),
        (replace(signals.pong(signal()), ack_requested=(AckRequested(),)), "no AckRequested"),
        (
            replace(
                signals.acknowledgment(signal(), [AckRequested()], MOMENT),
                acknowledgments=(Acknowledgment("a", None),),
            ),
            "Timestamp is missing",
        ),
        (
            replace(
                signals.pong(signal()),
                header=replace(signals.pong(signal()).header, eliminates_duplicates=True),
            ),
            "DuplicateElimination",
        ),
        (
            replace(
                signals.ping(signal()),
                header=replace(signals.ping(signal()).header, ref_to_message_id="a"),
            ),
            "no RefToMessageId",
        ),
    ],
)
def test_what_breaks_a_rule_is_not_composed(whole: Message, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        envelope.compose_head(whole, "msh-1")


@pytest.mark.requirement("EB-055")
def test_texts_for_people_are_cut_and_cleaned() -> None:
    error = Error("Unknown", location="a\nb" * 1000, description="\x01c\r\nd" * 1000)
    whole = signals.message_error(signal(), (error,))
    (read,) = envelope.parse(*envelope.compose_alone(whole)).message.errors
    assert read.location.startswith("a ba b")
    assert len(read.location) <= 1000
    assert read.description.startswith("c d")
    assert len(read.description) <= 1000


TEXT = st.text(st.characters(categories=["L", "N", "P", "S"]), min_size=1, max_size=20)


@pytest.mark.requirement("EB-032", "EB-036")
@settings(max_examples=50)
@given(st.fixed_dictionaries(dict.fromkeys(("cpa_id", "action", "message_id"), TEXT)))
def test_any_text_that_can_be_shown_comes_back(values: dict[str, Any]) -> None:
    whole = message(manifest=(), **values)
    assert envelope.parse(*envelope.compose_alone(whole)).message == whole


# The schemas: they may not be copied, so their place is given with the corpus.


@pytest.fixture(scope="module")
def schema(corpus: Path) -> etree.XMLSchema:
    folder = corpus / "ebms-core/xsd"
    text = (
        '<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema">'
        f'<xs:import namespace="{SOAP}" schemaLocation="{folder}/envelope.xsd"/>'
        f'<xs:import namespace="{EB}" schemaLocation="{folder}/msg-header-2_0.xsd"/></xs:schema>'
    )
    return etree.XMLSchema(etree.fromstring(text))


@pytest.mark.requirement("EB-018", "EB-028", "EB-046", "EB-053", "EB-055", "EB-095", "EB-145")
def test_what_we_compose_is_valid(schema: etree.XMLSchema) -> None:
    payload = Payload(b"", "text/plain", "a@x", description="one")
    whole = {
        "with payload": message(manifest=envelope.manifest([payload])),
        "with digests": signals.acknowledgment(signal(), [AckRequested()], MOMENT, DIGESTS),
        **ALONE,
    }
    wrong = {}
    for name, each in whole.items():
        content_type, body = composed(each, [payload] if name == "with payload" else [])
        root = mime.parse(content_type, body, alone=frozenset({"text/xml"}))[0].content()
        if not schema.validate(etree.fromstring(root)):
            wrong[name] = str(schema.error_log)
    assert wrong == {}


def test_a_wrong_envelope_is_not_valid(schema: etree.XMLSchema) -> None:
    root = document(ALONE["business"])
    found = root.find(f".//{eb('CPAId')}")
    assert found is not None
    found.getparent().remove(found)  # type: ignore[union-attr]
    assert not schema.validate(root)


def test_kinds_are_those_of_the_values() -> None:
    assert {each.header.kind for each in ALONE.values()} == set(Kind)
    assert message().header == header()
