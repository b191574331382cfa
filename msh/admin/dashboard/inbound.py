"""Messages that are stopped on their way to our applications, and incidents that no other table
shows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.contrib import admin
from django.db.models import Count, Exists, Min, OuterRef, Q
from django.http import HttpRequest
from django.urls import reverse

from msh.admin.framework import markup
from msh.admin.framework.actions import Offer
from msh.admin.framework.curves import About
from msh.admin.framework.headline import Jump
from msh.admin.incidents.first_step import first_steps, to_assign
from msh.admin.incidents.incident_list import SEVERITY
from msh.flows.operations.inspection.causes import CAUSES, Cause, cause_of
from msh.models import (
    Delivery,
    Direction,
    InboundMessage,
    InboundState,
    Incident,
    OutboundConversation,
    OutboundLink,
)
from msh.protocol.kinds import DeliveryState, IncidentKind
from msh.protocol.severity import Severity, severity_of
from partners.models import Partner

FIRST_ROWS = 10
_ORDER = (DeliveryState.BLOCKED, DeliveryState.IN_DOUBT, DeliveryState.PARKED)
"""Those for which others wait come first."""
_SHOWN_ELSEWHERE = (IncidentKind.DELIVERY_FAILED, IncidentKind.DELIVERY_IN_DOUBT)
_BESIDE = (IncidentKind.CONVERSATION_STOPPED, IncidentKind.WENT_AHEAD_ALONE)
"""About a message of ours, but not what is wrong with it."""
_SAME_MESSAGE = Q(
    direction=Direction.OUT,
    partner=OuterRef("partner"),
    message_id=OuterRef("message_id"),
    message_id__gt="",
)


@dataclass(frozen=True, slots=True)
class Standing:
    """Deliveries of one consumer in one state. `first` is the oldest; `behind`: messages that wait
    for any of them, and `behind_first` for the first. `since`: of the first. `ask`: who may
    decide."""

    first: Any
    url: str
    partner: str
    other_partners: int
    state: str
    error: str
    count: int
    list_url: str
    behind: int
    behind_first: int
    since: datetime
    offers: Sequence[Offer]
    ask: str
    curve: str = ""

    @property
    def age(self) -> str:
        return markup.ago(self.since)

    @property
    def about(self) -> About:
        return About(consumers=(self.first.consumer_id,))


@dataclass(frozen=True, slots=True)
class Stops:
    """The conversation that a message of an incident stops, and the incident about that."""

    conversation: OutboundConversation
    url: str
    incident_url: str
    what: str


@dataclass(frozen=True, slots=True)
class OtherIncident:
    """`times`: how often it happened. `jumps`: where it is decided, and to take it."""

    url: str
    partner: Partner
    cause: Cause
    severity: Severity
    times: int
    detail: str
    stops: Stops | None
    since: datetime
    assigned_to: str
    jumps: Sequence[Jump]
    about: About
    curve: str = ""

    @property
    def partner_url(self) -> str:
        return reverse("partner_page", args=[self.partner.pk])

    @property
    def shown_detail(self) -> str:
        return markup.local_times(self.detail)

    @property
    def opened(self) -> str:
        return markup.ago(self.since)

    @property
    def badge(self) -> str:
        return markup.badge(self.severity, markup.SEVERITY_VARIANTS[self.severity])


def standing(request: HttpRequest) -> Sequence[Standing]:
    waiting = Delivery.objects.waiting_for_operator().order_by()
    grouped = waiting.values("consumer", "state").annotate(
        count=Count("pk"), first=Min("pk"), partners=Count("message__link", distinct=True)
    )
    groups = {one["first"]: (one["count"], one["partners"]) for one in grouped}
    deliveries = Delivery.objects.select_related("consumer", "message__link__partner")
    found = deliveries.defer("message__header").filter(pk__in=groups)
    shown = sorted(found, key=lambda one: (_ORDER.index(DeliveryState(one.state)), one.pk))
    listed = shown[:FIRST_ROWS]
    behind = _behind(listed)
    return [_standing(request, one, *groups[one.pk], *behind[one.pk]) for one in listed]


def _behind(firsts: Sequence[Delivery]) -> Mapping[int, tuple[int, int]]:
    """By the first delivery of each group, the messages that wait for any of the group, and for
    the first. What was set aside, and a replay, is in nobody's way. Three statements."""
    holding = Delivery.objects.waiting_for_operator().filter(message__state=InboundState.ACCEPTED)
    links, orders = _waiting_by("link"), _waiting_by("ordered_in")
    groups: dict[tuple[int, str], dict[tuple[str, int], int]] = {}
    own: dict[int, int] = {}
    places = ("pk", "consumer", "state", "message__link", "message__ordered_in")
    for key, consumer, state, link, order in holding.order_by().values_list(*places):
        place = ("link", link) if order is None else ("order", order)
        waiting = links.get(link, 0) if order is None else orders.get(order, 0)
        own[key] = max(waiting - 1, 0)
        groups.setdefault((consumer, state), {})[place] = own[key]
    return {
        one.pk: (sum(groups.get((one.consumer_id, one.state), {}).values()), own.get(one.pk, 0))
        for one in firsts
    }


