"""Messages of a partner in both directions, and whether each of them came once."""

from msh.models import OutboundMessage
from tests.exchange.pair import Pair
from tests.hosts.machine import Hosts
from tests.peer import Draft, normal
from tests.waiting import wait_until


class Traffic:
    def __init__(self, msh: Hosts, partner: Pair) -> None:
        self._msh = msh
        self._partner = partner
        self._sent: list[OutboundMessage] = []
        self._received: list[Draft] = []

    def submit(self) -> OutboundMessage:
        self._sent.append(self._partner.submit())
        return self._sent[-1]

    def receive(self, *, seconds: float = 10) -> Draft:
        """The partner sends a message, and again until the MSH has taken it."""
        self._received.append(normal(sequence_number=len(self._received) + 1))
        draft = self._received[-1]
        wait_until(lambda: self._is_taken(draft), seconds=seconds)
        return draft

    def _is_taken(self, draft: Draft) -> bool:
        try:
            return self._partner.peer.send(draft, timeout=5).status == 204
        except OSError:  # no answer in time
            return False

    def wait_for_last_acknowledgement(self, seconds: float) -> None:
        """Of what was received last."""
        received = self._partner.peer.received
        received.wait_for_acknowledgement(of=self._received[-1], timeout=seconds)

    def wait_until_acknowledged(self, seconds: float) -> None:
        """All of them, by the MSH and by the partner."""
        wait_until(
            lambda: self._partner.acknowledged() == len(self._sent),
            seconds=seconds,
            what=lambda: f"{len(self._sent)} acknowledged, not {self._partner.acknowledged()}",
        )
        for draft in self._received:
            self._partner.peer.received.wait_for_acknowledgement(of=draft, timeout=seconds)

    def assert_once(self) -> None:
        """Each message has one number and each number one message, in the order of submission; the
        application has what was received once."""
        copies = self._partner.peer.received.normals()
        named = {(copy.message.sequence_number, copy.message.message_id) for copy in copies}
        sent = [message.message_id for message in self._sent]
        assert sorted(named) == list(enumerate(sent, 1))
        ids = [draft.message_id for draft in self._received]
        wait_until(lambda: all(self._msh.taken(one) for one in ids))
        assert [self._msh.taken(one) for one in ids] == [1] * len(ids)
