"""Messages both ways with a peer that sends as ebms-core does."""

import uuid
from collections.abc import Iterator

import pytest

from msh.flows.operations import change_link
from msh.flows.receiving import questions
from msh.flows.sending.submit import submit
from msh.models import InboundMessage, OutboundMessage
from msh.protocol.message import Payload
from msh.store.history import Actor
from msh.store.operations.operator_actions import open_links
from partners.models import Agreement, Partner
from partners.setup import apply
from tests.exchange.machine import Machine
from tests.exchange.pair import OUR_PARTY, THEIR_PARTY, WAITS
from tests.peer.ebms_core import Attachment, Gateway
from tests.waiting import wait_until

ATTACHMENTS = (
    Attachment("Bestellung für Łódź.xml", "application/xml", b"<order/>"),
    Attachment("GET /admin/ HTTP.bin", "application/octet-stream", bytes(range(256)) * 5000),
    Attachment("", "text/plain", b"GET /health/live HTTP/1.1\r\nHost: x\r\n\r\n"),
)


@pytest.fixture
def gateway(msh: Machine) -> Iterator[Gateway]:
    """Known by where it comes from: it cannot show who it is."""
    name = f"core-{uuid.uuid4().hex[:12]}"
    with Gateway(msh.url, f"cpa-{name}", THEIR_PARTY, OUR_PARTY) as gateway:
        agreement = {
            "dialect": "ebms2",
            "tpa_id": gateway.cpa_id,
            "our_party": OUR_PARTY,
            "our_party_type": "DUNS",
            "their_party": THEIR_PARTY,
            "their_party_type": "DUNS",
            "retry_interval": 1,
            "retries": 100,
        }
        partner = {
            "name": name,
            "uri": f"http://{name}.example/",
            "address": gateway.url,
            "allowed_networks": "127.0.0.1/32",
            "agreements": [agreement],
        }
        apply({"partners": [partner]})
        row = Partner.objects.get(name=name)
        open_links(row)
        yield gateway
        change_link.suspend(row, Actor("tester", "the test is over"))


def agreement_of(gateway: Gateway) -> Agreement:
    return Agreement.objects.get(tpa_id=gateway.cpa_id)


@pytest.mark.parametrize("count", [0, 1, 3])
def test_its_messages_are_taken_and_acknowledged(gateway: Gateway, count: int) -> None:
    packed = gateway.message(ATTACHMENTS[:count])

    assert gateway.send(packed) == 204

    wait_until(lambda: gateway.acknowledged == [packed.message_id], seconds=WAITS)
    stored = InboundMessage.objects.get(message_id=packed.message_id)
    contents = [bytes(one.content) for one in stored.payloads.order_by("pk")]
    assert contents == [one.content for one in ATTACHMENTS[:count]]


def test_a_copy_gets_its_acknowledgment_again(gateway: Gateway) -> None:
    packed = gateway.message(ATTACHMENTS)
    assert gateway.send(packed) == 204
    wait_until(lambda: gateway.acknowledged == [packed.message_id], seconds=WAITS)

    assert gateway.send(packed) == 204

    wait_until(lambda: gateway.acknowledged == [packed.message_id] * 2, seconds=WAITS)
    assert InboundMessage.objects.filter(message_id=packed.message_id).count() == 1


def test_many_follow_each_other(gateway: Gateway) -> None:
    packed = [gateway.message(ATTACHMENTS[: number % 4]) for number in range(12)]

    assert gateway.send_together(packed) == [204] * 12

    ids = {one.message_id for one in packed}
    wait_until(lambda: set(gateway.acknowledged) == ids, seconds=WAITS)
    assert InboundMessage.objects.filter(message_id__in=ids).count() == 12


def test_our_message_is_delivered_once_though_copies_get_500(gateway: Gateway) -> None:
    """While its Acknowledgment waits there."""
    gateway.acknowledges = False
    agreement = agreement_of(gateway)
    message = submit(agreement, "urn:orders", "New", [Payload(b"<order/>")])
    wait_until(lambda: gateway.refused >= 2, seconds=WAITS)

    gateway.release()

    rows = OutboundMessage.objects.filter(pk=message.pk)
    wait_until(lambda: rows.get().state == "acknowledged", seconds=WAITS)
    assert gateway.taken == {message.message_id: [b"<order/>"]}


def test_both_send_at_once(gateway: Gateway) -> None:
    agreement = agreement_of(gateway)
    ours = [
        submit(agreement, "urn:orders", "New", [Payload(b"<order/>")]).message_id for _ in range(10)
    ]
    theirs = [gateway.message(ATTACHMENTS[:2]) for _ in range(10)]
    assert [gateway.send(one) for one in theirs] == [204] * 10

    def all_acknowledged() -> bool:
        rows = OutboundMessage.objects.filter(message_id__in=ours, state="acknowledged")
        return rows.count() == 10 and len(set(gateway.acknowledged)) == 10

    wait_until(all_acknowledged, seconds=WAITS)
    assert set(gateway.taken) == set(ours)


def test_both_ask_whether_the_other_is_there(gateway: Gateway) -> None:
    """A Ping without SyncReply is answered by a POST."""
    assert gateway.send(gateway.ping()) == 204
    wait_until(lambda: gateway.signals == ["Pong"], seconds=WAITS)

    assert questions.ping(agreement_of(gateway).partner).answer == "Pong"
    assert gateway.signals == ["Pong", "Ping"]
