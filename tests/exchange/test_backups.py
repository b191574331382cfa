"""One side of two real MSHs is restored from a backup, with traffic in between (D2, D17, D43).

It ends in "resynchronise", says what may be lost or duplicated, and traffic flows again: nothing is
lost or duplicated without a person having been notified.
"""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from django.conf import settings
from pytest_django import DjangoDbBlocker

from msh.flows.operations import change_link, resynchronise
from msh.flows.operations.cancel import under_way
from msh.flows.sending.submit import submit
from msh.models import InboundMessage, Incident, OutboundLink, OutboundMessage
from msh.protocol.message import Payload
from msh.protocol.resynchronisation import Arriving, Repair
from msh.store.history import Actor
from partners.models import Agreement, Credential, Partner, digest_of
from partners.models.partner import OutgoingKind
from tests.exchange.machine import Machine
from tests.services import spare_redis
from tests.waiting import wait_until

ANN = Actor("ann", "restored from a backup")
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
            change_link.open_links(partner)

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
            wait_until(condition, seconds=WITHIN, what=f"{what}; {self.link.__dict__}")

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


@pytest.fixture
def sides(tmp_path: Path, django_db_blocker: DjangoDbBlocker) -> Iterator[tuple[Side, Side]]:
    """A and B, which know each other."""
    worker = os.environ.get("PYTEST_XDIST_WORKER", "alone")
    database = f"{settings.DATABASES['default']['NAME']}_backups_{worker}"
    machines = []
    with django_db_blocker.unblock():
        for number, letter in enumerate("ab", 1):
            (tmp_path / letter).mkdir()
            redis_url = spare_redis(os.environ["REDIS_URL"], number)
            uri = f"http://{letter}.example/ebxml/"
            machines.append(Machine(tmp_path / letter, f"{database}_{letter}", uri, redis_url))
        try:
            for machine in machines:
                machine.create()
                machine.start()
            a, b = (Side(machine) for machine in machines)
            a.knows(b, "b")
            b.knows(a, "a")
            yield a, b
        finally:
            for machine in machines:
                machine.destroy()


@pytest.mark.requirement("000-005", "000-070")
def test_the_partner_is_restored_then_we_are(sides: tuple[Side, Side]) -> None:
    a, b = sides
    everything = the_partner_is_restored(a, b)
    everything += we_are_restored(a)
    assert b.accepted() == everything
    b.until_taken_once(everything)
    with a.msh.database():
        assert not Incident.objects.filter(partner__name="b", resolved_at=None).exists()
        compared = resynchronise.compare(a.partner, resynchronise.ask(a.partner))
        assert (compared.plan.repair, compared.arriving) == (Repair.NOTHING, Arriving.AGREED)


def the_partner_is_restored(a: Side, b: Side) -> list[str]:
    """B forgets three messages; the next one is a gap there. What was accepted in the end."""
    kept = a.submits(3)
    a.until_acknowledged(kept)
    b.until_taken_once(kept)
    b.msh.back_up()
    lost = a.submits(3)
    a.until_acknowledged(lost)
    b.until_taken_once(lost)

    b.msh.restore()
    new = a.submits(2)
    a.until_suspended()
    assert b.accepted() == kept
    with a.msh.database():
        incident = Incident.objects.get(partner__name="b", resolved_at=None)
        assert (incident.kind, "4 to 6 missing" in incident.detail) == ("resynchronise", True)
        theirs = resynchronise.ask(a.partner)
        made = resynchronise.compare(a.partner, theirs).plan
        assert (made.repair, made.lost) == (Repair.REWIND, "")
        assert "Numbers 4 to 7 (4 in all) are sent again" in made.text
        assert made.duplicated.startswith("numbers 4 to 7")
        resynchronise.apply(a.partner, theirs, ANN)
    a.until_acknowledged(new)
    assert b.accepted() == [*kept, *lost, *new]
    return [*kept, *lost, *new]


def we_are_restored(a: Side) -> list[str]:
    """A forgets three messages that B has; one of them is in its queue again."""
    with a.msh.database():
        change_link.suspend(a.partner, ANN)
    queued = a.submits(1)
    a.msh.back_up()
    with a.msh.database():
        change_link.resume(a.partner, ANN)
    forgotten = [*queued, *a.submits(2)]
    a.until_acknowledged(forgotten)
    a.msh.restore()
    a.until_suspended()
    again = a.submits(1)
    with a.msh.database():
        change_link.resume(a.partner, ANN)
    a.until_suspended()  # its number was used there for another message
    with a.msh.database():
        assert Incident.objects.filter(kind="resynchronise", resolved_at=None).exists()
        theirs = resynchronise.ask(a.partner)
        compared = resynchronise.compare(a.partner, theirs)
        assert (compared.plan.repair, compared.plan.next_number) == (Repair.ADOPT, 12)
        assert "to 11" in compared.plan.lost
        assert compared.plan.duplicated
        resynchronise.apply(a.partner, theirs, ANN)
    last = a.submits(1)
    a.until_acknowledged(last)
    return [*forgotten, *again, *last]
