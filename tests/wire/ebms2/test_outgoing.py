"""A message of a business, written as its agreement says."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest

from msh.protocol.ebms.message import AckRequested, MessageOrder
from msh.protocol.ebms.vocabulary import OrderStatus
from msh.protocol.flight.serial import Order
from msh.protocol.message import Payload
from msh.wire import mime
from msh.wire.dialect import EBMS2, TRP, answer_of
from msh.wire.ebms2 import envelope

NOW = datetime(2026, 11, 23, 12, tzinfo=UTC)
END = datetime(2026, 11, 24, 12, tzinfo=UTC)


@dataclass
class Draft:
    message_id: str = "m1@us.example"
    semantics: str = "OnceAndOnlyOnce"
    conversation_id: str = "talk"
    service_interface: str = "urn:orders"
    service_type: str = ""
    action: str = "New"
    ref_to_message_id: str = ""
    boundary: str = "msh-1"
    tpa_id: str = "cpa-1"
    our_party: str = "us"
    our_party_context: str = "DUNS"
    our_role: str = "Buyer"
    their_party: str = "them"
    their_party_context: str = "DUNS"
    their_role: str = "Seller"
    ack: str = "perMessage"
    ack_actor: str = "toPartyMSH"
    ack_signed: bool = False
    eliminates: str = "perMessage"
    sync_reply: str = "none"
    soap_action: str = "ebXML"
    content_ids: tuple[str, ...] | None = ("order@us",)
    descriptions: tuple[str, ...] | None = ("An order",)


def written(draft: Draft, order: Order | None = None) -> Any:
    assert EBMS2.compose_head is not None
    parts = [Payload(b"<order/>", "application/xml", one) for one in draft.content_ids or ()]
    head = EBMS2.compose_head(draft, END, NOW, order, None)
    body = b"".join((head, *EBMS2.compose_parts(parts, draft.boundary)))
    came = envelope.parse(EBMS2.content_type(draft.boundary, bool(parts)), body)
    assert came.defects == ()
    return came


@pytest.mark.requirement("EB-002", "EB-037", "EB-078")
def test_what_is_written_is_read_again() -> None:
    came = written(Draft())
    header = came.message.header
    assert (header.message_id, header.timestamp, header.time_to_live) == ("m1@us.example", NOW, END)
    assert (header.from_party.role, header.to_party.role) == ("Buyer", "Seller")
    assert header.eliminates_duplicates
    assert len(came.message.ack_requested) == 1
    assert [one.description for one in came.message.manifest] == ["An order"]
    assert [one.content for one in came.payloads] == [b"<order/>"]


@pytest.mark.requirement("EB-001")
def test_message_without_payload_is_the_envelope() -> None:
    assert written(Draft(content_ids=None, descriptions=None)).payloads == ()


@pytest.mark.requirement("EB-078")
def test_best_effort_asks_for_nothing_unless_the_agreement_says_so() -> None:
    bare = written(Draft(semantics="BestEffort")).message
    assert (bare.ack_requested, bare.header.eliminates_duplicates) == ((), False)
    asked = written(Draft(semantics="BestEffort", ack="always", eliminates="always")).message
    assert (len(asked.ack_requested), asked.header.eliminates_duplicates) == (1, True)


@pytest.mark.requirement("EB-044")
@pytest.mark.parametrize("actor", ["toPartyMSH", "nextMSH"])
def test_the_msh_that_is_asked_is_that_of_the_agreement(actor: str) -> None:
    (asked,) = written(Draft(ack_actor=actor)).message.ack_requested
    assert asked.actor.endswith(f":{actor}")


@pytest.mark.requirement("EB-120", "EB-121")
@pytest.mark.parametrize(
    ("order", "written_as"),
    [
        (Order(0, resets=True), MessageOrder(0, OrderStatus.RESET)),
        (Order(7, resets=False), MessageOrder(7, OrderStatus.CONTINUE)),
    ],
)
def test_message_order(order: Order, written_as: MessageOrder) -> None:
    assert written(Draft(), order).message.order == written_as


@pytest.mark.requirement("EB-151")
def test_soap_action() -> None:
    assert EBMS2.headers_of(Draft()) == (("SOAPAction", '"ebXML"'),)
    named = Draft(soap_action="{service}/{action}")
    assert EBMS2.headers_of(named) == (("SOAPAction", '"urn:orders/New"'),)
    with pytest.raises(ValueError, match="not printable ASCII"):
        EBMS2.headers_of(Draft(soap_action="{action}", action="Müll"))
    assert TRP.headers_of(Draft()) == ()


@pytest.mark.requirement("EB-073")
def test_answer_on_the_connection_has_the_headers_of_a_message() -> None:
    answer = answer_of("text/xml", b"<a/>")
    assert answer == ("text/xml", b"<a/>", (("SOAPAction", '"ebXML"'),))


@pytest.mark.requirement("EB-178")
@pytest.mark.parametrize("content_ids", [("order@us",), None])
def test_what_signs_gets_the_envelope_and_its_answer_is_stored(content_ids: Any) -> None:
    draft = Draft(content_ids=content_ids, descriptions=content_ids and ("An order",))

    def sign(document: bytes) -> bytes:
        return document.replace(b"</SOAP:Header>", b"<signed/></SOAP:Header>")

    assert EBMS2.compose_head is not None
    plain, head = (EBMS2.compose_head(draft, END, NOW, None, one) for one in (None, sign))
    document = mime.stored_document(head, draft.boundary)
    assert document.startswith(b"<?xml")
    assert document == sign(mime.stored_document(plain, draft.boundary))


def test_a_signed_acknowledgment_is_asked_for_where_it_was_agreed() -> None:
    (asked,) = written(Draft(ack_signed=True)).message.ack_requested
    assert asked == AckRequested(signed=True)
