"""ebMS 2.0 over a socket: messages to a scripted peer, and a process that dies at each point."""

import email
import gzip
import re
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import pytest

from msh.faults import CrashPoint
from msh.flows.operations import change_flight, change_link
from msh.flows.sending.submit import submit
from msh.models import Incident, OutboundLink, OutboundMessage, PartyEvent
from msh.protocol.message import Payload
from msh.store.history import Actor
from msh.store.operations.operator_actions import open_links
from partners.models import Agreement, Credential, Partner
from partners.setup import apply
from tests.exchange.machine import Machine
from tests.exchange.pair import OUR_PARTY, THEIR_PARTY, WAITS
from tests.peer import Answer, Peer, Received, status
from tests.peer.ebms2 import EB, Envelope, Outgoing, acknowledgment, message_error
from tests.peer.sending import Request
from tests.waiting import wait_until

ORDERS = [("0", "Reset"), ("1", "Continue"), ("2", "Continue")]
"""SequenceNumber and its status, of the first messages of a conversation."""
SENDING = sorted(
    {
        CrashPoint.POLL_BEFORE_COMMIT,
        CrashPoint.POLL_AFTER_COMMIT,
        CrashPoint.POST_BEFORE_WRITE,
        CrashPoint.POST_AFTER_WRITE,
        CrashPoint.OUTCOME_BEFORE_COMMIT,
        CrashPoint.OUTCOME_AFTER_COMMIT,
    }
)


@dataclass
class Airport:
    """The MSH and one partner, which acknowledges what `lands` says; by default everything."""

    msh: Machine
    partner: Partner
    agreement: Agreement
    peer: Peer
    token: str
    lands: Callable[[str, int], bool] = lambda message_id, copy: True
    came: list[tuple[str, bytes]] = field(default_factory=list)
    envelopes: dict[str, Envelope] = field(default_factory=dict)
    """Of the first copy of each message."""
    _acks: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(4))

    def submit(self, **options: Any) -> OutboundMessage:
        return submit(self.agreement, "urn:orders", "New", [Payload(b"<order/>")], **options)

    def take(self, received: Received) -> Answer:
        message_id = Envelope(_root(received)).text("eb:MessageData/eb:MessageId")
        self.came.append((message_id, received.body))
        self.envelopes.setdefault(message_id, Envelope(_root(received)))
        if self.lands(message_id, len(self.copies(message_id))):
            self._acks.submit(self.acknowledge, message_id)
        return status(204)

    def acknowledge_at_once(self, received: Received) -> Answer:
        out = self.acknowledgment(Envelope(_root(received)).text("eb:MessageData/eb:MessageId"))
        return status(200, body=out.body, headers={"Content-Type": out.content_type})

    def acknowledgment(self, message_id: str) -> Outgoing:
        return acknowledgment(message_id, **self._header())

    def message_error(self, message_id: str) -> Outgoing:
        return message_error(message_id, **self._header())

    def _header(self) -> dict[str, str]:
        parties = {"from_party": THEIR_PARTY, "to_party": OUR_PARTY}
        return {"cpa_id": self.agreement.tpa_id, **parties}

    def acknowledge(self, message_id: str) -> None:
        self.signal(self.acknowledgment(message_id))

    def signal(self, out: Outgoing) -> None:
        """As long as it is not taken: processes of the MSH die meanwhile."""
        headers = {"Content-Type": out.content_type, "Authorization": f"Bearer {self.token}"}
        request = Request(self.msh.url, headers=headers, body=out.body)
        wait_until(lambda: request.send().status == 204, seconds=WAITS)

    def copies(self, message_id: str) -> list[bytes]:
        return [body for one, body in self.came if one == message_id]

    def orders(self, conversation: str) -> list[tuple[str, tuple[str, str]]]:
        """Each message of it with its MessageOrder, in the order of its numbers."""
        found = []
        for message_id, envelope in self.envelopes.items():
            if envelope.text("eb:ConversationId") == conversation:
                (number,) = envelope.all("eb:MessageOrder/eb:SequenceNumber")
                found.append((message_id, (number.text or "", number.get(f"{{{EB}}}status", ""))))
        return sorted(found, key=lambda one: int(one[1][0]))

    def wait_for_state(self, message: OutboundMessage, state: str = "acknowledged") -> None:
        rows = OutboundMessage.objects.filter(pk=message.pk)
        wait_until(lambda: rows.get().state == state, seconds=WAITS, what=f"{message} {state}")

    def events(self, message: OutboundMessage) -> list[str]:
        found = PartyEvent.objects.filter(message=message).order_by("pk")
        return list(found.values_list("kind", flat=True))

    def incidents(self) -> list[str]:
        found = Incident.objects.filter(partner=self.partner, resolved_at=None)
        return sorted(found.values_list("kind", flat=True))


