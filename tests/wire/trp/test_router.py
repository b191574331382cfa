"""One more RoutingHeader, and every other byte as it came (D21)."""

from datetime import UTC, datetime

import pytest

from msh.protocol.message import Route
from msh.wire.document import MARKUP_LIMIT
from msh.wire.package import HEADER_LIMIT
from msh.wire.trp import router
from msh.wire.trp.envelope import compose_routed_head
from msh.wire.trp.fields import ROUTING_LIMIT
from msh.wire.trp.reader import read
from msh.wire.trp.router import append_route
from tests.peer import normal

ONWARD = Route("http://r/", "http://b/?x=1&y", "http://r/", datetime(2026, 11, 21, tzinfo=UTC), 7)
NAMESPACE = b"http://www.ebxml.org/namespaces/messageHeader"


def document(**fields: object) -> bytes:
    uris = dict.fromkeys(("sender_uri", "receiver_uri", "error_uri"), "http://a/")
    return normal(sequence_number=1, **{**uris, **fields}).header_document


def prefixed() -> bytes:
    """Every element by a prefix, as some writers do it."""
    text = document().decode().replace("</", "</e:").replace("<", "<e:")
    text = text.replace("<e:/e:", "</e:").replace("<e:?xml", "<?xml")
    return text.replace(f'xmlns="{NAMESPACE.decode()}"', f'xmlns:e="{NAMESPACE.decode()}"').encode()


def with_extra(markup: str) -> bytes:
    """With something before the end of the document that no field is read from."""
    return document().replace(b"</ebXMLHeader>", markup.encode() + b"</ebXMLHeader>")


DOCUMENTS = {
    "of the namespace": document(),
    "of none": document().replace(b' xmlns="' + NAMESPACE + b'"', b""),
    "by a prefix": prefixed(),
    "with a byte order mark": b"\xef\xbb\xbf" + document(),
    "with letters of many bytes": document(action="Größe€"),
    "with odd white space": document().replace(b"</RoutingHeader>", b"</RoutingHeader\r\n >\r\n"),
    "with a decoy in a comment": document().replace(
        b"</ebXMLHeader>", b"<!-- <RoutingHeader></RoutingHeader> --></ebXMLHeader>"
    ),
    "with a decoy below": document().replace(
        b"</ebXMLHeader>", b"<Own><RoutingHeader/></Own></ebXMLHeader>"
    ),
    "with a decoy in CDATA": with_extra("<Own><![CDATA[<RoutingHeader></RoutingHeader>]]></Own>"),
    "with a decoy in an instruction": with_extra("<?own <RoutingHeader></RoutingHeader> ?>"),
    "with a decoy of a foreign namespace": with_extra('<RoutingHeader xmlns="urn:own"/>'),
    "with ends of tags in values": with_extra(
        """<Own a="/>" b='>&lt;/RoutingHeader>'><In c = ">" /></Own ><Own/>"""
    ),
    "with a comment in the last one": document().replace(
        b"</RoutingHeader>", b"<!-- </RoutingHeader> --><?own > ?></RoutingHeader>"
    ),
    # Names of XML 1.0 fifth edition that the fourth has not.
    "with names of another plane": with_extra("<\U00010000/>"),
    "with names of later alphabets": with_extra("<a\u0220/><\u1e9e/>"),
}


@pytest.mark.requirement("000-076", "000-090", "000-091")
@pytest.mark.parametrize("name", DOCUMENTS)
def test_it_stands_after_the_last_one_and_is_read_as_it_was_meant(name: str) -> None:
    before = DOCUMENTS[name]

    after = append_route(before, ONWARD)

    reading, original = read(after), read(before)
    assert reading.header.routing == (*original.header.routing, ONWARD)
    assert reading.canonical == original.canonical
    begin = after.index(b"\n  <RoutingHeader xmlns=")
    end = after.rindex(b"http://r/")
    end = after.index(b"</RoutingHeader>", end) + len(b"</RoutingHeader>")
    assert after[:begin] + after[end:] == before


ADDED = len(append_route(document(), ONWARD)) - len(document())
BOUNDARY = "=_of-no-document"


def compose(before: bytes) -> bytes:
    return compose_routed_head(before, ONWARD, BOUNDARY, closing=True)


def test_the_header_document_is_no_larger_than_the_next_msh_reads() -> None:
    room = HEADER_LIMIT - len(document()) - len("<!---->") - ADDED

    assert len(compose(with_extra(f"<!--{' ' * room}-->"))) > HEADER_LIMIT
    larger = with_extra(f"<!--{' ' * (room + 1)}-->")
    read(larger)
    with pytest.raises(ValueError, match="larger than 1048576 bytes"):
        compose(larger)


def test_the_header_document_has_no_more_marks_than_the_next_msh_reads() -> None:
    marks = document().count(b"<") + document().count(b"=")
    full = with_extra("<a/>" * (MARKUP_LIMIT - marks))
    read(full)
    with pytest.raises(ValueError, match="more than 20000 tags"):
        compose(full)


def test_a_second_router_adds_a_third() -> None:
    after = append_route(append_route(document(), ONWARD), ONWARD)

    assert [route.sender_uri for route in read(after).header.routing] == [
        "http://a/",
        "http://r/",
        "http://r/",
    ]


def test_best_effort_gets_no_number() -> None:
    best_effort = Route("http://r/", "http://b/", "http://r/", ONWARD.timestamp)

    added = append_route(document(semantics="BestEffort"), best_effort)

    assert added.count(b"<SequenceNumber>") == document(semantics="BestEffort").count(
        b"<SequenceNumber>"
    )


def test_no_more_than_a_header_may_have() -> None:
    element = document()
    begin, end = element.index(b"<RoutingHeader>"), element.index(b"</ebXMLHeader>")
    full = element[:begin] + element[begin:end] * ROUTING_LIMIT + element[end:]

    with pytest.raises(ValueError, match="RoutingHeaders"):
        append_route(full, ONWARD)


def test_hop_count_that_would_not_be_read_is_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the markup did to its place: the parser that reads what comes has the last word."""
    monkeypatch.setattr(router, "write_route", lambda *_: "<Other/>")

    with pytest.raises(ValueError, match="has no room for another RoutingHeader"):
        append_route(document(), ONWARD)
