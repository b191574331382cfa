"""A, R and B in one database: R is the router between them. Nothing is transmitted but by hand.

Each pair is two partners that are each other's mirror: `at_a` is R as A knows it, and so on.
"""

from dataclasses import dataclass
from itertools import count
from typing import Any

from msh.flows.receiving import receive
from msh.flows.receiving.forward import forward
from msh.flows.sending import submit
from msh.models import InboundMessage, OutboundLink, OutboundMessage, Signal
from msh.protocol.attempt import AttemptResult
from msh.protocol.kinds import RouteMode
from msh.protocol.message import Payload
from msh.transport.job import Job
from partners.models import Agreement, Partner, Route, digest_of

from . import byhand
from .byhand import TRANSMITTED
from .posting import Posting
from .world import MOST_POSTS

_names = count(1)
A_PARTY, B_PARTY, CONTEXT = "111", "222", "DUNS"
WAITS = {"timeout": 60, "retries": 3, "retry_interval": 60}


@dataclass
class Chain(Posting):
    """`at_a` and `from_a`: the two views of the pair A, R; `at_r` and `from_r`: of R, B."""

    at_a: Partner
    from_a: Partner
    at_r: Partner
    from_r: Partner
    agreement: Agreement
    route: Route

    def submit(self, text: str = "<order/>", **options: Any) -> OutboundMessage:
        payload = Payload(text.encode(), label="order.xml")
        return submit.submit(self.agreement, "Orders", "New", [payload], **options)

    def poll(self) -> list[Job]:
        """What the workers of all three do in one poll, without the carrier."""
        forward()
        return byhand.poll()

    def hand_over(self, job: Job) -> receive.Answer:
        """The bytes of a job reach the other side."""
        mirrors = {
            self.at_a.pk: self.from_a,
            self.from_a.pk: self.at_a,
            self.at_r.pk: self.from_r,
            self.from_r.pk: self.at_r,
        }
        return byhand.hand_over(job, mirrors[job.partner_id])

    def end(self, job: Job, result: AttemptResult = TRANSMITTED) -> None:
        byhand.end(job, result)

    def transmit(self, job: Job) -> receive.Answer:
        answer = self.hand_over(job)
        self.end(job)
        return answer

    def settle(self) -> list[Job]:
        """Transmit everything that is due until nothing is; what that took."""
        transmitted = []
        while jobs := self.poll():
            for job in jobs:
                self.transmit(job)
                transmitted.append(job)
            assert len(transmitted) < MOST_POSTS, "there is always something due"
        return transmitted

    def link(self, partner: Partner) -> OutboundLink:
        return OutboundLink.objects.get(partner=partner)

    def stored_at(self, partner: Partner) -> list[str]:
        """MessageIds accepted from a partner, in the order of their acceptance."""
        accepted = InboundMessage.objects.filter(link__partner=partner).order_by("pk")
        return list(accepted.values_list("message_id", flat=True))

    def pending_for(self, partner: Partner) -> list[tuple[str, str]]:
        """Kind and code of the signals that are pending to a partner."""
        pending = Signal.objects.filter(link__partner=partner, pending__gt=0).order_by("pk")
        return list(pending.values_list("kind", "code"))


def make_chain(mode: RouteMode = RouteMode.HOP, **terms: int) -> Chain:
    name = f"c{next(_names)}"
    a, r, b = (f"http://{name}-{end}.example/" for end in "arb")
    waits = WAITS | terms

    def pair(names: str, ours: str, theirs: str, our_party: str, their_party: str) -> Partner:
        made = Partner.objects.create(name=f"{name}-{names}", our_uri=ours, uri=theirs)
        made.credentials.create(sha256=digest_of(made.name))
        Agreement.objects.create(
            partner=made, tpa_id="tpa-1", our_party=our_party, their_party=their_party, **waits
        )
        return made

    at_a = pair("at-a", a, r, A_PARTY, f"{name}-{B_PARTY}")
    from_a = pair("from-a", r, a, f"{name}-{B_PARTY}", A_PARTY)
    at_r = pair("at-r", r, b, A_PARTY, f"{name}-{B_PARTY}")
    from_r = pair("from-r", b, r, f"{name}-{B_PARTY}", A_PARTY)
    # In one database R's route must not be found for what comes to B: there the party has no
    # context, and a route with one does not match it.
    Agreement.objects.filter(partner=from_a).update(our_party_context=CONTEXT)
    Agreement.objects.filter(partner=at_a).update(their_party_context=CONTEXT)
    route = Route.objects.create(
        to_party=f"{name}-{B_PARTY}", to_party_context=CONTEXT, partner=at_r, mode=mode.value
    )
    agreement = at_a.agreements.get()
    return Chain(at_a, from_a, at_r, from_r, agreement, route)
