"""What a Receiver answers to the messages it takes (000 §2.1.3, §2.2.2), and to one that
it refuses; all that it refuses: tests/endpoint/test_receiving_table.py."""

import re
from typing import Any

import pytest
from django.db import connection

from msh.models import InboundLink, InboundMessage
from tests.exchange import outline
from tests.exchange.pair import WAITS, Pair, PairFactory, let_sweeps_pass
from tests.peer import Answer, Draft, Payload, Received, acknowledgement, error, normal, status
from tests.waiting import wait_until


def take(partner: Pair, draft: Draft) -> Received:
    """Send a message that is to be accepted; its Ack."""
    response = partner.peer.send(draft)
    assert (response.status, response.error) == (204, "")
    return partner.peer.received.wait_for_acknowledgement(of=draft, timeout=WAITS)


def acks(partner: Pair, draft: Draft, count: int) -> list[Received]:
    """The Acks of a message, once there are `count`."""

    def enough(recording: Any) -> list[Received]:
        found: list[Received] = recording.acknowledgements(draft)
        return found if len(found) >= count else []

    return partner.peer.received.wait_for(enough, WAITS, f"{count} Acks")


def wait_for_delivery(partner: Pair, draft: Draft) -> None:
    """Until the application has it, once."""
    wait_until(lambda: partner.msh.journal(draft.message_id) == ["delivered"], seconds=WAITS)


def row(draft: Draft) -> InboundMessage:
    return InboundMessage.objects.get(message_id=draft.message_id)


@pytest.mark.requirement("000-018", "000-019", "000-039", "000-050", "000-051", "000-052")
@pytest.mark.requirement("000-001", "000-053", "000-054", "000-059")
def test_ack_reads_as_the_draft_says(pair: PairFactory) -> None:
    partner = pair()
    message = normal(sequence_number=1, conversation_id="conversation-9")
    ack = take(partner, message)
    read = ack.message
    assert len(read.parts) == 1
    assert read.outline() == outline.ACKNOWLEDGEMENT.split("\n")
    assert read.message_type == "Acknowledgement"
    assert read.semantics == "BestEffort"
    texts = {
        "Header/From/PartyId": partner.msh.uri,
        "Header/To/PartyId": partner.partner.uri,
        "Header/TPAInfo/TPAId": partner.agreement.tpa_id,
        "Header/TPAInfo/ConversationId": "conversation-9",
        "Header/TPAInfo/ServiceInterface": "",
        "Header/TPAInfo/Action": "",
        "Header/MessageData/RefToMessageId": message.message_id,
        "RoutingHeader/SenderURI": partner.msh.uri,
        "RoutingHeader/ReceiverURI": partner.partner.uri,
    }
    assert {path: read.text(path) for path in texts} == texts
    assert read.message_id not in ("", message.message_id)
    assert re.fullmatch(r"\d{8}T\d{6}\.\d{3}Z", read.text("RoutingHeader/Timestamp") or "")
    assert ack.method == "POST"


@pytest.mark.requirement("000-060", "000-107")
def test_gap_is_an_error_and_reaches_no_application(pair: PairFactory) -> None:
    partner = pair()
    take(partner, normal(sequence_number=1))
    missing = normal(sequence_number=4)
    assert partner.peer.send(missing).status == 204
    came = partner.peer.received.wait_for_error(of=missing, timeout=WAITS)
    assert came.message.error_code == "SequenceGap"
    path = "/ebXMLHeader/RoutingHeader/SequenceNumber"
    assert came.message.text("ErrorHeader/Error/Location") == path
    assert "2 to 3" in (came.message.text("ErrorHeader/Error/Description") or "")
    assert came.method == "POST"
    assert came.message.text("Header/ReliableMessagingInfo") == ""
    take(partner, normal(sequence_number=2))
    assert partner.msh.journal(missing.message_id) == []
    assert partner.peer.received.acknowledgements(missing) == []


@pytest.mark.requirement("000-002", "000-012", "000-013", "000-094", "000-095", "000-104")
def test_every_copy_is_acknowledged_and_one_is_delivered(pair: PairFactory) -> None:
    partner = pair()
    message = normal(sequence_number=1)
    for _ in range(5):
        assert partner.peer.send(message).status == 204
    came = acks(partner, message, 5)
    assert len({ack.message.message_id for ack in came}) == 5
    wait_for_delivery(partner, message)
    assert row(message).duplicates == 4
    let_sweeps_pass(pair)
    assert len(partner.peer.received.acknowledgements(message)) == 5
    assert partner.msh.journal(message.message_id) == ["delivered"]


@pytest.mark.requirement("000-002", "000-013", "001-20")
def test_copies_at_one_moment_make_one_row_and_an_ack_each(pair: PairFactory) -> None:
    """Two web processes get them; the link's lock decides."""
    partner = pair()
    for number in range(1, 6):
        message = normal(sequence_number=number)
        answers = partner.peer.send_at_once([message, message])
        assert [answer.status for answer in answers] == [204, 204]
        acks(partner, message, 2)
        assert row(message).duplicates == 1
        wait_for_delivery(partner, message)


