"""Is the way to a partner open, and does its MSH answer? Never a message, and nothing is changed.

Over the network: call it outside of any transaction.
"""

from django.conf import settings

from msh.flows.receiving import questions
from msh.flows.receiving.link_status import NoStatus, enquire
from msh.models import OutboundLink
from msh.protocol import sequence
from msh.protocol.uri import mail_address
from msh.transport.way import Step, walk, walk_to
from partners.models import Partner
from partners.models.dialects import Settings, settings_of

DEADLINE = 5.0  # seconds of each step


def check(partner: Partner) -> list[Step]:
    """TCP, TLS and what its MSH answers at its address, as far as they come; by mail, our mail
    host's."""
    if mail_address(partner.destination):
        tls = settings.EMAIL_USE_SSL
        ours = Step("way", None, f"mail is sent to our mail server {settings.EMAIL_HOST}")
        return [ours, *walk(settings.EMAIL_HOST, settings.EMAIL_PORT, DEADLINE, tls=tls)]
    steps = walk_to(partner.destination, DEADLINE)
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


def _without_status(why: str, *, silent: bool) -> Step:
    """Return what that answer says about the connection. Only an MSH of this product answers the
    request itself."""
    if silent:
        detail = (
            f"The connection works and the server took the request, but there was {why}. Ask the"
            " partner's operator whether its MSH is running."
        )
        return Step("HTTP", went=False, detail=detail)
    detail = (
        f"The server answered: {why}. This says nothing about its MSH: only MSHs of this product"
        " answer a link status request."
    )
    return Step("HTTP", None, detail)


def _status(partner: Partner) -> Step:
    try:
        status = enquire(partner)
    except NoStatus as problem:
        return _without_status(problem.why or str(problem), silent=problem.silent)
    link = OutboundLink.objects.filter(partner=partner).first()
    ours = link.next_number if link else sequence.FIRST
    last = status.accepted_number or "none"
    detail = f"the last number it accepted from us is {last}, our next is {ours}"
    return Step("link status", went=True, detail=detail)