def _root(received: Received) -> bytes:
    head = f"Content-Type: {received.headers['Content-Type']}\r\n\r\n".encode()
    whole = email.message_from_bytes(head + received.body)
    part = whole.get_payload()[0] if whole.is_multipart() else whole  # type: ignore[index]
    return bytes(part.get_payload(decode=True))  # type: ignore[union-attr]


@pytest.fixture
def airport(msh: Machine) -> Iterator[Callable[..., Airport]]:
    made: list[Airport] = []

    def make(**settings: Any) -> Airport:
        peer = Peer(msh.url).start()
        name = f"airport-{uuid.uuid4().hex[:12]}"
        agreement = {
            "dialect": "ebms2",
            "tpa_id": f"cpa-{name}",
            "our_party": OUR_PARTY,
            "our_party_type": "DUNS",
            "their_party": THEIR_PARTY,
            "their_party_type": "DUNS",
            "retry_interval": 1,
            "retries": 100,
            **settings,
        }
        partner = {"name": name, "uri": f"http://{name}.example/", "address": peer.address}
        apply({"partners": [{**partner, "agreements": [agreement]}]})
        row = Partner.objects.get(name=name)
        credential = Credential(partner=row)
        token = credential.generate()
        credential.save()
        open_links(row)
        one = Airport(msh, row, row.agreements.get(), peer, token)
        peer.always(one.take)
        made.append(one)
        return one

    yield make
    for one in made:
        change_link.suspend(one.partner, Actor("tester", "the test is over"))
        one.peer.stop()


@pytest.fixture
def crash_file(msh: Machine) -> Iterator[Machine]:
    yield msh
    msh.crash_file.unlink(missing_ok=True)


@pytest.mark.requirement("EB-079", "EB-015")
@pytest.mark.parametrize("point", SENDING)
def test_process_dies_at(
    point: CrashPoint, airport: Callable[..., Airport], crash_file: Machine
) -> None:
    here = airport()
    crash_file.crash_file.write_text(point)

    sent = [here.submit() for _ in range(3)]

    for message in sent:
        here.wait_for_state(message)
    wait_until(
        lambda: not crash_file.crash_file.exists(), seconds=WAITS, what=f"a death at {point}"
    )
    for message in sent:
        assert len(set(here.copies(message.message_id))) == 1
        assert here.events(message) == ["acknowledged"]
    assert here.incidents() == []


@pytest.mark.requirement("EB-120", "EB-122", "EB-123")
@pytest.mark.parametrize("point", [CrashPoint.POLL_BEFORE_COMMIT, CrashPoint.OUTCOME_BEFORE_COMMIT])
def test_process_dies_with_conversations_at(
    point: CrashPoint, airport: Callable[..., Airport], crash_file: Machine
) -> None:
    here = airport(ordered=True)
    crash_file.crash_file.write_text(point)
    sent = [here.submit(conversation_id=talk) for _ in range(3) for talk in ("a", "b")]
    for message in sent:
        here.wait_for_state(message)
    wait_until(
        lambda: not crash_file.crash_file.exists(), seconds=WAITS, what=f"a death at {point}"
    )
    for message in sent:
        assert len(set(here.copies(message.message_id))) == 1
    for talk in ("a", "b"):
        names = [one.message_id for one in sent if one.conversation_id == talk]
        assert here.orders(talk) == list(zip(names, ORDERS, strict=True))
    assert here.incidents() == []


@pytest.mark.requirement("EB-079")
@pytest.mark.parametrize("ordered", [False, True], ids=["unordered", "ordered"])
def test_redis_is_wiped_while_messages_fly(
    ordered: bool, airport: Callable[..., Airport], msh: Machine
) -> None:
    """Nothing is lost, and nothing is held: the sweep finds it all."""
    here = airport(ordered=ordered)
    here.lands = lambda message_id, copy: copy > 1
    sent = []
    for _ in range(3):
        sent.append(here.submit(conversation_id="talk"))
        msh.wipe_redis()
    for message in sent:
        here.wait_for_state(message)
        msh.wipe_redis()
        assert len(set(here.copies(message.message_id))) == 1
        assert here.events(message) == ["acknowledged"]
    assert here.incidents() == []