def _waiting_by(place: str) -> Mapping[int, int]:
    """Messages that are not delivered yet, by link or by conversation; with those that are being
    decided on."""
    messages = InboundMessage.objects.all()
    found = messages.undelivered() if place == "link" else messages.undelivered_in_order()
    counted = found.order_by().values(place).annotate(count=Count("pk"))
    return dict(counted.values_list(place, "count"))


def _standing(
    request: HttpRequest, delivery: Any, count: int, partners: int, behind: int, behind_first: int
) -> Standing:
    page: Any = admin.site.get_model_admin(Delivery)
    offers = page.offers(request, delivery)[:2]
    chosen = {"state__exact": delivery.state, "consumer__id__exact": delivery.consumer_id}
    return Standing(
        delivery,
        markup.page_url(delivery),
        str(delivery.message.link.partner),
        partners - 1,
        delivery.state,
        markup.verbatim(delivery.detail),
        count,
        markup.list_url(Delivery, **chosen),
        behind,
        behind_first,
        delivery.ended_at or delivery.started_at,
        offers,
        "" if offers else " ".join(page.withheld(request, delivery)[:1]),
    )


def other_incidents(request: HttpRequest) -> tuple[int, Sequence[OtherIncident]]:
    """How many there are that neither table shows, and the worst, of these the oldest."""
    suspended = OutboundLink.objects.suspended().filter(
        partner=OuterRef("partner"), suspended_for=OuterRef("kind")
    )
    shown = Q(direction=Direction.OUT) & Exists(suspended)
    found = Incident.objects.filter(resolved_at=None).exclude(shown)
    found = found.exclude(direction=Direction.IN, kind__in=_SHOWN_ELSEWHERE)
    of_message = found.filter(_SAME_MESSAGE).exclude(kind__in=_BESIDE)
    found = found.exclude(Q(kind=IncidentKind.CONVERSATION_STOPPED) & Exists(of_message))
    links = ("partner__inbound_link", "partner__outbound_link")
    worst = list(
        found.select_related(*links).order_by(SEVERITY.desc(), "opened_at", "pk")[:FIRST_ROWS]
    )
    steps, stops = first_steps(request, worst), _stops(worst)
    rows = [
        OtherIncident(
            markup.page_url(incident),
            incident.partner,
            CAUSES.get(incident.kind) or cause_of(incident.kind),
            severity_of(incident.kind),
            incident.count,
            incident.detail,
            stops.get(incident.pk),
            incident.opened_at,
            incident.assigned_to,
            [*filter(None, [steps.get(incident.pk)]), *to_assign(request, incident)],
            About(partners=(incident.partner_id,) if incident.direction == Direction.OUT else ()),
        )
        for incident in worst
    ]
    return found.count(), rows


def _stops(incidents: Sequence[Incident]) -> Mapping[int, Stops]:
    """By incident: one row for a message that failed and for the conversation that it stops."""
    of_messages = {
        (one.partner_id, one.message_id): one.pk
        for one in incidents
        if one.direction == Direction.OUT and one.message_id and one.kind not in _BESIDE
    }
    partners = {partner for partner, _ in of_messages}
    stopped = OutboundConversation.objects.waiting().filter(
        link__partner__in=partners, stopped_by__overlap=[named for _, named in of_messages]
    )
    about = Incident.objects.filter(
        partner__in=partners, kind=IncidentKind.CONVERSATION_STOPPED, resolved_at=None
    )
    opened = {one.partner_id: one for one in about}
    return {
        of_messages[one.link.partner_id, message_id]: Stops(
            one,
            markup.page_url(one),
            markup.page_url(opened[one.link.partner_id]),
            CAUSES[IncidentKind.CONVERSATION_STOPPED].title,
        )
        for one in stopped.select_related("link")
        for message_id in one.stopped_by
        if (one.link.partner_id, message_id) in of_messages and one.link.partner_id in opened
    }
