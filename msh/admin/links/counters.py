"""The sequence counters of both directions, and recent traffic, as text."""

from datetime import timedelta

from django.db.models import Count, Min, OuterRef, Q, QuerySet, Subquery
from django.db.models.functions import Coalesce, Least, Now
from django.utils import timezone
from django.utils.html import format_html_join

from msh.admin.framework import markup
from msh.admin.framework.time_format import format_duration
from msh.models import (
    FLIGHTS_IN,
    HELD,
    Direction,
    Flight,
    History,
    InboundLink,
    InboundMessage,
    InboundState,
    OutboundLink,
    OutboundMessage,
    OutboundState,
)
from msh.protocol import sequence
from msh.protocol.vocabulary import DeliverySemantics
from msh.store.operations.operator_actions import EXPECTED, STARTED

_READY = FLIGHTS_IN[OutboundState.QUEUED]
RECENT = timedelta(minutes=10)
SHORTEST = timedelta(minutes=1)
"""The shortest time that a rate is computed from: after a resumption a few seconds say nothing."""


def sending(link: OutboundLink) -> str:
    if link.in_flight is None:
        return f"next number {link.next_number}"
    return f"number {link.in_flight.sequence_number} in flight, then {link.next_number}"


def receiving(link: InboundLink) -> str:
    if link.last_number is None:
        return f"nothing accepted yet, expecting {sequence.FIRST}"
    expected = sequence.following(link.last_number)
    if not link.last_message_id and (act := _set_by_person(link)):
        said = f"last number {link.last_number} set by {act.actor}, expecting {expected}"
        if act.event != EXPECTED:
            return said
        return f"{said}: the partner has to send {expected} and the following again"
    return f"last accepted {link.last_number}, expecting {expected}"


def _set_by_person(link: InboundLink) -> History | None:
    """The act that has set the number after which no message has come."""
    acts = History.objects.filter(
        partner=link.partner_id,
        direction=Direction.IN,
        subject=History.Subject.LINK,
        event__in=(STARTED, EXPECTED),
    )
    return acts.order_by("-pk").first()


def counters(partner_id: int) -> str:
    out = OutboundLink.objects.select_related("in_flight", "partner").filter(partner=partner_id)
    back = InboundLink.objects.select_related("partner").filter(partner=partner_id)
    lines = [markup.link_to(link, f"out: {sending(link)}") for link in out]
    lines += [markup.link_to(link, f"in: {receiving(link)}") for link in back]
    return format_html_join("", "<div>{}</div>", ((line,) for line in lines))


def growth(partner_id: int, queued: int, *, moves: bool) -> str:
    """The recent growth of the queue to a partner, and when it will be empty if it `moves`. A
    reliable message leaves the queue when it is in flight, a BestEffort message when its only
    attempt has ended."""
    events = History.objects.filter(
        at__gte=Now() - RECENT, partner=partner_id, direction=Direction.OUT, subject="message"
    )
    acknowledged, ended = Q(to_state="acknowledged"), Q(to_state__in=["sent", "failed"])
    cancelled = Q(from_state="queued", to_state="cancelled")
    counted = events.aggregate(
        added=Count("pk", filter=Q(to_state="queued")),
        started=Count("pk", filter=~cancelled & (Q(from_state="queued") | ended)),
        cancelled=Count("pk", filter=cancelled),
        acknowledged=Count("pk", filter=acknowledged),
        first=Min("at", filter=acknowledged),
    )
    minutes = int(RECENT.total_seconds() // 60)
    change = counted["added"] - counted["started"] - counted["cancelled"]
    growth = (
        f"{change:+d} in {minutes} min: {counted['added']} added, {counted['started']} sent for the"
        f" first time, {counted['cancelled']} cancelled, {counted['acknowledged']} acknowledged"
    )
    if counted["first"] is None or not queued or not moves:
        return growth
    within = timezone.now() - counted["first"]
    if within < SHORTEST:
        return growth
    return f"{growth}. {forecast(queued, counted['acknowledged'], within)}"


def forecast(queued: int, acknowledged: int, within: timedelta) -> str:
    """When a queue is empty that goes on like that."""
    rate = acknowledged / within.total_seconds()
    now = timezone.now()
    left = format_duration(now, now + timedelta(seconds=queued / rate))
    return f"About {rate * 60:.0f} a minute: empty in about {left}, if no more are added"


def arrivals(link_id: int) -> str:
    """Recent messages from a partner, and how many of them are not delivered yet."""
    recent = InboundMessage.objects.filter(link=link_id, received_at__gte=Now() - RECENT)
    counted = recent.aggregate(
        arrived=Count("pk"), waiting=Count("pk", filter=Q(state=InboundState.ACCEPTED))
    )
    minutes = int(RECENT.total_seconds() // 60)
    return f"{counted['arrived']} in {minutes} min, {counted['waiting']} not delivered yet"


def with_queue(links: QuerySet[OutboundLink]) -> QuerySet[OutboundLink]:
    """With `queued`: messages, and `oldest`: when the first of them was submitted."""
    reliable, best_effort = DeliverySemantics.ONCE_AND_ONLY_ONCE, DeliverySemantics.BEST_EFFORT
    return links.annotate(
        queued=_depth(reliable) + _depth(best_effort) + _count_flights(_READY),
        oldest=Least(_oldest(reliable), _oldest(best_effort), _oldest_flight()),
    )


def _queue(semantics: DeliverySemantics) -> QuerySet[OutboundMessage]:
    """The queue of a link, by the condition of the partial index for `semantics`."""
    queued = OutboundMessage.objects.queued().filter(link=OuterRef("pk"), semantics=semantics)
    return queued.order_by()


def _depth(semantics: DeliverySemantics) -> Coalesce:
    depth = _queue(semantics).values("link").annotate(depth=Count("pk")).values("depth")
    return Coalesce(Subquery(depth), 0)


def _oldest(semantics: DeliverySemantics) -> Subquery:
    return Subquery(_queue(semantics).order_by("pk").values("submitted_at")[:1])


def _flights(which: Q) -> QuerySet[Flight]:
    return Flight.objects.filter(which, link=OuterRef("pk")).order_by()


def _count_flights(which: Q) -> Coalesce:
    """Count the flights of a link by the condition of one of the partial indexes."""
    counted = _flights(which).values("link").annotate(count=Count("pk")).values("count")
    return Coalesce(Subquery(counted), 0)


def with_places(links: QuerySet[OutboundLink]) -> QuerySet[OutboundLink]:
    """With how many messages that fly are `under_way`, how many of them are `not_carried`: no copy
    was answered 2xx yet, and how many are `held`; and how many messages have `failed`, the first
    at `failed_since`."""
    failed = OutboundMessage.objects.failed_for_good().filter(link=OuterRef("pk"))
    of_link = failed.order_by().values("link")
    return links.annotate(
        failed=Coalesce(Subquery(of_link.annotate(count=Count("pk")).values("count")), 0),
        failed_since=Subquery(of_link.annotate(first=Min("completed_at")).values("first")),
        under_way=_count_flights(Q(under_way=True)),
        not_carried=_count_flights(Q(under_way=True, carried=False)),
        held=_count_flights(FLIGHTS_IN[HELD]),
    )


def _oldest_flight() -> Subquery:
    first = _flights(_READY).order_by("message_id").values("message__submitted_at")
    return Subquery(first[:1])