@pytest.mark.requirement("EB-120", "EB-121", "EB-122", "EB-123", "EB-124", "EB-134")
def test_conversations_as_a_peer_sees_them(airport: Callable[..., Airport]) -> None:
    here = airport(ordered=True)
    here.lands = lambda message_id, copy: message_id != "first" or copy > 1
    names = ("first", "second", "third")
    sent = [here.submit(conversation_id="talk", message_id=name) for name in names]
    for message in sent:
        here.wait_for_state(message)
    came = [message_id for message_id, _ in here.came]
    assert came[:2] == ["first", "first"]  # only its second copy was acknowledged
    assert here.orders("talk") == list(zip(names, ORDERS, strict=True))

    here.lands = lambda message_id, copy: message_id != "bad"
    bad = here.submit(conversation_id="talk", message_id="bad")
    wait_until(lambda: here.copies("bad"), seconds=WAITS)
    here.signal(here.message_error("bad"))
    here.wait_for_state(bad, "failed")
    behind = here.submit(conversation_id="talk", message_id="behind")
    here.wait_for_state(here.submit(conversation_id="other"))
    assert here.copies("behind") == []
    assert here.incidents() == ["conversation_stopped", "error_received"]
    here.lands = lambda message_id, copy: True
    change_flight.resume(bad, Actor("tester", "they have mended it"))
    here.wait_for_state(bad)
    here.wait_for_state(behind)
    assert len(here.copies("bad")) > 1
    assert len(set(here.copies("bad"))) == 1
    assert here.orders("talk")[3:] == [("bad", ("3", "Continue")), ("behind", ("4", "Continue"))]
    assert here.incidents() == []


@pytest.mark.requirement("EB-002", "EB-046", "EB-078", "EB-150")
def test_a_message_as_a_peer_reads_it(airport: Callable[..., Airport]) -> None:
    here = airport(our_role="Buyer", service_type="")
    message = here.submit(conversation_id="talk")
    here.wait_for_state(message)

    (received,) = here.peer.received.wait_for_count(1, lambda one: True, timeout=WAITS)
    assert received.headers["SOAPAction"] == '"ebXML"'
    media = received.headers["Content-Type"]
    assert re.match(r'multipart/related; type="text/xml"; boundary="[^"]+"; start="<[^"]+>"', media)
    envelope = Envelope(_root(received))
    assert envelope.text("eb:CPAId") == here.agreement.tpa_id
    assert envelope.text("eb:ConversationId") == "talk"
    assert envelope.text("eb:From/eb:PartyId") == OUR_PARTY
    assert envelope.text("eb:From/eb:Role") == "Buyer"
    assert len(envelope.all("eb:DuplicateElimination")) == 1
    assert len(envelope.all("eb:AckRequested")) == 1
    assert len(envelope.all("eb:Manifest/eb:Reference")) == 1


@pytest.mark.requirement("EB-069")
def test_an_acknowledgment_on_the_connection_counts(airport: Callable[..., Airport]) -> None:
    """Also if it is compressed, which we do not ask for."""
    here = airport(retries=0, retry_interval=60)
    encodings: list[str | None] = []

    def compressed(received: Received) -> Answer:
        plain = here.acknowledge_at_once(received)
        headers = {**plain.headers, "Content-Encoding": "gzip"}
        encodings.append(received.headers["Accept-Encoding"])
        return status(200, body=gzip.compress(plain.body), headers=headers)

    for answer in (here.acknowledge_at_once, compressed):
        here.peer.always(answer)
        message = here.submit()
        here.wait_for_state(message)
        assert here.events(message) == ["acknowledged"]
    assert encodings == ["identity"]


@pytest.mark.requirement("EB-080", "EB-082")
def test_a_silent_partner_gets_one_copy_more_than_retries(
    airport: Callable[..., Airport],
) -> None:
    here = airport(retries=2)
    here.lands = lambda message_id, copy: False
    message = here.submit()
    here.wait_for_state(message, "failed")
    copies = here.copies(message.message_id)
    assert len(copies) == 3
    assert len(set(copies)) == 1
    assert here.events(message) == ["failed"]
    assert here.incidents() == ["retries_spent"]


@pytest.mark.requirement("EB-085")
def test_one_message_that_is_not_acknowledged_holds_up_no_other(
    airport: Callable[..., Airport],
) -> None:
    here = airport()
    here.lands = lambda message_id, copy: message_id != "first"
    first = here.submit(message_id="first")
    later = [here.submit() for _ in range(20)]
    for message in later:
        here.wait_for_state(message)
    here.lands = lambda message_id, copy: True
    here.wait_for_state(first)


@pytest.mark.requirement("EB-083", "EB-091")
def test_an_outage_heals_when_the_partner_speaks(airport: Callable[..., Airport]) -> None:
    """Its connections are refused for longer than a TimeToLive. Nobody acts, nothing fails."""
    here = airport(retries=3, time_to_live=1)
    here.peer.go_down()
    sent = [here.submit() for _ in range(20)]
    link = OutboundLink.objects.filter(partner=here.partner)
    wait_until(lambda: link.get().state == "suspended", seconds=WAITS, what="the breaker")
    here.peer.come_up()

    here.signal(here.acknowledgment("nobody@them.example"))

    for message in sent:
        here.wait_for_state(message)
        assert here.events(message) == ["acknowledged"]
    assert here.incidents() == []
    assert link.get().state == "idle"
