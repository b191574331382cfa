"""One database in which an MSH talks to itself: partner `there` is what we send to, `here` is who
those messages come from. No process, no socket: what is transmitted is handed over by hand."""

from dataclasses import dataclass
from itertools import count
from typing import Any

from msh.flows.receiving import receive
from msh.flows.sending import submit
from msh.models import InboundMessage, OutboundLink, OutboundMessage
from msh.protocol.attempt import AttemptOutcome, AttemptResult
from msh.protocol.message import Payload
from msh.transport.job import Job
from partners.models import Agreement, Partner, digest_of

from . import byhand
from .byhand import TRANSMITTED
from .posting import Posting

NO_CONNECTION = "Cannot connect to 127.0.0.1:9: Connection refused"
LOST = AttemptResult(AttemptOutcome.FAILED, detail=NO_CONNECTION, body_sent=False)
MOST_POSTS = 1000
_names = count(1)


@dataclass
class World(Posting):
    there: Partner
    here: Partner
    agreement: Agreement

    def submit(self, text: str = "<order/>", **options: Any) -> OutboundMessage:
        payload = Payload(text.encode(), label="order.xml")
        return submit.submit(self.agreement, "Orders", "New", [payload], **options)

    def poll(self) -> list[Job]:
        return byhand.poll()

    def hand_over(self, job: Job) -> receive.Answer:
        """The bytes of a job reach the other side."""
        return byhand.hand_over(job, self.here if job.partner_id == self.there.pk else self.there)

    def end(self, job: Job, result: AttemptResult = TRANSMITTED) -> None:
        byhand.end(job, result)

    def settle(self) -> int:
        """Transmit everything that is due until nothing is; how many POSTs that took."""
        transmitted = 0
        while jobs := self.poll():
            for job in jobs:
                self.hand_over(job)
                self.end(job)
                transmitted += 1
            assert transmitted < MOST_POSTS, "there is always something due"
        return transmitted

    @property
    def link(self) -> OutboundLink:
        return OutboundLink.objects.get(partner=self.there)

    def received(self) -> list[str]:
        """MessageIds accepted, in the order of their acceptance."""
        accepted = InboundMessage.objects.filter(link__partner=self.here).order_by("pk")
        return list(accepted.values_list("message_id", flat=True))


def make_world(timeout: int = 60, retries: int = 3, retry_interval: int = 60) -> World:
    """Two partners that are each other's mirror, with one agreement each."""
    name = f"w{next(_names)}"
    ours, theirs = f"http://{name}.example/a/", f"http://{name}.example/b/"
    there = Partner.objects.create(name=f"{name}-there", our_uri=ours, uri=theirs)
    here = Partner.objects.create(name=f"{name}-here", our_uri=theirs, uri=ours)
    waits = {"timeout": timeout, "retries": retries, "retry_interval": retry_interval}
    for partner in (there, here):
        partner.credentials.create(sha256=digest_of(partner.name))
    agreement = Agreement.objects.create(
        partner=there, tpa_id="tpa-1", our_party="111", their_party="222", **waits
    )
    Agreement.objects.create(
        partner=here, tpa_id="tpa-1", our_party="222", their_party="111", **waits
    )
    return World(there, here, agreement)


def late_world(
    retries_spent: int,
    retries: int = 4,
    early_warning: int = 0,
    result: AttemptResult = TRANSMITTED,
) -> World:
    """A message in flight that has spent retries; how its last attempt ended."""
    world = make_world(retries=retries)
    world.agreement.early_warning = early_warning
    world.agreement.save(update_fields=["early_warning"])
    world.submit()
    world.post(result)
    OutboundLink.objects.filter(pk=world.link.pk).update(retries_spent=retries_spent)
    return world
