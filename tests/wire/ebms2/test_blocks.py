"""The other blocks: acknowledgments, errors, order, sync replies, status."""

from datetime import UTC, datetime

import pytest

from msh.protocol.ebms.message import (
    Acknowledgment,
    AckRequested,
    Error,
    Message,
    MessageOrder,
    PartyId,
    ReceivedMessage,
    StatusResponse,
)
from msh.protocol.ebms.vocabulary import (
    ERROR_CONTEXT,
    Actor,
    Kind,
    MessageStatus,
    OrderStatus,
    Severity,
    Stage,
)
from tests.wire.ebms2.samples import (
    ACK_REQUESTED,
    EXAMPLE,
    alone,
    changed,
    defects,
    of_kind,
    parsed,
    short,
    with_body_block,
    with_header_block,
)

AT = "/SOAP:Envelope/SOAP:Header"
HEAD = 'eb:version="2.0" SOAP:mustUnderstand="1"'
NEXT_MSH = ACK_REQUESTED.replace("toPartyMSH", "nextMSH")
SYNC_REPLY = f'<eb:SyncReply {HEAD} SOAP:actor="http://schemas.xmlsoap.org/soap/actor/next"/>'
DIGEST = (
    '<ds:Reference xmlns:ds="http://www.w3.org/2000/09/xmldsig#" URI="cid:order@x">'
    '<ds:DigestMethod Algorithm="http://www.w3.org/2001/04/xmlenc#sha256"/>'
    "<ds:DigestValue>YWJj\nZA==</ds:DigestValue></ds:Reference>"
)
ACK = (
    f"<eb:Acknowledgment {HEAD}><eb:Timestamp>2026-11-22T12:00:01Z</eb:Timestamp>"
    "<eb:RefToMessageId>order-1@sender.example</eb:RefToMessageId>"
    '<eb:From><eb:PartyId eb:type="urn:duns">222222222</eb:PartyId></eb:From>'
    f"{DIGEST}</eb:Acknowledgment>"
)
ERRORS = (
    f'<eb:ErrorList {HEAD} eb:highestSeverity="Error">'
    '<eb:Error eb:errorCode="Inconsistent" eb:severity="Error" eb:location="//eb:CPAId">'
    '<eb:Description xml:lang="en">no such\nagreement</eb:Description></eb:Error>'
    '<eb:Error eb:codeContext="urn:x" eb:errorCode="501314" eb:severity="Warning"/></eb:ErrorList>'
)


def shorts(received: ReceivedMessage) -> list[tuple[str, str, str]]:
    return [short(each) for each in received.defects]


# AckRequested, SyncReply


@pytest.mark.requirement("EB-044", "EB-097")
@pytest.mark.parametrize(
    ("blocks", "asked"),
    [
        ("", ()),
        (NEXT_MSH, (AckRequested(actor=Actor.NEXT_MSH),)),
        (ACK_REQUESTED + NEXT_MSH, (AckRequested(), AckRequested(actor=Actor.NEXT_MSH))),
        (f'<eb:AckRequested {HEAD} eb:signed="true"/>', (AckRequested(signed=True),)),
        (f'<eb:AckRequested {HEAD} eb:signed="0"/>', (AckRequested(),)),
    ],
)
def test_an_acknowledgment_is_asked_of_either_msh(
    blocks: str, asked: tuple[AckRequested, ...]
) -> None:
    received = parsed(changed(ACK_REQUESTED, blocks))
    assert received.message.ack_requested == asked
    assert received.defects == ()


# Read or composed here, decided by a flow: EB-043.
@pytest.mark.requirement("EB-024", "EB-044")
@pytest.mark.parametrize(
    ("block", "expected"),
    [
        (
            ACK_REQUESTED.replace("toPartyMSH", "another"),
            ("EB-044", "Inconsistent", "/@SOAP:actor"),
        ),
        (ACK_REQUESTED.replace("false", "no"), ("EB-043", "ValueNotRecognized", "/@eb:signed")),
        (ACK_REQUESTED * 2, ("EB-024", "Inconsistent", "")),
        (ACK_REQUESTED.replace("2.0", "1.0"), ("EB-022", "Inconsistent", "/@eb:version")),
    ],
)
def test_a_wrong_ack_requested_is_an_error(block: str, expected: tuple[str, str, str]) -> None:
    rule, code, path = expected
    found = defects(changed(ACK_REQUESTED, block))
    assert found == [(rule, code, f"{AT}/eb:AckRequested{path}")]


