"""Header document to Header: times, numbers, DeliverySemantics, ids."""

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone

import pytest

from msh.protocol.message import Field
from msh.protocol.vocabulary import DeliverySemantics, ErrorCode
from tests.wire.samples import changed, normal, route
from tests.wire.trp.reading import (
    FRAGMENT,
    NEEDED,
    RELIABLE,
    emptied,
    header,
    of_type,
    refused,
    without,
)

# Times


@pytest.mark.requirement("000-041")
@pytest.mark.parametrize(
    "text",
    [
        "20001016T110000.250Z",
        "20001016T110000,25Z",
        "2000-10-16T11:00:00.250Z",
        "2000-10-16T11:00:00.250000000Z",
        "20001016T110000.250",
        "2000-10-16T13:00:00.250+02:00",
        "20001016T030000.250-0800",
        "20001016T120000.25+01",
        "\n 20001016T110000.250Z \n",
    ],
)
def test_a_time_is_read_in_the_basic_and_the_extended_form(text: str) -> None:
    """D32. In both places the same format; without an offset it is UTC."""
    document = changed("20001016T110000.250Z", text)
    document = changed("20001016T110000.000Z", text, document)
    moment = datetime(2000, 10, 16, 11, 0, 0, 250_000, tzinfo=UTC)
    assert header(document).route.timestamp == moment
    assert header(document).timestamp == moment


@pytest.fixture
def in_tokyo(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "Asia/Tokyo")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.usefixtures("in_tokyo")
def test_a_time_without_offset_is_utc_wherever_we_are() -> None:
    moment = header(changed("20001016T110000.250Z", "20001016T110000")).route.timestamp
    assert moment == datetime(2000, 10, 16, 11, tzinfo=UTC)


def test_a_time_with_an_offset_is_the_same_moment_in_utc() -> None:
    moment = header(changed("20001016T110000.250Z", "2000-10-16T13:00:00+02:00")).route.timestamp
    assert moment == datetime(2000, 10, 16, 13, tzinfo=timezone(timedelta(hours=2)))
    assert moment.tzinfo is UTC


@pytest.mark.parametrize(
    "text",
    [
        "yesterday",
        "2000-10-16",
        "20001016",
        "20001316T110000Z",
        "20001016T250000Z",
        "2000-W42-1T11:00:00Z",
        "2000-10-16 11:00:00",
        "2000-1016T110000Z",
        "20001016T1100Z",
        "00010101T000000+1400",
        "99991231T235959-1400",
        "00001016T110000Z",
        "\u0662\u0660001016T110000Z",
        "20001016T110000.Z",
        "-20001016T110000Z",
    ],
    ids=ascii,
)
def test_a_time_that_is_none_is_refused(text: str) -> None:
    refusal = refused(changed("20001016T110000.250Z", text))
    assert (refusal.code, refusal.field) == (
        ErrorCode.VALUE_NOT_RECOGNIZED,
        Field.ROUTING_TIMESTAMP,
    )


# SequenceNumber


@pytest.mark.requirement("000-044")
@pytest.mark.parametrize(
    ("text", "number"), [("1", 1), ("000000023", 23), ("999999999", 999_999_999), (" 07\n", 7)]
)
def test_a_sequence_number_is_one_to_nine_digits(text: str, number: int) -> None:
    document = changed(">23<", f">{text}<")
    assert header(document).route.sequence_number == number


NO_NUMBERS = ["0", "000000000", "1000000000", "0000000001", "-1", "+1", "1.0", "1 2", "x", ""]


@pytest.mark.requirement("000-044")
@pytest.mark.parametrize("text", [*NO_NUMBERS, "\u0661", "\uff11", "\u00b9", "1e3"], ids=ascii)
def test_anything_else_is_no_sequence_number(text: str) -> None:
    refusal = refused(changed(">23<", f">{text}<"))
    assert (refusal.code, refusal.field) == (ErrorCode.VALUE_NOT_RECOGNIZED, Field.SEQUENCE_NUMBER)
    assert "/ebXMLHeader/RoutingHeader/SequenceNumber" in refusal.description
    assert refusal.partial.sequence_text == text


@pytest.mark.requirement("000-042", "000-044")
def test_a_reliable_message_without_a_sequence_number_is_refused() -> None:
    refusal = refused(without("SequenceNumber"))
    assert (refusal.code, refusal.field) == (ErrorCode.VALUE_NOT_RECOGNIZED, Field.SEQUENCE_NUMBER)


@pytest.mark.requirement("000-054")
@pytest.mark.parametrize("number", ["23", "garbage", "<a/>", ""])
def test_number_of_a_best_effort_message_is_ignored(number: str) -> None:
    """D57."""
    document = changed(">23<", f">{number}<", changed('"OnceAndOnlyOnce"', '"BestEffort"'))
    assert header(document).route == route(sequence_number=None)


