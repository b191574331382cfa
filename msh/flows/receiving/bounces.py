"""A mail host returns a mail of ours: the message that it is about has to know (RFC 3464)."""

import logging
from collections.abc import Sequence
from contextlib import suppress

from django.db import transaction

from msh.allowance import Limited
from msh.flows.wake_up import wake_up_for
from msh.models import InboundMessage
from msh.protocol.errors import IllegalTransition
from msh.protocol.events import AttemptRefused
from msh.store.flights.flights import Flights
from msh.store.receiving.refusals import note
from msh.store.sending.links import OutboundLinks
from msh.store.transactions import short_transaction
from msh.wire import DeliveryReport
from partners.models import Partner

_lines = Limited(logging.getLogger(__name__))  # mail hosts can send without end

BOUNCED = "MailBounced"


def take_report(partners: Sequence[Partner], report: DeliveryReport, client: str) -> None:
    """Note it at the message, of one of these partners, that it is about. A status of class 5
    counts as a refusal of the copy; else the retries go on. `client`: the address it came from."""
    for partner in partners:
        for about in report.about:
            if _take(partner, about, report):
                return
    if len(partners) == 1:
        note(partners[0].pk, "", BOUNCED, f"{report.words} (about no message of ours)")
    else:
        _lines.warning(client, f"a mail host reports of no message of ours: {report.words}")


def note_automatic_reply(partners: Sequence[Partner], said: str, client: str) -> None:
    if len(partners) == 1:
        note(partners[0].pk, "", "AutomaticReplyReceived", said)
    else:
        _lines.warning(client, f"an automatic reply came by mail, nothing was done: {said}")


def _take(partner: Partner, about: str, report: DeliveryReport) -> bool:
    """Whether there is such a message. One of the partner's: our signal about it was returned."""
    if _is_flight(partner, about, report) or _is_of_lane(partner, about, report):
        return True
    if InboundMessage.objects.filter(link__partner=partner, message_id=about).exists():
        note(partner.pk, about, BOUNCED, f"our answer: {report.words}")
        return True
    return False


def _is_flight(partner: Partner, about: str, report: DeliveryReport) -> bool:
    with short_transaction():
        flights, key = Flights.lock_one(partner.pk, about)
        if key is None:
            return False
        note(partner.pk, about, BOUNCED, report.words, "out")
        flight = flights.flight(key)
        if report.refuses and flight.attempt:
            flights.step(key, AttemptRefused(about, flight.attempt, report.words))
        flights.write(last=True)
    wake_up_for(flights)
    return True


def _is_of_lane(partner: Partner, about: str, report: DeliveryReport) -> bool:
    with transaction.atomic():
        links, row = OutboundLinks.lock_with_sent(partner.pk, about)
        if row is None:
            return False
        note(partner.pk, about, BOUNCED, report.words, "out")
        flying = links.lane(partner.pk).in_flight if partner.pk in links else None
        if report.refuses and flying and flying.message_id == about and flying.attempt:
            with suppress(IllegalTransition):
                links.step(partner.pk, AttemptRefused(about, flying.attempt, report.words))
        links.write()
    wake_up_for(links)
    return True