@pytest.mark.requirement("EB-068")
def test_a_sync_reply_is_for_the_next_actor() -> None:
    received = parsed(with_header_block(SYNC_REPLY))
    assert received.message.sync_reply
    assert received.defects == ()
    wrong = with_header_block(SYNC_REPLY.replace("actor/next", "actor/other"))
    assert defects(wrong) == [("EB-068", "Inconsistent", f"{AT}/eb:SyncReply/@SOAP:actor")]


@pytest.mark.requirement("EB-024")
@pytest.mark.parametrize("name", ["MessageHeader", "SyncReply", "MessageOrder", "ErrorList"])
def test_a_block_that_is_there_twice_is_inconsistent(name: str) -> None:
    document = with_header_block(f"<eb:{name}/><eb:{name}/>")
    assert ("EB-024", "Inconsistent", f"{AT}/eb:{name}") in defects(document)


@pytest.mark.requirement("EB-024")
def test_two_signatures_or_manifests_are_inconsistent() -> None:
    signature = '<Signature xmlns="http://www.w3.org/2000/09/xmldsig#"/>'
    assert not parsed().message.signed
    assert parsed(with_header_block(signature)).message.signed
    document = with_body_block('<eb:Manifest eb:version="2.0"/>', with_header_block(signature * 2))
    assert defects(document) == [
        ("EB-024", "Inconsistent", f"{AT}/ds:Signature"),
        ("EB-024", "Inconsistent", "/SOAP:Envelope/SOAP:Body/eb:Manifest"),
    ]


# MessageOrder


def ordered(text: str, more: str = "") -> str:
    order = f"<eb:MessageOrder {HEAD}><eb:SequenceNumber{more}>{text}</eb:SequenceNumber>"
    return with_header_block(f"{order}</eb:MessageOrder>")


@pytest.mark.requirement("EB-121")
@pytest.mark.parametrize(
    ("text", "more", "order"),
    [
        ("1", "", MessageOrder(1)),
        ("00000001", ' eb:status="Continue"', MessageOrder(1)),
        ("0", ' eb:status="Reset"', MessageOrder(0, OrderStatus.RESET)),
        ("99999999", ' status="Continue"', MessageOrder(99_999_999)),
    ],
)
def test_the_order_of_a_message_is_read(text: str, more: str, order: MessageOrder) -> None:
    received = parsed(ordered(text, more))
    assert received.message.order == order
    assert received.defects == ()


@pytest.mark.requirement("EB-121")
@pytest.mark.parametrize(
    ("text", "more", "path"),
    [
        ("-1", "", ""),
        ("100000000", "", ""),
        ("one", "", ""),
        ("\u0661", "", ""),
        ("", "", ""),
        ("1", ' eb:status="Begin"', "/@eb:status"),
    ],
)
def test_an_order_that_cannot_be_read_is_an_error(text: str, more: str, path: str) -> None:
    location = f"{AT}/eb:MessageOrder/eb:SequenceNumber{path}"
    received = parsed(ordered(text, more))
    assert received.message.order is None
    assert shorts(received) == [("EB-121", "ValueNotRecognized", location)]


def test_an_order_without_a_number_is_an_error() -> None:
    location = f"{AT}/eb:MessageOrder/eb:SequenceNumber"
    document = with_header_block(f"<eb:MessageOrder {HEAD}/>")
    assert defects(document) == [("EB-121", "ValueNotRecognized", location)]


