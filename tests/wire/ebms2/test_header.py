"""MessageHeader: what is taken, and the error and its place for what is not."""

from datetime import UTC, datetime

import pytest

from msh.protocol.ebms.errors import Unusable
from msh.protocol.ebms.message import PartialHeader, Party, PartyId, Service
from msh.protocol.ebms.vocabulary import Kind
from tests.wire.ebms2.samples import (
    EXAMPLE,
    NO_PAYLOAD,
    alone,
    changed,
    defects,
    header,
    message,
    of_kind,
    parsed,
    short,
)

AT = "/SOAP:Envelope/SOAP:Header/eb:MessageHeader"
DATA = f"{AT}/eb:MessageData"
LINES = {
    "From": f"{AT}/eb:From",
    "To": f"{AT}/eb:To",
    "CPAId": f"{AT}/eb:CPAId",
    "ConversationId": f"{AT}/eb:ConversationId",
    "Service": f"{AT}/eb:Service",
    "Action": f"{AT}/eb:Action",
    "MessageData": DATA,
    "MessageId": f"{DATA}/eb:MessageId",
    "Timestamp": f"{DATA}/eb:Timestamp",
}
"""What a header needs, and where an error about it points."""


def element(name: str, document: str = EXAMPLE) -> str:
    start = document.index(f"<eb:{name}")
    return document[start : document.index(f"</eb:{name}>", start) + len(f"</eb:{name}>")]


def unusable(document: str) -> Unusable:
    with pytest.raises(Unusable) as caught:
        parsed(document)
    return caught.value


def test_every_value_is_read() -> None:
    assert parsed().message == message()
    assert parsed().message.header == header()


@pytest.mark.requirement("EB-028")
def test_the_order_of_the_elements_does_not_matter() -> None:
    document = EXAMPLE
    for name in ("From", "CPAId", "Action", "MessageId"):
        markup = element(name)
        parent = "MessageData" if name == "MessageId" else "MessageHeader"
        without = changed(markup, "", document)
        document = changed(f"</eb:{parent}>", f"{markup}</eb:{parent}>", without)
    assert parsed(document).message == message()


@pytest.mark.requirement("EB-054", "EB-055")
@pytest.mark.parametrize("name", LINES)
def test_a_header_that_lacks_a_value_cannot_be_used(name: str) -> None:
    problem = unusable(changed(element(name), ""))
    assert LINES[name] in [each.error.location for each in problem.defects]
    assert {each.error.code for each in problem.defects} == {"ValueNotRecognized"}
    assert "is missing" in str(problem)


@pytest.mark.requirement("EB-054")
@pytest.mark.parametrize("name", [name for name in LINES if name != "MessageData"])
@pytest.mark.parametrize(
    ("value", "code"),
    [("", "ValueNotRecognized"), (" \n", "ValueNotRecognized"), ("<a/>", "OtherXml")],
)
def test_a_value_that_is_empty_or_an_element_cannot_be_used(
    name: str, value: str, code: str
) -> None:
    inner = "PartyId" if name in {"From", "To"} else name
    old = element(inner, element(name))
    new = old[: old.index(">") + 1] + value + f"</eb:{inner}>"
    problem = unusable(changed(element(name), element(name).replace(old, new)))
    assert [each.error.code for each in problem.defects] == [code]


@pytest.mark.requirement("EB-024")
@pytest.mark.parametrize("name", LINES)
def test_a_value_that_is_there_twice_is_inconsistent(name: str) -> None:
    found = defects(changed(element(name), element(name) * 2))
    assert [(code, place) for _, code, place in found] == [("Inconsistent", LINES[name])]


@pytest.mark.requirement("EB-029")
def test_a_party_without_any_id_cannot_be_used() -> None:
    party = element("From")
    problem = unusable(changed(party, party.replace(element("PartyId"), "")))
    assert [short(each) for each in problem.defects] == [
        ("EB-029", "ValueNotRecognized", f"{LINES['From']}/eb:PartyId")
    ]


# Read or composed here, decided by a flow: EB-062.
@pytest.mark.requirement("EB-056")
def test_all_that_is_wrong_is_reported_with_what_is_legible() -> None:
    document = changed(
        "cpa-4711", "", changed("2026-11-22T", "today ", changed("conv-", "co&#9;-"))
    )
    problem = unusable(document)
    assert [short(each)[::2] for each in problem.defects] == [
        ("EB-032", LINES["CPAId"]),
        ("EB-033", LINES["ConversationId"]),
        ("EB-037", LINES["Timestamp"]),
    ]
    assert problem.partial == PartialHeader(
        Kind.BUSINESS,
        header().from_party,
        header().to_party,
        message_id="order-1@sender.example",
    )
    signal = unusable(of_kind("Acknowledgment").replace("cpa-4711", ""))
    assert signal.partial.kind is Kind.ACKNOWLEDGMENT


