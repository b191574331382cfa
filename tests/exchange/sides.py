"""Two real MSHs that know each other, each with a database of its own."""

from collections.abc import Callable
from dataclasses import dataclass

from msh.flows.operations.inspection.copies import under_way
from msh.flows.sending.submit import submit
from msh.models import InboundMessage, OutboundLink, OutboundMessage
from msh.protocol.message import Payload
from msh.store.operations.operator_actions import open_links
from partners.models import Agreement, Credential, Partner, digest_of
from partners.models.partner import OutgoingKind
from tests.exchange.machine import Machine
from tests.waiting import wait_until

WITHIN = 90.0  # seconds


@dataclass
class Side:
    """An MSH and its one partner, the other MSH."""

    msh: Machine
    name: str = ""

    @property
    def partner(self) -> Partner:
        return Partner.objects.get(name=self.name)

    @property
    def link(self) -> OutboundLink:
        return OutboundLink.objects.get(partner__name=self.name)

    def knows(self, other: "Side", name: str) -> None:
        """Agree with the other side. In its own database."""
        self.name = name
        with self.msh.database():
            partner = Partner(name=name, uri=other.msh.uri, address=other.msh.url)
            partner.show(OutgoingKind.BEARER, f"token-of-{self.msh.uri}")
            partner.save()
            shown = digest_of(f"token-of-{other.msh.uri}")
            Credential.objects.create(partner=partner, sha256=shown)
            ours, theirs = ("1", "2") if name == "b" else ("2", "1")
            Agreement.objects.create(
                partner=partner,
                tpa_id="tpa",
                our_party=ours,
                their_party=theirs,
                timeout=2,
                retries=5,
                retry_interval=2,
            )
            open_links(partner)

    def submits(self, count: int) -> list[str]:
        with self.msh.database():
            agreement = Agreement.objects.get(partner__name=self.name)
            return [
                submit(agreement, "Orders", "New", [Payload(b"<Order/>")]).message_id
                for _ in range(count)
            ]

    def until(self, condition: Callable[[], object], what: str) -> None:
        """Wait for what its rows will say."""
        with self.msh.database():
            wait_until(condition, seconds=WITHIN, what=lambda: f"{what}; {self.link.__dict__}")

    def until_acknowledged(self, message_ids: list[str]) -> None:
        done = OutboundMessage.objects.filter(state="acknowledged", message_id__in=message_ids)
        self.until(lambda: done.count() == len(message_ids), "all acknowledged")

    def until_suspended(self) -> None:
        """And until it is recorded how the last POST ended."""
        self.until(lambda: self.link.state == "suspended" and not under_way(self.link), "suspended")

    def accepted(self) -> list[str]:
        """MessageIds, in the order of their acceptance."""
        with self.msh.database():
            rows = InboundMessage.objects.filter(link__partner__name=self.name).order_by("pk")
            return list(rows.values_list("message_id", flat=True))

    def until_taken_once(self, message_ids: list[str]) -> None:
        """Each was delivered, by the application's own table."""

        def counts() -> list[int]:
            return [self.msh.taken(message_id) for message_id in message_ids]

        self.until(lambda: all(counts()), "all delivered")
        with self.msh.database():
            assert counts() == [1] * len(message_ids)
