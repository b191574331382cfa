"""Header document to Header: the examples, and everything else that says the same."""

from datetime import UTC, datetime

import pytest

from msh.protocol.message import Field, Party
from msh.protocol.vocabulary import ErrorCode, MessageType
from tests.wire.samples import EXAMPLE, MANIFEST, ROUTING_HEADER, changed, normal, route
from tests.wire.trp.reading import FRAGMENT, RELIABLE, header, of_type, refused, unreadable, without

# The examples


def test_the_example_of_the_wire_format_is_read() -> None:
    assert header(EXAMPLE) == normal()


SAMPLE = """
    <RoutingHeader>

        <SenderURI>

            http://www.sender_company.com/ebxmlhandler/

        </SenderURI>

        <ReceiverURI>

            http://www.receiver_company.com/ebxmlhandler/

        </ReceiverURI>

        <ErrorURI>

            http://www.sender_company.com/ebxmlerrorhandler/

        </ErrorURI>

        <Timestamp>

            19991110T102344.000Z

        </Timestamp>

        <SequenceNumber>

            000000023

        </SequenceNumber>

    </RoutingHeader>
"""


@pytest.mark.requirement("000-056")
def test_the_sample_of_the_draft_is_read_as_number_23() -> None:
    """000 section 2.4, its unclosed SenderURI repaired (D32)."""
    assert header(changed(ROUTING_HEADER, SAMPLE)).route == route(
        sender_uri="http://www.sender_company.com/ebxmlhandler/",
        receiver_uri="http://www.receiver_company.com/ebxmlhandler/",
        error_uri="http://www.sender_company.com/ebxmlerrorhandler/",
        timestamp=datetime(1999, 11, 10, 10, 23, 44, tzinfo=UTC),
        sequence_number=23,
    )


@pytest.mark.requirement("000-036")
def test_the_fragment_of_the_draft_is_read_as_reliable() -> None:
    """000 section 2.2.1: a child element where the text says attribute (D27)."""
    assert header(changed(RELIABLE, FRAGMENT)) == normal()


@pytest.mark.requirement("000-055")
def test_e_dtype_attributes_may_be_present() -> None:
    """000 section 2.3."""
    document = changed("<SenderURI>", "<SenderURI e-dtype='uri'>")
    document = changed("<Timestamp>", "<Timestamp e-dtype='dateTime'>", document)
    assert header(document) == normal()


# Lenient in


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (' xmlns="http://www.ebxml.org/namespaces/messageHeader"', ""),
        ('Version="0.21"', 'Version="1.0"'),
        (' Version="0.21"', ""),
        ("<MessageId>order-1@", "<MessageId>\r\n\t order-1@"),
        ("<MessageId>order-1@", "<MessageId>ord<!-- x -->er<![CDATA[-1]]><?pi?>@"),
        ('"OnceAndOnlyOnce"', '" OnceAndOnlyOnce\n"'),
        ("<TimeStamp>20001016T110000.000Z</TimeStamp>", "<Timestamp>20001016T110000Z</Timestamp>"),
        (
            "<Timestamp>20001016T110000.250Z</Timestamp>",
            "<TimeStamp>20001016T110000.250Z</TimeStamp>",
        ),
        ("<RefToMessageId/>", ""),
        ("<RefToMessageId/>", "<RefToMessageId> </RefToMessageId>"),
        ('<From><PartyId context="DUNS">', '<From><PartyId type="DUNS">'),
        ("<TPAInfo>", '<TPAInfo xmlns:x="u:x" x:y="z"><New><MessageId>no</MessageId></New>'),
        ("<SenderURI>", '<SenderURI xmlns="u:foreign">no</SenderURI><SenderURI>'),
        ("cid:payload", "CID:payload"),
        ("cid:payload", "payload"),
        ("payload-1-4711", "%70ayload-1-4711"),
        ("</Header>", "</Header><Extension><RoutingHeader/></Extension>"),
        ("Header>\n  <RoutingHeader>", "Header>stray text<RoutingHeader>"),
        ("<DocumentReference>", "<Note/><DocumentReference>"),
    ],
)
def test_equivalent_documents_are_read_equal(old: str, new: str) -> None:
    """D31, D32, D58, D61 and the lenient half of the wire format."""
    assert header(changed(old, new)) == normal()