@pytest.mark.parametrize("message_type", ["Acknowledgement", "Error"])
def test_number_of_a_signal_is_ignored(message_type: str) -> None:
    document = changed(">23<", ">garbage<", of_type(message_type))
    assert header(document).route == route(sequence_number=None)


# DeliverySemantics


@pytest.mark.requirement("000-036", "000-071")
@pytest.mark.parametrize("value", ["AtMostOnce", "onceandonlyonce", "1", "OnceAndOnlyOnce2"])
def test_a_third_delivery_semantics_is_refused(value: str) -> None:
    """D25, D27: at-most-once is a word of the glossary, not of the wire."""
    for document in (
        changed('"OnceAndOnlyOnce"', f'"{value}"'),
        changed(RELIABLE, FRAGMENT.replace("OnceAndOnlyOnce", value)),
    ):
        refusal = refused(document)
        assert refusal.code is ErrorCode.VALUE_NOT_RECOGNIZED
        assert refusal.field is Field.DELIVERY_SEMANTICS


def test_missing_delivery_semantics_are_refused() -> None:
    """D57."""
    for document in (
        changed(RELIABLE, ""),
        changed('"OnceAndOnlyOnce"', '""'),
        changed(RELIABLE, "<ReliableMessagingInfo/>"),
    ):
        refusal = refused(document)
        assert refusal.code is ErrorCode.VALUE_NOT_RECOGNIZED
        assert refusal.field is Field.DELIVERY_SEMANTICS


def test_delivery_semantics_given_twice_must_agree() -> None:
    """D27."""
    both = FRAGMENT.replace("Info>", 'Info DeliverySemantics="OnceAndOnlyOnce">', 1)
    assert header(changed(RELIABLE, both)) == normal()
    refusal = refused(changed(RELIABLE, both.replace('="OnceAndOnlyOnce', '="BestEffort')))
    assert (refusal.code, refusal.field) == (ErrorCode.INCONSISTENT, Field.DELIVERY_SEMANTICS)


def test_a_signal_without_delivery_semantics_is_best_effort() -> None:
    document = changed(RELIABLE, "", of_type("Acknowledgement"))
    assert header(document).semantics is DeliverySemantics.BEST_EFFORT


# Ids


def test_a_message_id_of_255_characters_is_taken_whole() -> None:
    """D44."""
    message_id = "\u4e2d" * 255
    assert header(changed("order-1@sender.example", message_id)).message_id == message_id


@pytest.mark.parametrize("length", [256, 10_000])
@pytest.mark.requirement("002-11")
def test_a_longer_message_id_is_refused_and_never_cut(length: int) -> None:
    """D44."""
    refusal = refused(changed("order-1@sender.example", "x" * length))
    assert (refusal.code, refusal.field) == (ErrorCode.VALUE_NOT_RECOGNIZED, Field.MESSAGE_ID)
    assert refusal.partial.message_id == ""


@pytest.mark.parametrize("tag", ["TPAId", "ConversationId", "ServiceInterface", "Action"])
def test_any_other_value_has_a_limit(tag: str) -> None:
    taken = changed(f"<{tag}>", f"<{tag}>x", emptied(tag)).replace(">x<", f">{'x' * 1024}<")
    header(taken)
    refusal = refused(taken.replace(">x", ">xx"))
    assert (refusal.code, refusal.field) == (ErrorCode.VALUE_NOT_RECOGNIZED, NEEDED[tag])


@pytest.mark.parametrize("character", ["&#9;", "&#127;", "&#133;", "\u0080", "\t"], ids=ascii)
def test_a_control_character_in_an_id_is_refused(character: str) -> None:
    """D61."""
    refusal = refused(changed("order-1@", f"order{character}1@"))
    assert (refusal.code, refusal.field) == (ErrorCode.VALUE_NOT_RECOGNIZED, Field.MESSAGE_ID)
    assert refusal.partial.message_id == ""


@pytest.mark.parametrize("line_break", ["\n", "\r\n", "&#13;", "&#13;&#10;", "&#10;"])
def test_a_line_break_in_an_id_is_a_space(line_break: str) -> None:
    """D61."""
    read_id = header(changed("order-1@", f"{line_break}order{line_break}1@")).message_id
    assert read_id == "order 1@sender.example"


def test_ids_that_differ_in_an_unusual_character_stay_different() -> None:
    assert header(changed("order-1@", "order-1\u200b@")).message_id == (
        "order-1\u200b@sender.example"
    )
    assert header(changed("order-1@", "\u00a0order-1@")).message_id.startswith("\u00a0")


def test_an_element_inside_a_value_is_refused() -> None:
    """Two readers would read two ids."""
    refusal = refused(changed("order-1@", "order<b/>-1@"))
    assert (refusal.code, refusal.field) == (ErrorCode.OTHER_XML, Field.MESSAGE_ID)
