"""One partner of the MSH under test, with the scripted peer that plays it."""

import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from msh.flows.operations import change_link
from msh.flows.sending.submit import submit
from msh.models import Attempt, Incident, OutboundLink, OutboundMessage, OutboundState, PartyEvent
from msh.protocol.lane import LaneState
from msh.protocol.message import Payload
from msh.store.history import Actor
from msh.store.operations.operator_actions import open_links
from partners.models import Agreement, Credential, Partner
from tests.exchange.machine import Machine
from tests.peer import Peer, Received, normal
from tests.waiting import wait_until

OUR_PARTY = "111111111"
THEIR_PARTY = "222222222"
WAITS = 60.0  # seconds that a test waits for what should come at once, on a busy machine
LATE = 2.0  # seconds after its time that a copy may come at most

Ended = tuple[str, int | None]
"""Outcome and HTTP status of an attempt."""


@dataclass(eq=False)
class Pair:
    """The MSH and one partner: rows of its own, so that tests share an MSH and nothing else."""

    msh: Machine
    partner: Partner
    agreement: Agreement
    peer: Peer
    _actor: Actor = field(default=Actor("tester", "the test says so"))
    _received: int = 0

    # --- what our application and our operator do -------------------------------------------------
    def submit(self, content: bytes = b"<Order/>", **options: Any) -> OutboundMessage:
        """Hand over a message with one payload, or with those of the option `payloads`."""
        payloads = options.pop("payloads", [Payload(content, label="Order")])
        options = {"service_interface": "QuoteToCollect", "action": "NewPurchaseOrder"} | options
        return submit(self.agreement, payloads=payloads, **options)

    def suspend(self) -> None:
        change_link.suspend(self.partner, self._actor)

    def resume(self) -> None:
        change_link.resume(self.partner, self._actor)

    def reset_retries(self) -> None:
        change_link.reset_retries(self.partner, self._actor)

    def send_now(self) -> None:
        change_link.send_now(self.partner, self._actor)

    def start_link(self, last: int, direction: str = "out") -> None:
        change_link.start_link(self.partner, direction, last, self._actor)

    def agree(self, **terms: int) -> None:
        """Change the agreement."""
        for name, value in terms.items():
            setattr(self.agreement, name, value)
        self.agreement.save(update_fields=list(terms))

    def receive(self) -> None:
        """The peer sends a reliable message of its own and gets the Ack: signals flow."""
        self._received += 1
        draft = normal(sequence_number=self._received)
        response = self.peer.send(draft)
        assert response.status == 204, response.error
        self.peer.received.wait_for_acknowledgement(of=draft, timeout=WAITS)

    # --- what stands in the rows ------------------------------------------------------------------
    @property
    def link(self) -> OutboundLink:
        """As it is now."""
        return OutboundLink.objects.get(partner=self.partner)

    def state_of(self, message: OutboundMessage) -> str:
        return OutboundMessage.objects.get(pk=message.pk).state

    def acknowledged(self) -> int:
        """How many of its messages are."""
        return self.link.messages.filter(state=OutboundState.ACKNOWLEDGED).count()

    def events(self, message: OutboundMessage) -> list[str]:
        """Kinds of the events for the From-Party, oldest first."""
        events = PartyEvent.objects.filter(message=message).order_by("pk")
        return list(events.values_list("kind", flat=True))

    def attempts(self, message: OutboundMessage) -> list[Ended]:
        """Those that have ended."""
        ended = Attempt.objects.filter(message=message, ended_at__isnull=False).order_by("number")
        return list(ended.values_list("outcome", "status"))

    def attempt_rows(self, message: OutboundMessage) -> str:
        """All that stands in them, to be read by somebody who looks for an error."""
        rows = Attempt.objects.filter(message=message).order_by("number").values()
        return "\n".join(str(row) for row in rows)

    def incidents(self) -> list[str]:
        """Kinds of its open incidents."""
        incidents = Incident.objects.filter(partner=self.partner, resolved_at=None)
        return sorted(incidents.values_list("kind", flat=True))

    # --- waiting ----------------------------------------------------------------------------------
    def wait_for_state(self, message: OutboundMessage, state: str = "acknowledged") -> None:
        wait_until(
            lambda: self.state_of(message) == state,
            seconds=WAITS,
            what=lambda: f"{message} {state}, the link is {self.link.state}",
        )

    def wait_for_link(self, state: LaneState) -> OutboundLink:
        wait_until(
            lambda: self.link.state == state,
            seconds=WAITS,
            what=lambda: f"the link to {self.partner} {state}, it is {self.link.state}",
        )
        return self.link

    def wait_for_attempts(self, message: OutboundMessage, count: int) -> list[Ended]:
        """Its attempts, once `count` have ended."""
        wait_until(
            lambda: len(self.attempts(message)) >= count,
            seconds=WAITS,
            what=lambda: f"{count} ended attempts of {message}, not {self.attempts(message)}",
        )
        return self.attempts(message)

    def wait_for_copies(
        self, message: OutboundMessage, count: int, seconds: float = WAITS
    ) -> list[Received]:
        """The copies that came to the peer, once there are `count`."""

        def enough(recording: Any) -> list[Received]:
            copies: list[Received] = recording.copies_of(message.message_id)
            return copies if len(copies) >= count else []

        return self.peer.received.wait_for(enough, seconds, f"{count} copies of {message}")

    def close(self) -> None:
        """Leave nothing that the MSH would go on with."""
        if self.link.state != LaneState.SUSPENDED:
            self.suspend()
        self.peer.stop()


