"""Flights, with no process and no socket: what workers and the carrier do, by hand."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import count
from typing import Any

from django.db import connection, transaction
from django.utils import timezone

from msh.flows.operations import change_flight
from msh.flows.send_budget import SendBudget
from msh.flows.sending import flights as flight_kind
from msh.flows.sending import submit
from msh.flows.sending.answered import take_answer
from msh.flows.sending.http_answer import ended_with
from msh.flows.sending.kinds import Ended
from msh.models import (
    Flight,
    History,
    Incident,
    MaintenanceWindow,
    OutboundLink,
    OutboundMessage,
    PartyEvent,
)
from msh.protocol.attempt import AttemptOutcome, AttemptResult
from msh.protocol.message import ErrorReport, Payload
from msh.protocol.reason import Reason
from msh.store.flights.flights import Flights
from msh.store.flights.polling import lock_flights
from msh.store.history import Actor
from msh.store.sending.polling import Slots
from msh.transport.job import Job
from partners.models import Agreement, Partner
from partners.setup import apply
from tests.peer.ebms2 import Outgoing

from .byhand import PLENTY, TRANSMITTED, Carrying
from .posting import Posting

NO_CONNECTION = "Cannot connect to 127.0.0.1:9: Connection refused"
SILENT = AttemptResult(
    AttemptOutcome.FAILED, detail=NO_CONNECTION, body_sent=False, reason=Reason.CONNECTION
)
REFUSED = AttemptResult(AttemptOutcome.REFUSED, status=400, detail="Bad Request")
BUSY = AttemptResult(AttemptOutcome.FAILED, status=500, detail="Internal Server Error")
_names = count(1)


def round_of(
    carrying: Carrying, ended: Sequence[Ended], named: Iterable[int], *, everything: bool
) -> tuple[Flights, list[Job]]:
    """What the sending loop does with flights in one transaction, which the caller writes."""
    budget = SendBudget(carrying)
    flights = lock_flights(
        [(one.copy.partner_id, one.copy.key) for one in ended],
        named,
        Slots(4, carrying.free_in_all(), (), budget.for_large),
        longest_attempt=flight_kind.longest_attempt(),
        everything=everything,
    )
    flight_kind.record(flights, [one for one in ended if not one.is_of(flights.missed)])
    return flights, flight_kind.claim(flights, budget)


@dataclass
class Sky(Posting):
    """A partner to whom messages fly."""

    partner: Partner
    agreement: Agreement

    def submit(
        self, text: str = "<order/>", action: str = "New", **options: Any
    ) -> OutboundMessage:
        payloads = [Payload(text.encode(), content_type="application/xml")] if text else []
        return submit.submit(self.agreement, "urn:orders", action, payloads, **options)

    def poll(self, carrying: Carrying = PLENTY, *, everything: bool = True) -> list[Job]:
        """What the sending loop does with flights in one poll, without the carrier. Without
        `everything` it was woken up for this partner."""
        named = () if everything else (self.partner.pk,)
        with transaction.atomic():
            flights, jobs = round_of(carrying, (), named, everything=everything)
            flights.write()
        return jobs

    def end(self, job: Job, result: AttemptResult = TRANSMITTED) -> None:
        """The job's attempt ended like this; there is no slot for another."""
        self.record(ended_with(Ended(job.key, result)))

    def record(self, ended: Ended) -> None:
        with transaction.atomic():
            flights, _ = round_of(Carrying(left=0), [ended], (), everything=False)
            flights.write()

    def answer(
        self, message: OutboundMessage, *errors: ErrorReport, acknowledged: bool = True
    ) -> bool:
        return take_answer(
            self.partner.pk,
            self.agreement.pk,
            message.message_id,
            acknowledged=acknowledged,
            errors=errors,
        )

    def from_partner(self, out: Outgoing, **fields: Any) -> Outgoing:
        """As the partner sends it."""
        parties = {"from_party": "them", "to_party": "us", "party_type": "urn:party"}
        return out.but(**({"cpa_id": self.agreement.tpa_id} | parties | fields))

    def let_pass(self, seconds: float) -> None:
        """So much time passes: every time of the rows is so much earlier."""
        earlier = {name: f"{name} - interval '{seconds} s'" for name in _TIMES}
        sets = ", ".join(f"{name} = {value}" for name, value in earlier.items())
        with connection.cursor() as cursor:
            cursor.execute(f"UPDATE msh_flight SET {sets}")
            gate = ("probe_due", "failing_since", "probed_at")
            sets = ", ".join(f"{name} = {name} - interval '{seconds} s'" for name in gate)
            cursor.execute(f"UPDATE msh_outboundlink SET {sets}")

    @property
    def link(self) -> OutboundLink:
        return OutboundLink.objects.get(partner=self.partner)

    def flight(self, message: OutboundMessage) -> Flight | None:
        return Flight.objects.filter(message=message).first()

    def state(self, message: OutboundMessage) -> str:
        flight = self.flight(message)
        return flight.state if flight else OutboundMessage.objects.get(pk=message.pk).state

    def events(self, message: OutboundMessage) -> list[tuple[str, str]]:
        """What the From-Party is notified of."""
        found = PartyEvent.objects.filter(message=message).order_by("pk")
        return list(found.values_list("kind", "detail"))

    def incidents(self) -> list[str]:
        found = Incident.objects.filter(partner=self.partner, resolved_at=None)
        return sorted(found.values_list("kind", flat=True))

    def history(self, message: OutboundMessage) -> list[tuple[str, str, str]]:
        found = History.objects.filter(partner_id=self.partner.pk, message_id=message.message_id)
        return list(found.order_by("pk").values_list("event", "from_state", "to_state"))


