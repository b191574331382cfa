"""The figures of the dashboard: what moves, what waits, and what needs an operator."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import Count, Min, Model

from msh.admin.framework import markup
from msh.models import (
    FLIGHTS_IN,
    HELD,
    Delivery,
    Flight,
    InboundLink,
    InboundMessage,
    Incident,
    OutboundLink,
    OutboundMessage,
    OutboundState,
)
from msh.protocol.kinds import DeliveryState
from msh.protocol.lane import LaneState
from msh.protocol.vocabulary import DeliverySemantics


@dataclass(frozen=True, slots=True)
class Figure:
    """`alarm`: it should be zero. `url` is the list of what was counted. `in_title`: the title of
    the browser's tab has it too."""

    name: str
    value: int
    url: str
    note: str = ""
    alarm: bool = False
    in_title: bool = False


def figures() -> Sequence[Figure]:
    suspended = OutboundLink.objects.suspended().count()
    incidents = Incident.objects.filter(resolved_at=None).count()
    flights = _flights()
    links = OutboundLink.objects.exclude(in_flight=None)
    stuck = links.filter(state=LaneState.SUSPENDED).count()
    in_flight = links.exclude(state=LaneState.SUSPENDED).count() + flights["in_flight"]
    queued, oldest = _queue(flights["first"])
    return [
        Figure(
            "Suspended partners", suspended, _list(OutboundLink, LaneState.SUSPENDED), alarm=True
        ),
        Figure(
            "Open incidents",
            incidents,
            markup.list_url(Incident, **{"is": "open"}),
            alarm=True,
            in_title=True,
        ),
        Figure(
            "In flight",
            in_flight,
            _list(OutboundMessage, "in_flight"),
            f"{stuck} more suspended" if stuck else "",
        ),
        Figure("Queued", queued + flights["queued"], _list(OutboundMessage, "queued"), oldest),
        Figure("Held", flights["held"], _list(OutboundMessage, HELD), alarm=True),
        _undelivered(),
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


def _undelivered() -> Figure:
    """Messages from partners that no application has yet; the oldest has the smallest id."""
    messages = InboundMessage.objects.order_by()
    found = [
        queue.aggregate(count=Count("pk"), first=Min("pk"))
        for queue in (messages.undelivered(), messages.undelivered_in_order())
    ]
    firsts = [one["first"] for one in found if one["first"]]
    heads = messages.filter(pk__in=firsts).values_list("received_at", flat=True)
    oldest = min(heads, default=None)
    note = f"oldest {markup.age_of(oldest)}" if oldest else ""
    return Figure(
        "Undelivered", sum(one["count"] for one in found), markup.list_url(InboundLink), note
    )


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
        Figure(name, counts.get(state, 0), _list(Delivery, state), alarm=True)
        for name, state in names.items()
    ]
