"""The dashboard: suspended partners, open incidents, figures, charts, partner health."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.contrib import admin
from django.db.models import Case, Count, Exists, Min, Model, OuterRef, When
from django.http import HttpRequest
from django.utils import timezone

from msh import health
from msh.admin.framework import markup
from msh.admin.links.outbound_actions import RESUME
from msh.admin.links.outbound_link import URGENCY
from msh.flows.operations.inspection.answers import Cause
from msh.flows.operations.inspection.causes import CAUSES
from msh.models import (
    FLIGHTS_IN,
    HELD,
    Delivery,
    Flight,
    Incident,
    OutboundLink,
    OutboundMessage,
    OutboundState,
    Traffic,
)
from msh.protocol.kinds import DeliveryState
from msh.protocol.lane import OPERATOR, LaneState
from msh.protocol.vocabulary import DeliverySemantics

from .chart import Chart, chart

FIRST_ROWS = 10
HEALTH_LIMIT = 200
"""Partners shown at most, those with problems first."""
DAY = timedelta(days=1)
SLOT = 10  # minutes in one point of a chart
BY_OPERATOR = Case(When(suspended_for=OPERATOR, then=1), default=0)
"""Links suspended by an operator come after the others."""
PERMISSIONS = ("msh.view_outboundlink", "msh.view_outboundmessage", "msh.view_incident")


@dataclass(frozen=True, slots=True)
class Figure:
    """`alarm`: it should be zero. `url` is the list of what was counted."""

    name: str
    value: int
    url: str
    note: str = ""
    alarm: bool = False


@dataclass(frozen=True, slots=True)
class Health:
    """The state of one partner, as a letter and in words."""

    name: str
    url: str
    state: str
    sign: str
    words: str


def context(request: HttpRequest, context: dict[str, object]) -> dict[str, object]:
    """The context of the page, for unfold (`DASHBOARD_CALLBACK` in the settings)."""
    now = timezone.now()
    context |= {"title": "Dashboard", "now": now, "processes": health.processes()}
    if request.user.has_perms(PERMISSIONS):
        context |= {
            "suspended": _suspended(request),
            "suspended_url": _list(OutboundLink, "suspended"),
            "incidents": _incidents(),
            "figures": _figures(now),
            "charts": _charts(now),
            "health": _partner_health(),
            "links_url": markup.list_url(OutboundLink),
            "incidents_url": markup.list_url(Incident, **{"is": "open"}),
            "health_limit": HEALTH_LIMIT,
        }
    return context


def _suspended(request: HttpRequest) -> Sequence[dict[str, object]]:
    links: Any = admin.site.get_model_admin(OutboundLink)
    found = links.get_queryset(request).filter(state=LaneState.SUSPENDED)
    return [
        {
            "link": link,
            "url": markup.page_url(link),
            "cause": _cause(link.suspended_for),
            "detail": markup.verbatim(link.suspended_detail),
            "last_answer": markup.last_answer(link.last_answer),
            "since": markup.time_and_age(link.suspended_since),
            "message": link.in_flight,
            "message_url": markup.page_url(link.in_flight) if link.in_flight else "",
            "queued": link.queued,
            "offers": links.offers(request, link, [RESUME]),
        }
        for link in found.order_by(BY_OPERATOR, "suspended_since")[:FIRST_ROWS]
    ]


def _cause(kind: str) -> Cause:
    return CAUSES.get(kind) or Cause(kind, "")


def _incidents() -> Sequence[dict[str, object]]:
    found = Incident.objects.filter(resolved_at=None).select_related("partner")
    return [
        {
            "url": markup.page_url(incident),
            "partner": incident.partner,
            "cause": _cause(incident.kind),
            "detail": markup.verbatim(incident.detail),
            "opened": markup.time_and_age(incident.opened_at),
            "assigned_to": incident.assigned_to,
        }
        for incident in found.order_by("-opened_at")[:FIRST_ROWS]
    ]


def _figures(now: datetime) -> Sequence[Figure]:
    suspended = OutboundLink.objects.suspended().count()
    incidents = Incident.objects.filter(resolved_at=None).count()
    flights = _flights()
    in_flight = OutboundLink.objects.exclude(in_flight=None).count() + flights["in_flight"]
    queued, oldest = _queue(flights["first"])
    return [
        Figure(
            "Suspended partners", suspended, _list(OutboundLink, LaneState.SUSPENDED), alarm=True
        ),
        Figure(
            "Open incidents", incidents, markup.list_url(Incident, **{"is": "open"}), alarm=True
        ),
        Figure("In flight", in_flight, _list(OutboundMessage, "in_flight")),
        Figure("Queued", queued + flights["queued"], _list(OutboundMessage, "queued"), oldest),
        Figure("Held", flights["held"], _list(OutboundMessage, HELD), "messages", alarm=True),
        *_deliveries(),
    ]


def _list(model: type[Model], state: str) -> str:
    return markup.list_url(model, state__exact=state)


def _flights() -> dict[str, Any]:
    """How many messages that fly are shown in each state; `first`: the id of the oldest queued."""
    counts = {state: Count("pk", filter=having) for state, having in FLIGHTS_IN.items()}
    first = Min("pk", filter=FLIGHTS_IN[OutboundState.QUEUED])
    return Flight.objects.aggregate(**counts, first=first)


def _queue(first_flight: int | None) -> tuple[int, str]:
    """The number of messages in the queues of lanes, and the age of the oldest of all. The oldest
    has the smallest id, which the index of its queue finds."""
    queue = OutboundMessage.objects.queued().order_by()
    found = [
        queue.filter(semantics=kind).aggregate(count=Count("pk"), first=Min("pk"))
        for kind in DeliverySemantics
    ]
    firsts = [key for key in (first_flight, *(one["first"] for one in found)) if key]
    heads = OutboundMessage.objects.filter(pk__in=firsts).values_list("submitted_at", flat=True)
    oldest = min(heads, default=None)
    return sum(one["count"] for one in found), f"oldest {markup.age_of(oldest)}" if oldest else ""


def _deliveries() -> Sequence[Figure]:
    """Deliveries that need a decision."""
    waiting = Delivery.objects.waiting_for_operator().order_by().values("state")
    counts = dict(waiting.annotate(count=Count("pk")).values_list("state", "count"))
    names = {
        "In doubt": DeliveryState.IN_DOUBT,
        "Parked": DeliveryState.PARKED,
        "Blocked": DeliveryState.BLOCKED,
    }
    return [
        Figure(name, counts.get(state, 0), _list(Delivery, state), "deliveries", alarm=True)
        for name, state in names.items()
    ]


def _charts(now: datetime) -> Sequence[Chart]:
    """The last 24 hours: messages sent and received, retries and duplicates."""
    slot = timedelta(minutes=SLOT)
    begin = now - DAY
    names = ("sent", "received", "retries", "duplicates")
    counts = {name: [0] * (DAY // slot) for name in names}
    for row in Traffic.objects.filter(minute__gte=begin).values_list("minute", *names):
        for name, count in zip(names, row[1:], strict=True):
            counts[name][min((row[0] - begin) // slot, DAY // slot - 1)] += count
    every = timedelta(hours=4)
    ticks = [(at * (every // slot), _clock(begin + at * every)) for at in range(DAY // every + 1)]
    return [
        chart(
            "Messages per minute",
            {"out": counts["sent"], "in": counts["received"]},
            SLOT,
            ticks,
        ),
        chart(
            "Retries and duplicates per minute",
            {"retries": counts["retries"], "duplicates": counts["duplicates"]},
            SLOT,
            ticks,
        ),
    ]


def _clock(at: datetime) -> str:
    return timezone.localtime(at).strftime("%H:%M")


def _partner_health() -> Sequence[Health]:
    troubles = Incident.objects.filter(partner=OuterRef("partner"), resolved_at=None)
    links = OutboundLink.objects.select_related("partner").annotate(trouble=Exists(troubles))
    worst = links.order_by(URGENCY, "-trouble", "-retries_spent", "partner__name")
    return [_health(link) for link in worst[:HEALTH_LIMIT]]


def _health(link: Any) -> Health:
    state, sign, words = next(
        (state, sign, words) for applies, state, sign, words in _HEALTH if applies(link)
    )
    return Health(link.partner.name, markup.page_url(link), state, sign, words)


_HEALTH: Sequence[tuple[Callable[[Any], object], str, str, str]] = (
    (lambda link: link.state == LaneState.SUSPENDED, "suspended", "S", "suspended"),
    (
        lambda link: link.state == LaneState.TRANSIENT,
        "late",
        "W",
        "waiting at the request of the partner",
    ),
    (lambda link: link.retries_spent or link.failures, "late", "R", "retrying"),
    (lambda link: link.trouble, "late", "I", "has an open incident"),
    (lambda link: True, "ok", "", "OK"),
)
"""The first one that applies is shown: condition, style, letter, text."""
