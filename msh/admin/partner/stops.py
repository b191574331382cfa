"""What needs an operator's attention at one partner, in both directions: one sentence each. A
suspended link is left out: its state says so."""

from collections.abc import Iterator, Sequence

from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.safestring import SafeString

from msh.admin.framework import markup
from msh.admin.links.advice import waits_as_asked
from msh.admin.links.inbound_link import first_undelivered
from msh.admin.messages.undelivered import standstill
from msh.models import (
    Delivery,
    Direction,
    InboundConversation,
    InboundLink,
    Incident,
    OutboundConversation,
    OutboundLink,
)
from msh.protocol.kinds import IncidentKind
from partners.models import Partner


def stops_of(
    request: HttpRequest,
    partner: Partner,
    outbound: OutboundLink | None,
    inbound: InboundLink | None,
) -> Sequence[SafeString]:
    """`outbound` and `inbound` are None if there is none, or this user may not see it."""
    out = _out(outbound) if outbound else ()
    calm = outbound is not None and waits_as_asked(outbound)
    into = _in(request, inbound) if inbound else ()
    return [*out, *into, *_incidents(partner, calm=calm)]


def _out(link: OutboundLink) -> Iterator[SafeString]:
    if not link.partner.accepts:
        shown = markup.link_to(link, "refused by an operator")
        yield format_html("Submissions to the partner are {}.", shown)
    where = markup.list_url(OutboundConversation, link__partner__id__exact=link.partner_id)
    stopped = OutboundConversation.objects.waiting().filter(link=link).count()
    yield from _counted("Stopped conversations to the partner", stopped, where)


def _in(request: HttpRequest, link: InboundLink) -> Iterator[SafeString]:
    if not link.partner.delivers:
        shown = markup.link_to(link, "held by an operator")
        yield format_html("Deliveries of its messages are {}.", shown)
    elif stands := standstill(request, *first_undelivered(link)):
        yield stands.why
    where = markup.list_url(Delivery, message__link__partner__id__exact=link.partner_id)
    undecided = Delivery.objects.waiting_for_operator().filter(message__link=link).count()
    yield from _counted("Deliveries that need a decision", undecided, where)
    where = markup.list_url(InboundConversation, link__partner__id__exact=link.partner_id)
    lacking = InboundConversation.objects.waiting().filter(link=link, called=True).count()
    yield from _counted("Conversations from the partner that lack a message", lacking, where)


def _incidents(partner: Partner, *, calm: bool) -> Iterator[SafeString]:
    """`calm`: the link to the partner waits because the partner asked for it. That there is no
    progress on it then needs nobody."""
    where = markup.list_url(Incident, partner__id__exact=partner.pk, **{"is": "open"})
    opened = Incident.objects.filter(partner=partner, resolved_at=None)
    if calm:
        opened = opened.exclude(direction=Direction.OUT, kind=IncidentKind.STUCK)
    yield from _counted("Open incidents", opened.count(), where)


def _counted(what: str, count: int, where: str) -> Iterator[SafeString]:
    if count:
        yield format_html('{}: <a href="{}" class="text-link">{}</a>.', what, where, count)