# Read or composed here, decided by a flow: EB-076, EB-125.
@pytest.mark.parametrize(
    ("document", "rules"),
    [
        (changed(ACK_REQUESTED, "", ordered("1")), ["EB-125"]),
        (changed("<eb:DuplicateElimination/>", "", ordered("1")), ["EB-125"]),
        (with_header_block(SYNC_REPLY, ordered("1")), ["EB-076"]),
    ],
)
def test_order_needs_reliability_and_no_sync_reply(document: str, rules: list[str]) -> None:
    found = parsed(document).defects
    assert [each.rule for each in found] == rules
    assert {(each.stage, each.waivable) for each in found} == {(Stage.ORDER, True)}
    assert {each.error.code for each in found} == {"Inconsistent"}


# Acknowledgment


# Read or composed here, decided by a flow: EB-086, EB-098.
@pytest.mark.requirement("EB-095")
def test_an_acknowledgment_is_read_with_its_digests() -> None:
    received = alone(of_kind("Acknowledgment", ACK))
    assert received.defects == ()
    (block,) = received.message.acknowledgments
    (digest,) = block.digests
    assert block == Acknowledgment(
        "order-1@sender.example",
        datetime(2026, 11, 22, 12, 0, 1, tzinfo=UTC),
        party_ids=(PartyId("222222222", "urn:duns"),),
        digests=(digest,),
    )
    assert (digest.uri, digest.value) == ("cid:order@x", "YWJjZA==")
    assert digest.method.endswith("sha256")


def acknowledged(message: Message) -> list[str]:
    return [one.message_id for one in message.answers if one.acknowledged]


# Read or composed here, decided by a flow: EB-086.
def test_what_is_acknowledged_is_named_in_the_header_or_else_in_the_block() -> None:
    document = of_kind("Acknowledgment", ACK)
    assert acknowledged(alone(document).message) == ["quote-1@receiver.example"]
    reference = "<eb:RefToMessageId>quote-1@receiver.example</eb:RefToMessageId>"
    bare = changed(reference, "", document)
    assert acknowledged(alone(bare).message) == ["order-1@sender.example"]
    assert alone(bare).defects == ()
    assert acknowledged(alone(of_kind("Acknowledgment")).message) == []


# Read or composed here, decided by a flow: EB-062, EB-086.
def test_an_acknowledgment_of_nothing_is_noted() -> None:
    assert shorts(alone(of_kind("Acknowledgment"))) == [
        ("EB-086", "Inconsistent", f"{AT}/eb:Acknowledgment")
    ]


@pytest.mark.requirement("EB-024", "EB-095")
@pytest.mark.parametrize(
    ("blocks", "rule", "path"),
    [
        (ACK * 2, "EB-024", ""),
        (ACK.replace(HEAD, f'{HEAD} SOAP:actor="urn:x"'), "EB-044", "/@SOAP:actor"),
        (ACK.replace("2026-11-22T12:00:01Z", ""), "EB-095", "/eb:Timestamp"),
    ],
)
def test_a_wrong_acknowledgment_is_noted(blocks: str, rule: str, path: str) -> None:
    found = shorts(alone(of_kind("Acknowledgment", blocks)))
    assert (rule, f"{AT}/eb:Acknowledgment{path}") in [(each[0], each[2]) for each in found]


# Read or composed here, decided by a flow: EB-098.
def test_a_digest_that_lacks_everything_is_empty() -> None:
    bare = '<Reference xmlns="http://www.w3.org/2000/09/xmldsig#"/>'
    document = of_kind("Acknowledgment", ACK.replace(DIGEST, bare).replace("From>", "Fro>"))
    (block,) = alone(document).message.acknowledgments
    assert block.party_ids == ()
    assert [(each.uri, each.method, each.value) for each in block.digests] == [("", "", "")]


# Read or composed here, decided by a flow: EB-088.
def test_a_business_message_may_carry_an_acknowledgment() -> None:
    received = parsed(with_header_block(ACK))
    assert received.message.header.kind is Kind.BUSINESS
    assert acknowledged(received.message) == ["order-1@sender.example"]
    assert received.defects == ()


# ErrorList


