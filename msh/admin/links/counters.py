"""Both directions of a pair in words: the two counters, and how fast a queue grows."""

from datetime import timedelta

from django.db.models import Count, Q
from django.db.models.functions import Now
from django.utils.html import format_html

from msh.admin.framework import markup
from msh.models import (
    Direction,
    History,
    InboundLink,
    InboundMessage,
    InboundState,
    OutboundLink,
)
from msh.protocol import sequence

LATELY = timedelta(minutes=10)


def sending(link: OutboundLink) -> str:
    """What we number next."""
    if link.in_flight is None:
        return f"next number {link.next_number}"
    return f"number {link.in_flight.sequence_number} in flight, then {link.next_number}"


def receiving(link: InboundLink) -> str:
    """What the partner has to send next."""
    if link.last_number is None:
        return f"nothing accepted yet, expects {sequence.FIRST}"
    return f"last accepted {link.last_number}, expects {sequence.following(link.last_number)}"


def counters(partner_id: int) -> str:
    """Both, each with the way to its page."""
    out = OutboundLink.objects.select_related("in_flight", "partner").filter(partner=partner_id)
    back = InboundLink.objects.select_related("partner").filter(partner=partner_id)
    lines = [markup.link_to(link, f"out: {sending(link)}") for link in out]
    lines += [markup.link_to(link, f"in: {receiving(link)}") for link in back]
    return format_html("<div>{}</div>" * len(lines), *lines)


def growth(partner_id: int) -> str:
    """How the queue to a partner has changed lately: the message in flight has left it, and what
    is BestEffort is noted when its one attempt has ended."""
    story = History.objects.filter(
        at__gte=Now() - LATELY, partner=partner_id, direction=Direction.OUT, subject="message"
    )
    counted = story.aggregate(
        came=Count("pk", filter=Q(to_state="queued")),
        went=Count("pk", filter=Q(from_state="queued") | Q(to_state__in=["sent", "failed"])),
    )
    minutes = int(LATELY.total_seconds() // 60)
    change = counted["came"] - counted["went"]
    return f"{change:+d} in {minutes} min: {counted['came']} came, {counted['went']} went"


def arrivals(link_id: int) -> str:
    """What has come from a partner lately, and how much of that its consumers have not got."""
    lately = InboundMessage.objects.filter(link=link_id, received_at__gte=Now() - LATELY)
    counted = lately.aggregate(
        came=Count("pk"), waiting=Count("pk", filter=Q(state=InboundState.ACCEPTED))
    )
    minutes = int(LATELY.total_seconds() // 60)
    return f"{counted['came']} in {minutes} min, {counted['waiting']} of them not delivered yet"