@pytest.mark.requirement("EB-029")
def test_a_party_may_have_several_ids() -> None:
    more = '<eb:PartyId>urn:x:1</eb:PartyId><eb:PartyId eb:type="a">b</eb:PartyId>'
    party_id = element("PartyId")
    document = changed(element("From"), element("From").replace(party_id, party_id + more))
    ids = (PartyId("111111111", "urn:duns"), PartyId("urn:x:1"), PartyId("b", "a"))
    assert parsed(document).message.header.from_party == Party(ids, "Buyer")
    assert parsed(document).defects == ()


@pytest.mark.requirement("EB-030", "EB-034")
@pytest.mark.parametrize("value", ["http://x/", "urn:x:y", "mailto:a@b", "x+y:z"])
def test_without_a_type_a_uri_stands_by_itself(value: str) -> None:
    typed = ' eb:type="urn:duns">222222222'
    document = changed(' eb:type="string">QuoteToCollect', f">{value}", changed(typed, f">{value}"))
    assert parsed(document).defects == ()
    assert parsed(document).message.header.service == Service(value)


@pytest.mark.requirement("EB-030", "EB-034")
@pytest.mark.parametrize("value", ["1", "a b", ":x", "x:", "1:x", "\u00e9:x"])
def test_without_a_type_anything_else_is_inconsistent_unless_the_agreement_says_so(
    value: str,
) -> None:
    document = changed(' eb:type="urn:duns">222222222', f">{value}")
    received = parsed(changed(' eb:type="string">QuoteToCollect', f">{value}", document))
    assert [(short(each), each.waivable) for each in received.defects] == [
        (("EB-030", "Inconsistent", f"{AT}/eb:To/eb:PartyId[1]"), True),
        (("EB-034", "Inconsistent", f"{AT}/eb:Service"), True),
    ]


# Read or composed here, decided by a flow: EB-031.
def test_a_role_may_be_missing() -> None:
    document = changed("<eb:Role>Buyer</eb:Role>", "")
    assert parsed(document).message.header.from_party.role == ""
    assert parsed(document).defects == ()


@pytest.mark.requirement("EB-022")
@pytest.mark.parametrize(
    ("version", "waivable"), [("1.0", False), ("2.1", True), ("", False), ("2", False)]
)
def test_another_version_is_inconsistent(version: str, waivable: bool) -> None:
    old, new = '<eb:MessageHeader eb:version="2.0"', f'<eb:MessageHeader eb:version="{version}"'
    (defect,) = parsed(changed(old, new)).defects
    assert short(defect) == ("EB-022", "Inconsistent", f"{AT}/@eb:version")
    assert defect.waivable is waivable


@pytest.mark.requirement("EB-021")
@pytest.mark.parametrize("text", ['"0"', '"1"', '"true"', '"false"', '" 1 "'])
def test_must_understand_is_read_in_every_form(text: str) -> None:
    assert defects(EXAMPLE.replace('SOAP:mustUnderstand="1"', f"SOAP:mustUnderstand={text}")) == []
    assert defects(EXAMPLE.replace(' SOAP:mustUnderstand="1"', "")) == []


@pytest.mark.requirement("EB-021")
def test_must_understand_of_another_value_is_an_error() -> None:
    old = '<eb:MessageHeader eb:version="2.0" SOAP:mustUnderstand="1"'
    expected = [("EB-021", "ValueNotRecognized", f"{AT}/@SOAP:mustUnderstand")]
    assert defects(changed(old, old.replace('"1"', '"maybe"'))) == expected


@pytest.mark.requirement("EB-023")
def test_an_id_may_be_any_text() -> None:
    for value in ("1", "8681AF4F-E577", "a b", "\u4e2d"):
        assert (
            defects(EXAMPLE.replace(' eb:version="2.0"', f' eb:version="2.0" eb:id="{value}"'))
            == []
        )


@pytest.mark.requirement("EB-027")
def test_attributes_may_be_unqualified() -> None:
    document = EXAMPLE.replace("eb:type", "type").replace("eb:version", "version")
    received = parsed(document.replace("eb:signed", "signed"))
    assert received.message == message()
    assert received.defects == ()


@pytest.mark.requirement("EB-032", "EB-034")
@pytest.mark.parametrize("value", ["nav:qass:31162", "S1001A1630", "a_b_c", "urn:x:1", "\u4e2d"])
def test_ids_are_text_of_any_form(value: str) -> None:
    assert parsed(changed("cpa-4711", value)).message.header.cpa_id == value
    assert defects(changed("cpa-4711", value)) == []