def test_a_prefix_for_the_namespace_is_as_good_as_none() -> None:
    document = EXAMPLE.replace("</", "</eb:").replace("<", "<eb:")
    document = document.replace("<eb:/eb:", "</eb:").replace("<eb:?", "<?")
    assert header(changed("xmlns=", "xmlns:eb=", document)) == normal()


def test_the_order_of_elements_is_not_checked() -> None:
    """D58."""
    document = changed(ROUTING_HEADER, "")
    document = changed("  <Manifest>\n", ROUTING_HEADER + "  <Manifest>\n", document)
    document = changed("    <From>", RELIABLE + "    <From>", changed(RELIABLE, "", document))
    assert header(document) == normal()


@pytest.mark.requirement("000-035")
def test_reliable_messaging_info_may_stand_at_the_end_of_the_document() -> None:
    """000 section 2.2.1 says the last element of the ebXMLHeader (D46)."""
    document = changed("</ebXMLHeader>", RELIABLE + "</ebXMLHeader>", changed(RELIABLE, ""))
    assert header(document) == normal()


def test_a_party_id_without_context_has_none() -> None:
    """D63."""
    assert header(changed('<PartyId context="DUNS">1', "<PartyId>1")).from_party == Party(
        "111111111"
    )


@pytest.mark.parametrize("spelling", ["Acknowledgement", "Acknowledgment"])
def test_both_spellings_of_an_acknowledgement_are_taken(spelling: str) -> None:
    """D37."""
    assert header(of_type(spelling)).message_type is MessageType.ACKNOWLEDGEMENT


def test_a_message_without_manifest_has_no_documents() -> None:
    assert header(changed(MANIFEST, "")) == normal(manifest=())


# Routing


@pytest.mark.requirement("000-076")
def test_the_last_of_several_routing_headers_governs() -> None:
    """D21."""
    second = ROUTING_HEADER.replace("23<", "7<").replace("sender.", "router.")
    message = header(changed(ROUTING_HEADER, ROUTING_HEADER + second))
    assert message.routing[0] == route()
    assert message.route == route(
        sender_uri="http://router.example/ebxml/",
        error_uri="http://router.example/ebxml/",
        sequence_number=7,
    )


def test_a_refusal_names_the_pair_of_the_last_routing_header() -> None:
    second = ROUTING_HEADER.replace("23<", "x<").replace("sender.", "router.")
    refusal = refused(changed(ROUTING_HEADER, ROUTING_HEADER + second))
    assert refusal.partial.sender_uri == "http://router.example/ebxml/"
    assert refusal.partial.sequence_text == "x"


def test_an_earlier_routing_header_that_cannot_be_read_is_refused() -> None:
    first = ROUTING_HEADER.replace("<SenderURI>http://sender.example/ebxml/</SenderURI>", "")
    refusal = refused(changed(ROUTING_HEADER, first + ROUTING_HEADER))
    assert refusal.field is Field.SENDER_URI


def test_a_hundred_routing_headers_are_enough() -> None:
    assert len(header(changed(ROUTING_HEADER, ROUTING_HEADER * 100)).routing) == 100
    assert "100" in unreadable(changed(ROUTING_HEADER, ROUTING_HEADER * 101))


# Manifest


def test_a_reference_without_document_id_is_refused() -> None:
    refusal = refused(without("DocumentId"))
    assert (refusal.code, refusal.field) == (ErrorCode.VALUE_NOT_RECOGNIZED, Field.MANIFEST)


def test_a_document_id_that_hides_a_control_character_is_refused() -> None:
    assert refused(changed("cid:payload", "cid:%00payload")).field is Field.MANIFEST


def test_labels_and_descriptions_are_prose() -> None:
    document = changed("100 crates", "100\n<b>crates</b>&#9;of tea")
    document = without("DocumentLabel", document)
    (reference,) = header(document).manifest
    assert reference.description == "100 crates of tea"
    assert reference.label == ""


def test_a_manifest_of_more_than_a_thousand_entries_is_refused() -> None:
    entry = "<DocumentReference><DocumentId>cid:a</DocumentId></DocumentReference>"
    full = changed(MANIFEST, f"<Manifest>{entry * 1000}</Manifest>")
    assert len(header(full).manifest) == 1000
    assert "1000" in unreadable(full.replace("</Manifest>", f"{entry}</Manifest>"))