@pytest.mark.requirement("000-002", "000-106")
def test_late_copy_of_message_one_is_a_duplicate(pair: PairFactory) -> None:
    """A known MessageId is a duplicate whatever its number (D1)."""
    partner = pair()
    first = normal(sequence_number=1)
    for draft in (first, normal(sequence_number=2), normal(sequence_number=3)):
        take(partner, draft)
    partner.peer.send(first)
    acks(partner, first, 2)
    assert InboundLink.objects.get(partner=partner.partner).last_number == 3
    assert row(first).duplicates == 1
    wait_for_delivery(partner, first)


@pytest.mark.requirement("000-003", "000-011", "000-093", "000-096")
def test_ack_leaves_after_the_message_is_stored(pair: PairFactory) -> None:
    partner = pair()
    stored: list[bool] = []

    def look(received: Received) -> Answer:
        message_id = received.message.ref_to_message_id
        stored.append(InboundMessage.objects.filter(message_id=message_id).exists())
        connection.close()
        return status(204)

    partner.peer.always(look)
    for number in (1, 2, 3):
        take(partner, normal(sequence_number=number))
    wait_until(lambda: len(stored) == 3)
    assert all(stored)


@pytest.mark.requirement("000-003", "001-14")
def test_without_the_store_no_ack_and_503(pair: PairFactory) -> None:
    """The row that the receive path must lock is held by somebody else for too long."""
    partner = pair()
    message = normal(sequence_number=1)
    with connection.cursor() as cursor:
        cursor.execute("BEGIN")
        cursor.execute(
            "SELECT FROM msh_inboundlink WHERE partner_id = %s FOR UPDATE", [partner.partner.pk]
        )
        response = partner.peer.send(message)
        cursor.execute("ROLLBACK")
    assert response.status == 503
    assert int(response.headers["Retry-After"]) > 0
    assert not InboundMessage.objects.filter(message_id=message.message_id).exists()
    assert partner.peer.received.acknowledgements() == []
    take(partner, message)


@pytest.mark.requirement("000-010", "000-038", "000-072")
def test_best_effort_is_stored_once_and_never_acknowledged(pair: PairFactory) -> None:
    partner = pair()
    message = normal(semantics="BestEffort")
    for _ in range(2):
        assert partner.peer.send(message).status == 204
    wait_for_delivery(partner, message)
    assert row(message).sequence_number is None
    let_sweeps_pass(pair)
    assert len(partner.peer.received) == 0
    assert partner.msh.journal(message.message_id) == ["delivered"]


@pytest.mark.requirement("000-016")
def test_no_signal_is_ever_answered(pair: PairFactory) -> None:
    partner = pair()
    for signal in (
        acknowledgement("nobody-knows-this"),
        acknowledgement("nobody-knows-this", extra="<Strange/>"),
        acknowledgement("nobody-knows-this", timestamp="yesterday"),
        error("nobody-knows-this", "SequenceGap"),
        error("nobody-knows-this", "NeverHeardOf"),
    ):
        assert partner.peer.send(signal).status == 204
    let_sweeps_pass(pair)
    assert len(partner.peer.received) == 0


@pytest.mark.requirement("000-005", "000-102", "000-103")
def test_numbers_go_on_after_a_kill(pair: PairFactory) -> None:
    partner = pair()
    first, second = normal(sequence_number=1), normal(sequence_number=2)
    take(partner, first)
    partner.msh.kill("web", "worker")
    assert partner.peer.send(first).status == 204
    acks(partner, first, 2)
    take(partner, second)
    assert row(first).duplicates == 1
    assert InboundLink.objects.get(partner=partner.partner).last_number == 2


@pytest.mark.requirement("000-065")
def test_ack_is_tried_until_it_is_transmitted(pair: PairFactory) -> None:
    """Its own lane: it spends no retry and suspends nothing."""
    partner = pair()
    message = normal(sequence_number=1)
    partner.peer.script(status(503), status(500))
    partner.peer.send(message)
    came = acks(partner, message, 3)
    assert len({ack.body for ack in came}) == 1, "the same bytes again"
    assert partner.link.state == "idle"
    assert partner.incidents() == []


@pytest.mark.requirement("000-090")
def test_payloads_of_any_kind_arrive_as_they_were(pair: PairFactory) -> None:
    partner = pair()
    every_byte = bytes(range(256)) * 20
    payloads = tuple(
        Payload(every_byte, content_type="application/octet-stream", transfer_encoding=encoding)
        for encoding in ("binary", "8bit", "base64", "quoted-printable")
    )
    message = normal(sequence_number=1, payloads=payloads)
    take(partner, message)
    kept = row(message).payloads.all()
    assert [bytes(payload.content) for payload in kept] == [every_byte] * 4


@pytest.mark.requirement("000-001")
def test_header_only_message_may_come_plain(pair: PairFactory) -> None:
    partner = pair()
    types = ("application/vnd.eb+xml", "application/xml", "text/xml; charset=utf-8")
    for number, content_type in enumerate(types, 1):
        plain = {"payloads": (), "plain": True, "header_content_type": content_type}
        take(partner, normal(sequence_number=number, **plain))
