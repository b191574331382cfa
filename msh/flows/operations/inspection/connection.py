"""Is the way to a partner open, and does its MSH answer? Never a message, and nothing is changed.

Over the network: call it outside of any transaction.
"""

from django.conf import settings

from msh.flows.receiving import questions
from msh.flows.receiving.link_status import NoStatus, enquire
from msh.models import Attempt, OutboundLink
from msh.protocol import sequence
from msh.protocol.uri import mail_address
from msh.transport.handshake import Server
from msh.transport.job import Access
from msh.transport.way import Step, walk, walk_to
from partners.models import Partner
from partners.models.dialects import Settings, settings_of

DEADLINE = 5.0  # seconds of each step
REFUSED = (401, 403)
"""Responses of a server that does not take our credentials."""


def check(partner: Partner) -> list[Step]:
    """TCP, TLS and what its MSH answers at its address, as far as they come; by mail, our mail
    host's."""
    if mail_address(partner.destination):
        tls = settings.EMAIL_USE_SSL
        host = Server(settings.EMAIL_HOST, settings.EMAIL_PORT, Access())
        ours = Step("way", None, f"mail is sent to our mail server {settings.EMAIL_HOST}")
        return [ours, *walk(host, DEADLINE, tls=tls)]
    steps = walk_to(partner.destination, DEADLINE, partner.access())
    if not all(step.went for step in steps):
        return steps
    return [*steps, _ping(partner) if _settings(partner).has_ping else _status(partner)]


def last_step(partner: Partner) -> str:
    """The request to its MSH, with an article."""
    return "a Ping" if _settings(partner).has_ping else "a link status request"


def _settings(partner: Partner) -> Settings:
    dialects = partner.agreements.order_by("pk").values_list("dialect", flat=True)
    return settings_of(dialects.first() or "")


def _ping(partner: Partner) -> Step:
    said = questions.ping(partner, questions.PATIENCE_OF_A_PAGE)
    took = f"{said.answer} after {round(said.seconds * 1000)} ms" if said.is_answer else said.detail
    return Step("Ping", said.is_answer, took)


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
