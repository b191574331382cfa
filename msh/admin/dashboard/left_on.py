"""What operators have stopped and nobody has started again: switches of partners and consumers,
links suspended by hand, maintenance windows that last for long."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.contrib import admin
from django.db.models import F, Model, OuterRef, Subquery
from django.db.models.functions import JSONObject
from django.http import HttpRequest
from django.utils.dateparse import parse_datetime

from msh.admin.framework import markup
from msh.admin.framework.actions import ActionDialog, Offer
from msh.admin.links.partner_switches import ACCEPTING, DELIVERING
from msh.models import (
    Consumer,
    History,
    InboundLink,
    MaintenanceWindow,
    OutboundLink,
    SettingChange,
)
from msh.protocol.alerts.maintenance import WindowState
from msh.protocol.lane import OPERATOR
from msh.store.operations.operator_actions import SWITCHED, Switch

LONG = timedelta(days=1)
"""A window that lasts longer than this is shown while it runs."""
FIRST = 20
"""Of each kind."""


@dataclass(frozen=True, slots=True)
class LeftOn:
    """`name` of a partner or consumer, `url` of the page that has what ends it. `since`: None if
    it is not known, nor is `by` then."""

    name: str
    url: str
    what: str
    since: datetime | None
    by: str
    reason: str
    offers: Sequence[Offer] = ()

    @property
    def age(self) -> str:
        return markup.ago(self.since) if self.since else "unknown"


def left_on(request: HttpRequest) -> Sequence[LeftOn]:
    """The longest first."""
    accept, resume_deliveries = ACCEPTING[1], DELIVERING[1]
    found = [
        *_switches(request, OutboundLink, Switch.ACCEPTS, "submissions are refused", accept),
        *_switches(request, InboundLink, Switch.DELIVERS, "deliveries are held", resume_deliveries),
        *_suspended(),
        *_consumers(request),
        *_windows(request),
    ]
    return sorted(found, key=lambda one: one.since.timestamp() if one.since else 0)


def _switches(
    request: HttpRequest,
    model: type[OutboundLink | InboundLink],
    switch: Switch,
    what: str,
    ends: ActionDialog[Any],
) -> Iterator[LeftOn]:
    direction, event = SWITCHED[switch]
    turned = History.objects.filter(
        partner=OuterRef("partner"), direction=direction, subject="link", event=event
    ).order_by("-pk")
    links: Any = model._default_manager.filter(  # noqa: SLF001  public
        **{f"partner__{switch.value}": False, "partner__moved__isnull": True}
    )
    last = Subquery(turned.values(what=JSONObject(at="at", actor="actor", detail="detail"))[:1])
    for link in links.select_related("partner").annotate(turned=last).order_by("pk")[:FIRST]:
        known = link.turned or {"at": "", "actor": "", "detail": ""}
        yield LeftOn(
            str(link.partner),
            markup.page_url(link),
            what,
            parse_datetime(known["at"]),
            known["actor"],
            known["detail"],
            _offers(request, link, ends),
        )


def _suspended() -> Iterator[LeftOn]:
    """Not by a maintenance window: that ends it. What resumes them is in the table of suspended
    partners: a page does not have the same button twice."""
    windows = MaintenanceWindow.objects.filter(
        partner=OuterRef("partner"),
        state=WindowState.RUNNING,
        suspended_since=OuterRef("suspended_since"),
    )
    links = OutboundLink.objects.suspended().filter(suspended_for=OPERATOR)
    links = links.annotate(window=Subquery(windows.values("pk")[:1])).filter(window=None)
    for link in links.select_related("partner").order_by("suspended_since")[:FIRST]:
        by, _, reason = link.suspended_detail.partition(": ")
        yield LeftOn(
            str(link.partner),
            markup.page_url(link),
            "sending is suspended",
            link.suspended_since,
            by,
            reason,
        )


def _consumers(request: HttpRequest) -> Iterator[LeftOn]:
    if not request.user.has_perm("msh.view_consumer"):
        return
    off = list(Consumer.objects.filter(enabled=False).order_by("name")[:FIRST])
    if not off:
        return
    changes = SettingChange.objects.filter(
        kind="Consumer", name__in=[one.name for one in off], after__enabled=False
    )
    newest = changes.order_by("name", "-pk").distinct("name")
    by_name = {one.name: one for one in newest}
    for one in off:
        change = by_name.get(one.name)
        yield LeftOn(
            f"consumer {one.name}",
            markup.page_url(one),
            "switched off",
            change.at if change else None,
            change.actor if change else "",
            change.reason if change else "",
        )


def _windows(request: HttpRequest) -> Iterator[LeftOn]:
    if not request.user.has_perm("msh.view_maintenancewindow"):
        return
    running = MaintenanceWindow.objects.filter(state=WindowState.RUNNING)
    long = running.filter(ends_at__gt=F("starts_at") + LONG)
    for one in long.select_related("partner").order_by("starts_at")[:FIRST]:
        yield LeftOn(
            str(one.partner),
            markup.page_url(one),
            f"maintenance until {one.ends_at:%Y-%m-%d}, {(one.ends_at - one.starts_at).days} days",
            one.starts_at,
            one.planned_by,
            one.reason,
        )


def _offers(request: HttpRequest, link: Model, ends: ActionDialog[Any]) -> Sequence[Offer]:
    page: Any = admin.site.get_model_admin(type(link))
    offers: Sequence[Offer] = page.offers(request, link, [ends])
    return offers
