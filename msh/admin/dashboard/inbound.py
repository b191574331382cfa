"""What stands still on its way to our applications, and incidents that no other table shows."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.contrib import admin
from django.db.models import Count, Exists, Min, OuterRef, Q, QuerySet, Subquery
from django.db.models.functions import Coalesce
from django.http import HttpRequest
from django.urls import reverse

from msh.admin.framework import markup
from msh.admin.framework.actions import Offer
from msh.admin.incidents.first_step import first_steps
from msh.flows.operations.inspection.causes import CAUSES, cause_of
from msh.models import Delivery, Direction, InboundMessage, Incident, OutboundLink
from msh.protocol.kinds import DeliveryState, IncidentKind

FIRST_ROWS = 10
_ORDER = (DeliveryState.BLOCKED, DeliveryState.IN_DOUBT, DeliveryState.PARKED)
"""What others wait for comes first."""
_SHOWN_ELSEWHERE = (IncidentKind.DELIVERY_FAILED, IncidentKind.DELIVERY_IN_DOUBT)


@dataclass(frozen=True, slots=True)
class Standing:
    """Deliveries of one consumer in one state. `first` is the oldest; `behind`: messages of its
    partner that wait."""

    first: Any
    url: str
    partner: str
    other_partners: int
    state: str
    error: str
    count: int
    list_url: str
    behind: int
    since: str
    offers: Sequence[Offer]


def standing(request: HttpRequest) -> Sequence[Standing]:
    waiting = Delivery.objects.waiting_for_operator().order_by()
    grouped = waiting.values("consumer", "state").annotate(
        count=Count("pk"), first=Min("pk"), partners=Count("message__link", distinct=True)
    )
    groups = {one["first"]: (one["count"], one["partners"]) for one in grouped}
    found = _deliveries().filter(pk__in=groups)
    shown = sorted(found, key=lambda one: (_ORDER.index(DeliveryState(one.state)), one.pk))
    return [_standing(request, one, *groups[one.pk]) for one in shown[:FIRST_ROWS]]


def _deliveries() -> QuerySet[Delivery]:
    behind = InboundMessage.objects.filter(link=OuterRef("message__link"))
    counted = behind.undelivered().order_by().values("link").annotate(count=Count("pk"))
    deliveries = Delivery.objects.select_related("consumer", "message__link__partner")
    return deliveries.defer("message__header").annotate(
        waiting=Coalesce(Subquery(counted.values("count")), 0)
    )


def _standing(request: HttpRequest, delivery: Any, count: int, partners: int) -> Standing:
    page: Any = admin.site.get_model_admin(Delivery)
    in_order = delivery.message.state == "accepted"
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
        max(delivery.waiting - 1, 0) if in_order else 0,
        markup.ago(delivery.ended_at or delivery.started_at),
        page.offers(request, delivery)[:2],
    )


def other_incidents(request: HttpRequest) -> tuple[int, Sequence[dict[str, object]]]:
    """How many there are that neither table shows, and the newest."""
    suspended = OutboundLink.objects.suspended().filter(
        partner=OuterRef("partner"), suspended_for=OuterRef("kind")
    )
    shown = Q(direction=Direction.OUT) & Exists(suspended)
    found = Incident.objects.filter(resolved_at=None).exclude(shown)
    found = found.exclude(direction=Direction.IN, kind__in=_SHOWN_ELSEWHERE)
    links = ("partner__inbound_link", "partner__outbound_link")
    newest = list(found.select_related(*links).order_by("-opened_at")[:FIRST_ROWS])
    steps = first_steps(request, newest)
    rows = [
        {
            "url": markup.page_url(incident),
            "partner": incident.partner,
            "partner_url": reverse("partner_page", args=[incident.partner_id]),
            "jumps": [steps[incident.pk]] if incident.pk in steps else [],
            "cause": CAUSES.get(incident.kind) or cause_of(incident.kind),
            "detail": markup.verbatim(incident.detail),
            "opened": markup.ago(incident.opened_at),
            "assigned_to": incident.assigned_to,
        }
        for incident in newest
    ]
    return found.count(), rows
