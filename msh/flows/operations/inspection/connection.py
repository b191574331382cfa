"""Are the ways to a partner open, and does its MSH answer? Never a message, and nothing is changed.

Over the network: call it outside of any transaction.
"""

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from django.conf import settings

from msh.flows.receiving import questions
from msh.flows.receiving.link_status import NoStatus, enquire
from msh.models import Attempt, OutboundLink
from msh.protocol import sequence
from msh.protocol.ebms.vocabulary import SERVICE
from msh.protocol.uri import mail_address, normalised
from msh.transport.handshake import Server
from msh.transport.job import Access
from msh.transport.way import Step, walk, walk_to
from partners.models import Agreement, Partner

DEADLINE = 5.0  # seconds of each step
SHORTEST = 1  # seconds for a Pong
MOST = 8
"""Addresses that are tested, at the same time."""
REFUSED = (401, 403)
"""Responses of a server that does not take our credentials."""


@dataclass(frozen=True, slots=True)
class Place:
    """An address to which messages go. `channels` lead there; none do where the partner is."""

    address: str
    channels: tuple[str, ...] = ()


def places(agreement: Agreement) -> list[Place]:
    """The address of its partner, then each other one to which a channel leads."""
    partner = agreement.partner.destination
    found: dict[str, Place] = {normalised(partner): Place(partner)}
    for channel in agreement.channels.exclude(address=None):
        name = channel.action if channel.service == SERVICE else str(channel)
        place = found.setdefault(normalised(channel.address), Place(channel.address))
        if place.address != partner:
            channels = (*place.channels, name.removeprefix(f"{channel.direction} "))
            found[normalised(channel.address)] = replace(place, channels=channels)
    return list(found.values())


def check(agreement: Agreement) -> list[tuple[Place, list[Step]]]:
    """TCP, TLS and what the MSH answers, as far as they come, at the first MOST `places`; by mail,
    our mail host's. The Pings have the patience of a page together."""
    tested = places(agreement)[:MOST]
    access = agreement.partner.access()
    with ThreadPoolExecutor(MOST) as pool:
        ways = [*pool.map(lambda place: _way(place.address, access), tested)]
    is_open = [all(step.went for step in way) for way in ways]
    end, left = time.monotonic() + questions.PATIENCE_OF_A_PAGE, sum(is_open)
    found = []
    for place, way, may_ask in zip(tested, ways, is_open, strict=True):
        if may_ask:
            patience = max(SHORTEST, round((end - time.monotonic()) / left))
            way.append(_answer(agreement, place, patience))
            left -= 1
        found.append((place, way))
    return found


def _way(address: str, access: Access) -> list[Step]:
    if mail_address(address):
        tls = settings.EMAIL_USE_SSL
        host = Server(settings.EMAIL_HOST, settings.EMAIL_PORT, Access())
        ours = Step("way", None, f"mail is sent to our mail server {settings.EMAIL_HOST}")
        return [ours, *walk(host, DEADLINE, tls=tls)]
    return walk_to(address, DEADLINE, access)


def last_step(agreement: Agreement) -> str:
    """The request to its MSH, with an article."""
    return "a Ping" if agreement.settings.has_ping else "a link status request"


def _answer(agreement: Agreement, place: Place, patience: float) -> Step:
    if not agreement.settings.has_ping:
        return _status(agreement.partner)
    said = questions.ping(agreement.partner, patience, agreement.tpa_id, place.address)
    if said.is_answer:
        took = f"{said.answer} after {round(said.seconds * 1000)} ms"
        return Step("Ping", went=True, detail=took)
    if normalised(place.address) == normalised(questions.address_of_ping(agreement)):
        return Step("Ping", went=False, detail=said.detail)
    elsewhere = "Pings go to another address, so that this one need not answer them"
    return Step("Ping", None, f"{said.detail}. {elsewhere}.")


def _without_status(link: OutboundLink | None, problem: NoStatus) -> Step:
    """Return what that answer says about the connection. Only an MSH of this product answers the
    request itself, but each server checks our credentials first."""
    why = problem.why or str(problem)
    if problem.silent:
        detail = (
            f"The connection works and the server took the request, but there was {why}. Ask the"
            " partner's operator whether its MSH is running."
        )
        return Step("HTTP", went=False, detail=detail)
    if problem.status in REFUSED:
        detail = (
            f"The server answered {why}: it refuses our credentials. Enter others in the settings"
            " of the partner, or ask its operator which ones it expects."
        )
        return Step("HTTP", went=False, detail=detail)
    before = _last_attempt(link)
    if problem.status and before is not None and before.status in REFUSED:
        detail = (
            f"The server answered {why}. The last copy was answered {before.detail}: our"
            " credentials are accepted now."
        )
        return Step("HTTP", went=True, detail=detail)
    changed = before is not None and before.status and before.status != problem.status
    last = f" The last copy was answered {before.detail}." if changed and before else ""
    detail = (
        f"The server answered: {why}.{last} This says nothing about its MSH: only MSHs of this"
        " product answer a link status request."
    )
    return Step("HTTP", None, detail)


def _last_attempt(link: OutboundLink | None) -> Attempt | None:
    """Of the message in flight."""
    if link is None or link.in_flight_id is None:
        return None
    ended = Attempt.objects.filter(message=link.in_flight_id, ended_at__isnull=False)
    return ended.order_by("-number").first()


def _status(partner: Partner) -> Step:
    link = OutboundLink.objects.filter(partner=partner).first()
    try:
        status = enquire(partner)
    except NoStatus as problem:
        return _without_status(link, problem)
    ours = link.next_number if link else sequence.FIRST
    last = status.accepted_number or "none"
    detail = f"the last number it accepted from us is {last}, our next is {ours}"
    return Step("link status", went=True, detail=detail)