# Read or composed here, decided by a flow: EB-058, EB-059.
@pytest.mark.requirement("EB-054", "EB-057")
def test_errors_are_read_with_codes_of_others() -> None:
    received = alone(of_kind("MessageError", ERRORS))
    assert received.defects == ()
    assert received.message.errors == (
        Error("Inconsistent", Severity.ERROR, "//eb:CPAId", "no such agreement", ERROR_CONTEXT),
        Error("501314", Severity.WARNING, "", "", "urn:x"),
    )


# Read or composed here, decided by a flow: EB-060.
def test_errors_beside_an_acknowledgment_are_both_read() -> None:
    received = alone(of_kind("Acknowledgment", ACK + ERRORS))
    assert received.message.acknowledgments
    assert [each.severity for each in received.message.errors] == list(reversed(Severity))


# Read or composed here, decided by a flow: EB-061.
@pytest.mark.parametrize(
    "error_list",
    [
        "",
        "<eb:ErrorList/>",
        f"<eb:ErrorList {HEAD}><eb:Error/></eb:ErrorList>",
        f'<eb:ErrorList {HEAD}><eb:Error eb:errorCode="Unknown"/></eb:ErrorList>',
        f'<eb:ErrorList {HEAD}><eb:Error eb:severity="Error"/></eb:ErrorList>',
        f'<eb:ErrorList {HEAD}><eb:Error eb:errorCode="a" eb:severity="Bad"/></eb:ErrorList>',
    ],
)
def test_errors_that_cannot_be_read_are_noted(error_list: str) -> None:
    received = alone(of_kind("MessageError", error_list))
    assert received.message.errors == ()
    assert "EB-061" in {each.rule for each in received.defects}


# Read or composed here, decided by a flow: EB-061.
def test_errors_about_nothing_are_noted() -> None:
    reference = "<eb:RefToMessageId>quote-1@receiver.example</eb:RefToMessageId>"
    received = alone(changed(reference, "", of_kind("MessageError", ERRORS)))
    assert len(received.message.errors) == 2
    assert shorts(received) == [("EB-061", "Inconsistent", f"{AT}/eb:ErrorList")]


# Status


def status(name: str, inner: str, more: str = "") -> str:
    return of_kind(name, body=f'<eb:{name} eb:version="2.0"{more}>{inner}</eb:{name}>')


REF = "<eb:RefToMessageId>order-1@x</eb:RefToMessageId>"


# Read or composed here, decided by a flow: EB-143.
def test_a_status_request_and_its_response_are_read() -> None:
    request = alone(status("StatusRequest", REF))
    assert (request.message.status_request, request.defects) == ("order-1@x", ())
    moment = "<eb:Timestamp>2026-11-22T12:00:00Z</eb:Timestamp>"
    for each in MessageStatus:
        attribute = f' eb:messageStatus="{each}"'
        response = alone(status("StatusResponse", REF + moment, attribute))
        assert response.message.status_response == StatusResponse(
            "order-1@x", each, datetime(2026, 11, 22, 12, tzinfo=UTC)
        )
        assert response.defects == ()


# Read or composed here, decided by a flow: EB-062, EB-143.
@pytest.mark.parametrize(
    "document",
    [
        of_kind("StatusRequest"),
        status("StatusRequest", ""),
        of_kind("StatusResponse"),
        status("StatusResponse", REF),
        status("StatusResponse", REF, ' eb:messageStatus="Lost"'),
        status("StatusResponse", "", ' eb:messageStatus="Received"'),
    ],
)
def test_a_status_that_cannot_be_read_is_noted(document: str) -> None:
    received = alone(document)
    assert received.message.status_request == ""
    assert received.message.status_response is None
    assert {each.rule for each in received.defects} == {"EB-143"}


@pytest.mark.requirement("EB-045", "EB-145")
def test_a_signal_that_has_what_it_should_not_is_taken() -> None:
    document = changed("</SOAP:Header>", f"{ACK_REQUESTED}</SOAP:Header>", of_kind("Ping"))
    received = alone(document)
    assert received.message.header.kind is Kind.PING
    assert received.message.header.eliminates_duplicates
    assert received.defects == ()


def test_the_example_has_nothing_wrong() -> None:
    assert defects(EXAMPLE) == []