_TIMES = ("due", "expires_at", "persists_until", "ends_at")


def make_sky(probe_interval: int = 0, **settings: Any) -> Sky:
    name = f"sky{next(_names)}"
    agreement = {
        "dialect": "ebms2",
        "tpa_id": f"cpa-{name}",
        "our_party": "us",
        "their_party": "them",
        "our_party_type": "urn:party",
        "their_party_type": "urn:party",
        "retries": 2,
        "retry_interval": 60,
        **settings,
    }
    uri = f"http://{name}.example/ebxml/"
    partner = {"name": name, "uri": uri, "our_uri": "http://us.example/", "agreements": [agreement]}
    apply({"partners": [{**partner, "probe_interval": probe_interval}]})
    found = Partner.objects.get(name=name)
    return Sky(found, found.agreements.get())


STATES = ["acknowledged", "in_flight", "held", "queued", "failed"]


def start_window(partner: Partner) -> MaintenanceWindow:
    """Of maintenance; it runs now."""
    now = timezone.now()
    return MaintenanceWindow.objects.create(
        partner=partner, starts_at=now, ends_at=now + timedelta(hours=1), state="running"
    )


def sky_of_five(**settings: Any) -> Sky:
    """With a message in each of STATES, in this order."""
    sky = make_sky(**settings)
    acknowledged, _, held, _, failed = [sky.submit() for _ in range(5)]
    change_flight.hold(held, Actor("ann", "wait"))
    change_flight.hold(failed, Actor("ann", "wait"))
    sky.poll(Carrying(left=2))
    sky.answer(acknowledged)
    OutboundMessage.objects.filter(pk=failed.pk).update(state="failed")
    Flight.objects.get(message=failed).delete()
    return sky


def mirror_of(sky: Sky) -> Partner:
    """Who the messages come from, as the other MSH knows us."""
    name = f"{sky.partner.name}-mirror"
    agreement = {
        "dialect": "ebms2",
        "tpa_id": sky.agreement.tpa_id,
        "our_party": "them",
        "our_party_type": "urn:party",
        "their_party": "us",
        "their_party_type": "urn:party",
    }
    partner = {"name": name, "uri": f"http://{name}.example/", "agreements": [agreement]}
    apply({"partners": [partner]})
    return Partner.objects.get(name=name)
