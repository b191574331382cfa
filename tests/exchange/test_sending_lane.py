"""One reliable message at a time for each pair, completed by its Ack alone (000 §2.1.3)."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connections
from django.db.models import Sum

from msh.models import History, InboundLink, OutboundMessage
from msh.protocol.reason import Refusal
from tests.exchange.pair import WAITS, PairFactory
from tests.peer import OMIT, Answer, Draft, Payload, Received, acknowledgement, status
from tests.waiting import wait_until


@pytest.mark.requirement("000-008", "000-043")
def test_next_message_comes_after_the_ack(pair: PairFactory) -> None:
    """100 messages from 8 threads: at the peer, k+1 never arrives before the Ack of k left."""
    partner = pair(timeout=60)
    log: list[tuple[str, int | None]] = []

    def arrive(received: Received) -> Answer:
        log.append(("came", received.message.sequence_number))
        return status(204)

    def acknowledge(received: Received) -> list[Draft]:
        log.append(("acknowledged", received.message.sequence_number))
        return [acknowledgement(received.message)]

    def submit(_: int) -> OutboundMessage:
        try:
            return partner.submit()
        finally:
            connections.close_all()

    partner.peer.always(arrive)
    partner.peer.replies = acknowledge
    with ThreadPoolExecutor(8) as application:
        messages = list(application.map(submit, range(100)))
    wait_until(lambda: len(log) == 200, seconds=WAITS)
    assert log == [(what, k) for k in range(1, 101) for what in ("came", "acknowledged")]
    for message in messages:
        partner.wait_for_state(message)


@pytest.mark.requirement("000-008")
def test_pairs_do_not_wait_for_each_other(pair: PairFactory) -> None:
    """Each partner acknowledges only after the other has its message too."""
    partners = [pair(timeout=60) for _ in range(4)]
    all_came = threading.Barrier(len(partners))

    def acknowledge(received: Received) -> list[Draft]:
        all_came.wait(WAITS)
        return [acknowledgement(received.message)]

    for partner in partners:
        partner.peer.replies = acknowledge
    for partner, message in [(partner, partner.submit()) for partner in partners]:
        partner.wait_for_state(message)


@pytest.mark.requirement("000-017")
def test_nothing_but_copies_while_the_ack_is_withheld(pair: PairFactory) -> None:
    partner = pair(timeout=1, retries=9, retry_interval=1)
    message, *_ = [partner.submit() for _ in range(5)]
    partner.wait_for_copies(message, 4)
    assert len({received.body for received in partner.peer.received}) == 1


@pytest.mark.requirement("000-014", "000-050")
def test_only_the_appropriate_ack_completes(pair: PairFactory) -> None:
    partner, stranger = pair(timeout=60), pair(timeout=60)
    message, following = partner.submit(), partner.submit()
    (copy,) = partner.wait_for_copies(message, 1)
    elsewhere = {"sender_uri": stranger.partner.uri, "from_party": stranger.partner.uri}

    def answer(of: str, **fields: str) -> int:
        return partner.peer.send(acknowledgement(of, **fields)).status

    ref = message.message_id
    assert answer("a-foreign-id") == 204
    assert answer(ref.upper()) == 204
    assert answer(ref, from_party="http://someone.example/ebxml/") == 204
    assert answer(ref, to_party="http://someone.example/ebxml/") == 204
    assert answer(ref, **elsewhere) == 403
    assert stranger.peer.send(acknowledgement(ref)).status == 204
    assert stranger.peer.acknowledge(copy).status == 403

    assert partner.state_of(message) == "in_flight"
    assert len(partner.peer.received) == 1
    logged = History.objects.filter(partner=partner.partner, event__startswith="Ack")
    # Equal rows of one minute are one row that counts.
    counted = logged.values_list("message_id").annotate(times=Sum("times"))
    assert dict(counted.order_by()) == {"a-foreign-id": 1, ref.upper(): 1, ref: 2}
    refused = History.objects.get(partner=partner.partner, event="RequestRefused")
    assert (refused.code, refused.times) == (Refusal.AGREEMENT, 1)  # its RoutingHeader
    assert History.objects.filter(partner=stranger.partner, message_id=ref).count() == 1

    assert answer(ref) == 204
    partner.wait_for_copies(following, 1)
    assert partner.state_of(message) == "acknowledged"


@pytest.mark.requirement("000-016")
def test_ack_is_never_answered(pair: PairFactory) -> None:
    """Neither a valid one, nor a repeated, nor one that is garbage."""
    partner = pair(timeout=60)
    message = partner.submit()
    (copy,) = partner.wait_for_copies(message, 1)
    valid = acknowledgement(copy.message)
    for ack in (
        valid,
        valid,
        valid.but(message_id="another", semantics="OnceAndOnlyOnce", sequence_number=1),
        valid.but(ref_to_message_id=""),
        valid.but(ref_to_message_id=OMIT),
        valid.but(semantics="Perhaps"),
        valid.but(tpa_id="of nobody"),
        valid.but(payloads=(Payload(b"<Business/>"),)),
        acknowledgement("unknown"),
    ):
        assert partner.peer.send(ack).body == b""
    assert partner.peer.send(valid.but(header_document=b"<ebXMLHeader")).status == 400

    partner.receive()  # what had been pending before would have come before
    answers = partner.peer.received.all()[1:]
    assert [answer.is_acknowledgement() for answer in answers] == [True]


@pytest.mark.requirement("000-087")
def test_directions_count_independently(pair: PairFactory) -> None:
    """We are Sender and Receiver of the same pair at once."""
    partner = pair(acknowledges=True)
    for _ in range(2):
        partner.wait_for_state(partner.submit())
        partner.receive()
    partner.receive()
    numbers = [one.message.sequence_number for one in partner.peer.received.normals()]
    assert numbers == [1, 2]
    assert InboundLink.objects.get(partner=partner.partner).last_number == 3
    assert partner.link.next_number == 3