@pytest.mark.requirement("EB-035")
@pytest.mark.parametrize("action", ["Order", "acknowledgment", "Error"])
def test_the_reserved_service_takes_no_action_of_its_own(action: str) -> None:
    received = alone(of_kind(action))
    assert received.message.header.kind is Kind.BUSINESS
    assert [short(each) for each in received.defects] == [
        ("EB-035", "ValueNotRecognized", f"{AT}/eb:Action")
    ]


@pytest.mark.requirement("EB-036")
@pytest.mark.parametrize(
    ("value", "taken"),
    [("1", True), ("a" * 255, True), ("a" * 256, False), ("a&#9;b", False), ("<>", False)],
)
def test_a_message_id_is_any_text_that_can_be_shown(value: str, taken: bool) -> None:
    document = changed("order-1@sender.example", value)
    if taken:
        assert parsed(document).message.header.message_id == value
    elif value == "<>":
        assert parsed(changed("order-1@", "&lt;1&gt;@")).message.header.message_id[:3] == "<1>"
    else:
        assert unusable(document).defects[0].rule == "EB-036"


# Read or composed here, decided by a flow: EB-040.
@pytest.mark.requirement("EB-037")
@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2026-11-22T12:00:00", datetime(2026, 11, 22, 12, tzinfo=UTC)),
        ("2026-11-22T12:00:00Z", datetime(2026, 11, 22, 12, tzinfo=UTC)),
        ("2026-11-22T13:00:00+01:00", datetime(2026, 11, 22, 12, tzinfo=UTC)),
        ("2026-11-22T12:00:00.5", datetime(2026, 11, 22, 12, 0, 0, 500_000, tzinfo=UTC)),
        ("2026-11-22T12:00:00.1234567Z", datetime(2026, 11, 22, 12, 0, 0, 123_456, tzinfo=UTC)),
        (" 2026-11-22T12:00:00Z\n", datetime(2026, 11, 22, 12, tzinfo=UTC)),
    ],
)
def test_a_time_is_an_xs_date_time(text: str, moment: datetime) -> None:
    document = changed("2026-11-22T12:00:00Z", text)
    assert parsed(document).message.header.timestamp == moment
    document = changed("2026-11-23T12:00:00Z", text)
    assert parsed(document).message.header.time_to_live == moment


# Read or composed here, decided by a flow: EB-040.
@pytest.mark.requirement("EB-037")
@pytest.mark.parametrize(
    "text",
    ["null", "20261122T120000Z", "2026-11-22", "2026-13-22T12:00:00Z", "Sun Nov 22 12:00:00 2026"],
)
def test_any_other_time_is_not_recognised(text: str) -> None:
    problem = unusable(changed("2026-11-22T12:00:00Z", text))
    assert [short(each) for each in problem.defects] == [
        ("EB-037", "ValueNotRecognized", LINES["Timestamp"])
    ]
    expected = [("EB-040", "ValueNotRecognized", f"{DATA}/eb:TimeToLive")]
    assert defects(changed("2026-11-23T12:00:00Z", text)) == expected


# Read or composed here, decided by a flow: EB-038, EB-039.
def test_what_a_message_refers_to_may_be_missing() -> None:
    bare = changed(element("RefToMessageId"), "")
    assert parsed(bare).message.header.ref_to_message_id == ""
    assert parsed(changed("quote-1@", "unknown@")).defects == ()


@pytest.mark.requirement("EB-041")
@pytest.mark.parametrize(
    ("markup", "there"),
    [("", False), ("<eb:DuplicateElimination>always</eb:DuplicateElimination>", True)],
)
def test_duplicate_elimination_is_its_presence(markup: str, there: bool) -> None:
    received = parsed(changed("<eb:DuplicateElimination/>", markup))
    assert received.message.header.eliminates_duplicates is there
    assert received.defects == ()


@pytest.mark.requirement("EB-042")
@pytest.mark.parametrize(
    ("markup", "text"),
    [
        ("", ""),
        ("<eb:Description>a</eb:Description>", "a"),
        ("<eb:Description/><eb:Description>b</eb:Description>", "b"),
    ],
)
def test_a_description_is_read_without_a_language_and_in_several(markup: str, text: str) -> None:
    whole = '<eb:Description xml:lang="en">An order</eb:Description>'
    document = changed(whole, markup)
    assert parsed(document).message.header.description == text
    assert parsed(document).defects == ()


def test_kinds_are_told_by_service_and_action() -> None:
    assert alone(NO_PAYLOAD).message.header.kind is Kind.BUSINESS
    for kind in Kind:
        if kind.is_signal:
            assert alone(of_kind(kind)).message.header.kind is kind
