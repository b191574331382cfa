"""The MSH under test as a router, between two scripted peers: what crosses the wire (000 §4.1)."""

from dataclasses import dataclass

import pytest

from msh.faults import CrashPoint
from msh.models import InboundMessage
from msh.protocol.kinds import RouteMode
from partners.models import Agreement, Route
from tests.exchange.machine import Machine
from tests.exchange.pair import THEIR_PARTY, WAITS, Pair, PairFactory
from tests.peer import Draft, Payload, Received, normal

HOP, END_TO_END = RouteMode
FORWARDING = (CrashPoint.FORWARD_BEFORE_COMMIT, CrashPoint.FORWARD_AFTER_COMMIT)


@dataclass
class Way:
    """From peer `a` by the MSH to peer `b`, for `party` behind it."""

    a: Pair
    b: Pair
    party: str

    def draft(self, number: int = 1, content: bytes = b"<Order/>") -> Draft:
        return normal(
            sequence_number=number,
            tpa_id=self.party,
            to_party=self.party,
            payloads=[Payload(content, content_type="image/png")],
        )

    def send(self, draft: Draft) -> None:
        response = self.a.peer.send(draft)
        assert response.status == 204, response.error

    def came(self, draft: Draft) -> Received:
        """The first copy of it at `b`."""
        copies = self.b.peer.received.wait_for(
            lambda recording: recording.copies_of(draft.message_id), WAITS, "a copy at b"
        )
        return copies[0]

    def stored(self) -> int:
        return InboundMessage.objects.filter(link__partner=self.a.partner).count()


def way(pair: PairFactory, mode: RouteMode = HOP, *, acknowledges: bool = True) -> Way:
    a = pair()
    b = pair(acknowledges=acknowledges, timeout=2, retries=20, retry_interval=1)
    party = f"behind-{b.partner.name}"
    waits = {"timeout": 2, "retries": 20, "retry_interval": 1}
    for partner, ours, theirs in ((a.partner, party, THEIR_PARTY), (b.partner, THEIR_PARTY, party)):
        Agreement.objects.create(
            partner=partner, tpa_id=party, our_party=ours, their_party=theirs, **waits
        )
    Route.objects.create(to_party=party, partner=b.partner, mode=mode.value)
    return Way(a, b, party)


@pytest.mark.requirement("000-073", "000-076", "000-090")
def test_b_gets_what_a_sent_with_one_more_routing_header(pair: PairFactory) -> None:
    routed = way(pair)
    content = bytes(range(256)) * 10
    draft = routed.draft(content=content)

    routed.send(draft)

    received = routed.came(draft)
    document, original = received.message.header_document, routed.a.peer.complete(draft)
    at = original.header_document.index(b"</RoutingHeader>") + len(b"</RoutingHeader>")
    assert document.startswith(original.header_document[:at])
    assert document.endswith(original.header_document[at:])
    assert document.count(b"<RoutingHeader") == 2
    onward = document[at : -len(original.header_document[at:])]
    for uri in (routed.a.msh.uri, routed.b.peer.uri):
        assert uri.encode() in onward
    assert [part.content for part in received.message.parts[1:]] == [content]
    routed.a.peer.received.wait_for_acknowledgement(of=draft, timeout=WAITS)


@pytest.mark.requirement("000-078")
def test_end_to_end_a_gets_its_ack_when_b_has_acknowledged(pair: PairFactory) -> None:
    routed = way(pair, END_TO_END, acknowledges=False)
    draft = routed.draft()
    routed.send(draft)
    copy = routed.came(draft)
    routed.send(draft)
    errors = routed.a.peer.received.wait_for(lambda came: came.errors(of=draft), WAITS, "an Error")
    assert errors[0].message.text("ErrorHeader/Error/ErrorCode") == "TransientError"
    assert not routed.a.peer.received.acknowledgements(of=draft)

    routed.b.peer.acknowledge(copy)

    routed.a.peer.received.wait_for_acknowledgement(of=draft, timeout=WAITS)


@pytest.mark.requirement("000-002", "000-005", "000-073")
@pytest.mark.parametrize("point", FORWARDING)
def test_a_worker_dies_while_it_sends_on(
    pair: PairFactory, msh: Machine, point: CrashPoint
) -> None:
    routed = way(pair)
    msh.crash_file.write_text(point)
    drafts = [routed.draft(number) for number in (1, 2, 3)]

    for draft in drafts:
        routed.send(draft)
        routed.a.peer.received.wait_for_acknowledgement(of=draft, timeout=WAITS)
    for draft in drafts:
        routed.came(draft)

    assert not msh.crash_file.exists()
    first = dict.fromkeys(r.message.message_id for r in routed.b.peer.received.normals())
    assert list(first) == [draft.message_id for draft in drafts]