PairFactory = Callable[..., Pair]


def new_pair(
    msh: Machine,
    *,
    timeout: int = 1,
    retries: int = 2,
    retry_interval: int = 1,
    acknowledges: bool = False,
    name: str = "",
    **terms: Any,
) -> Pair:
    """A partner that nobody else has, played by a fresh peer. `terms` are other ones of the
    agreement. Times in seconds. `name` must be new."""
    name = name or f"partner-{uuid.uuid4().hex[:12]}"
    identity = f"http://{name}.example/ebxml/"
    partner = Partner(name=name, uri=identity)
    agreement = Agreement(
        tpa_id=f"tpa-{name}",
        our_party=OUR_PARTY,
        our_party_context="DUNS",
        their_party=THEIR_PARTY,
        their_party_context="DUNS",
        timeout=timeout,
        retries=retries,
        retry_interval=retry_interval,
        **terms,
    )
    peer = Peer(
        msh.url,
        msh_uri=msh.uri,
        uri=identity,
        acknowledges=acknowledges,
        tpa_id=agreement.tpa_id,
        from_party=THEIR_PARTY,
        to_party=OUR_PARTY,
    ).start()
    partner.address = peer.address
    partner.full_clean()
    partner.save()
    agreement.partner = partner
    agreement.full_clean()
    agreement.save()
    credential = Credential(partner=partner)
    peer.token = credential.generate()
    credential.save()
    open_links(partner)
    return Pair(msh, partner, agreement, peer)


def let_sweeps_pass(pair: PairFactory) -> None:
    """Return when the MSH has looked at every lane several times: when the recovery of another
    partner has run off. What has not come by then does not come."""
    witness = pair(timeout=1, retries=1, retry_interval=1)
    witness.submit()
    witness.wait_for_link(LaneState.SUSPENDED)


def assert_waited(pair: Pair, message: OutboundMessage, *waits: float) -> None:
    """The copies that came: one more than `waits`, each that many seconds after the one before.

    By the peer's clock at their arrival: never early, and at most LATE seconds late. An arrival is
    noted before it is answered, so a wait that began with the answer ends later.
    """
    gaps = pair.peer.received.gaps(message.message_id)
    found = f"{gaps} is not {waits}:\n{pair.attempt_rows(message)}"
    assert len(gaps) == len(waits), found
    for gap, wait in zip(gaps, waits, strict=True):
        assert wait <= gap <= wait + LATE, found
