"""What we send, as it stands on the wire (000 §2.1.3, §2.2, §2.5)."""

import re
import uuid
from typing import Any

import pytest

from msh.flows.sending.submit import MessageIdReused
from msh.protocol.message import Payload
from partners.models.partner import OutgoingKind
from tests.exchange import outline
from tests.exchange.pair import OUR_PARTY, THEIR_PARTY, Pair, PairFactory, let_sweeps_pass
from tests.peer import Answer, Received, acknowledgement, hang_up, status

TIMESTAMP = re.compile(r"\d{8}T\d{6}\.\d{3}Z")


def sent(pair: Pair, **options: Any) -> Received:
    """Submit a message and return its first copy."""
    return pair.wait_for_copies(pair.submit(**options), 1)[0]


@pytest.mark.requirement("000-001", "000-035", "000-039", "000-040", "000-041", "000-042")
@pytest.mark.requirement("000-045", "000-089", "000-091")
def test_reliable_message_reads_as_the_draft_says(pair: PairFactory) -> None:
    """Every element in its place, and nothing a foreign MSH would not know."""
    partner = pair(acknowledges=True)
    message = partner.submit(
        payloads=[Payload(b"<Order/>", label="Order", description="100 crates")],
        message_id=f"order-{partner.partner.name}",
        conversation_id="conversation-7",
        ref_to_message_id="quote-6",
    )
    partner.wait_for_state(message)
    (came,) = partner.peer.received
    read = came.message
    assert read.outline() == outline.RELIABLE.split("\n")
    texts = {
        "Header/From/PartyId": OUR_PARTY,
        "Header/To/PartyId": THEIR_PARTY,
        "Header/TPAInfo/TPAId": partner.agreement.tpa_id,
        "Header/TPAInfo/ConversationId": "conversation-7",
        "Header/TPAInfo/ServiceInterface": "QuoteToCollect",
        "Header/TPAInfo/Action": "NewPurchaseOrder",
        "Header/MessageData/MessageId": f"order-{partner.partner.name}",
        "Header/MessageData/RefToMessageId": "quote-6",
        "RoutingHeader/SenderURI": partner.msh.uri,
        "RoutingHeader/ReceiverURI": partner.partner.uri,
        "RoutingHeader/ErrorURI": partner.msh.uri,
        "RoutingHeader/SequenceNumber": "1",
    }
    assert {path: read.text(path) for path in texts} == texts
    assert read.semantics == "OnceAndOnlyOnce"  # the agreement's, for none was asked for
    for path in ("Header/MessageData/TimeStamp", "RoutingHeader/Timestamp"):
        assert TIMESTAMP.fullmatch(read.text(path) or ""), path


def test_payloads_come_as_they_were_given(pair: PairFactory) -> None:
    partner = pair(acknowledges=True)
    contents = [bytes(range(256)) * 300, b"\r\n--boundary\r\n--", b""]
    payloads = [Payload(content, "application/octet-stream") for content in contents]
    copy = sent(partner, payloads=payloads)
    assert copy.message.payloads == contents
    assert sent(partner, payloads=[]).message.payloads == []


@pytest.mark.requirement("000-010", "000-036", "000-038", "000-042")
def test_best_effort_goes_once_without_number(pair: PairFactory) -> None:
    """Transmitted or not, there is no second copy; the application hears of a failure (D25)."""
    partner, failing = pair(retries=5), pair(retries=5)
    failing.peer.always(status(503))
    message = partner.submit(semantics="BestEffort")
    lost = failing.submit(semantics="BestEffort")
    (copy,) = partner.wait_for_copies(message, 1)
    assert copy.message.semantics == "BestEffort"
    assert copy.message.text("RoutingHeader/SequenceNumber") is None
    partner.wait_for_state(message, "sent")
    failing.wait_for_state(lost, "failed")

    let_sweeps_pass(pair)
    assert len(partner.peer.received) == len(failing.peer.received) == 1
    assert (partner.events(message), failing.events(lost)) == ([], ["failed"])
    with pytest.raises(ValueError, match="AtMostOnce"):
        partner.submit(semantics="AtMostOnce")
    numbered = partner.submit()
    assert partner.wait_for_copies(numbered, 1)[0].message.sequence_number == 1


@pytest.mark.requirement("000-088", "001-05", "001-17")
def test_message_ids_are_ours_and_unique(pair: PairFactory) -> None:
    """A UUID, unless the application gives one; and one id is one message."""
    partner = pair(acknowledges=True)
    ids = [sent(partner).message.message_id for _ in range(3)]
    assert len({uuid.UUID(one) for one in ids}) == 3

    own = partner.submit(b"<A/>", message_id=f"{partner.partner.name}-own")
    again = partner.submit(b"<A/>", message_id=own.message_id)
    assert again.pk == own.pk
    with pytest.raises(MessageIdReused):
        partner.submit(b"<B/>", message_id=own.message_id)
    after = partner.submit()
    partner.wait_for_state(after)
    assert len(partner.peer.received.copies_of(own.message_id)) == 1


@pytest.mark.requirement("000-041", "000-066", "000-090")
def test_header_is_not_changed_by_sending_again(pair: PairFactory) -> None:
    """The copy after a hang-up is the first one again, HTTP headers included."""
    partner = pair()
    partner.peer.script(hang_up())
    first, second = partner.wait_for_copies(partner.submit(b"\x00 order"), 2)
    assert first.body == second.body
    assert first.headers.items() == second.headers.items()


@pytest.mark.requirement("000-057", "000-058")
def test_answer_completes_nothing_and_its_body_is_ignored(pair: PairFactory) -> None:
    """Even an Acknowledgement is none in an HTTP response: it is a POST of its own."""
    partner = pair(timeout=60)

    def acknowledge_in_the_response(received: Received) -> Answer:
        draft = partner.peer.complete(acknowledgement(received.message))
        return status(200, body=draft.body, headers={"Content-Type": draft.content_type})

    partner.peer.always(acknowledge_in_the_response)
    message, following = partner.submit(), partner.submit()
    (copy,) = partner.wait_for_copies(message, 1)
    let_sweeps_pass(pair)
    assert partner.attempts(message) == [("transmitted", 200)]
    assert partner.state_of(message) == "in_flight"

    partner.peer.acknowledge(copy)
    partner.wait_for_copies(following, 1)
    assert [one.method for one in partner.peer.received] == ["POST", "POST"]


def test_we_show_a_partner_who_we_are(pair: PairFactory) -> None:
    partner, stranger = pair(acknowledges=True), pair(acknowledges=True)
    partner.partner.show(OutgoingKind.BEARER, "our-token")
    partner.partner.save(update_fields=["outgoing_kind", "outgoing_secret"])
    assert sent(partner).headers["Authorization"] == "Bearer our-token"
    assert sent(stranger).headers["Authorization"] is None
