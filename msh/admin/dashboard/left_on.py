"""What operators have stopped and not started again: switches of partners and consumers, links
suspended by hand, maintenance windows that last for long."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.contrib import admin
from django.db.models import F, Model, OuterRef, QuerySet, Subquery
from django.db.models.functions import JSONObject
from django.http import HttpRequest
from django.utils import timezone
from django.utils.dateparse import parse_datetime

from msh.admin.framework import markup
from msh.admin.framework.actions import ActionDialog, Offer
from msh.admin.links.inbound_actions import RESUME_DELIVERIES
from msh.admin.links.outbound_actions import ACCEPT
from msh.models import (
    Consumer,
    History,
    InboundLink,
    MaintenanceWindow,
    OutboundLink,
    SettingChange,
)
from msh.protocol.lane import OPERATOR, LaneState
from msh.protocol.maintenance import WindowState
from msh.store.operations.operator_actions import SWITCHED, Switch

SHOWN_AFTER = timedelta(days=1)
"""A window that lasts longer than this is shown while it runs."""
FIRST = 20
"""The number of rows shown of each kind."""


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


@dataclass(frozen=True, slots=True)
class Others:
    """How many of a kind are not listed, and the URL of the list that has them."""

    count: int
    what: str
    url: str


@dataclass(frozen=True, slots=True)
class Stopped:
    """The longest first, and of each kind the number of the others."""

    rows: Sequence[LeftOn]
    others: Sequence[Others]


def left_on(request: HttpRequest) -> Stopped:
    found = [
        *_switches(request, OutboundLink, Switch.ACCEPTS, "submissions are refused", ACCEPT),
        *_switches(request, InboundLink, Switch.DELIVERS, "deliveries are held", RESUME_DELIVERIES),
        *_suspended(),
        *_consumers(request),
        *_windows(request),
    ]
    rows = [one for one in found if isinstance(one, LeftOn)]
    return Stopped(sorted(rows, key=_age), [one for one in found if isinstance(one, Others)])


def _age(one: LeftOn) -> float:
    return one.since.timestamp() if one.since else 0


def _others(shown: QuerySet[Any], found: Sequence[object], what: str, url: str) -> Iterator[Others]:
    """`found`: the first rows, one more than are shown. They are counted only if there is one."""
    if len(found) > FIRST:
        yield Others(shown.count() - FIRST, what, url)


def _switches(
    request: HttpRequest,
    model: type[OutboundLink | InboundLink],
    switch: Switch,
    what: str,
    ends: ActionDialog[Any],
) -> Iterator[LeftOn | Others]:
    links: Any = model._default_manager.filter(  # noqa: SLF001  public
        **{f"partner__{switch.value}": False}
    )
    first = F("turned__at").asc(nulls_first=True)
    turned = _last(*SWITCHED[switch])
    known_links = links.select_related("partner").annotate(turned=turned).order_by(first, "pk")
    found = list(known_links[: FIRST + 1])
    yield from _others(links, found, what, markup.list_url(model))
    for link in found[:FIRST]:
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


def _last(direction: str, event: str) -> Subquery:
    """When, by whom and why this happened last to a link."""
    rows = History.objects.filter(
        partner=OuterRef("partner"), direction=direction, subject="link", event=event
    ).order_by("-pk")
    return Subquery(rows.values(what=JSONObject(at="at", actor="actor", detail="detail"))[:1])


def _suspended() -> Iterator[LeftOn | Others]:
    """Not by a maintenance window: that ends it. What resumes them is in the table of suspended
    partners: a page does not have the same button twice."""
    windows = MaintenanceWindow.objects.filter(
        partner=OuterRef("partner"),
        state=WindowState.RUNNING,
        suspended_since=OuterRef("suspended_since"),
    )
    by_hand = OutboundLink.objects.suspended().filter(suspended_for=OPERATOR)
    links: Any = by_hand.annotate(
        window=Subquery(windows.values("pk")[:1]), turned=_last("out", "OperatorSuspended")
    ).filter(window=None)
    found = list(links.select_related("partner").order_by("suspended_since")[: FIRST + 1])
    url = markup.list_url(OutboundLink, state__exact=LaneState.SUSPENDED)
    yield from _others(links, found, "sending is suspended", url)
    for link in found[:FIRST]:
        known = link.turned or {"actor": "", "detail": link.suspended_detail}
        yield LeftOn(
            str(link.partner),
            markup.page_url(link),
            "sending is suspended",
            link.suspended_since,
            known["actor"],
            known["detail"],
        )


def _consumers(request: HttpRequest) -> Iterator[LeftOn | Others]:
    if not request.user.has_perm("msh.view_consumer"):
        return
    off = list(Consumer.objects.filter(enabled=False).order_by("name"))
    if not off:
        return
    changes = SettingChange.objects.filter(
        kind="Consumer", name__in=[one.name for one in off], after__enabled=False
    )
    newest = changes.order_by("name", "-pk").distinct("name")
    by_name = {one.name: one for one in newest}
    rows = [_consumer(one, by_name.get(one.name)) for one in off]
    yield from sorted(rows, key=_age)[:FIRST]
    if len(rows) > FIRST:
        yield Others(len(rows) - FIRST, "consumers switched off", markup.list_url(Consumer))


def _consumer(one: Consumer, change: SettingChange | None) -> LeftOn:
    """`change`: what switched it off."""
    return LeftOn(
        f"consumer {one.name}",
        markup.page_url(one),
        "switched off",
        change.at if change else None,
        change.actor if change else "",
        change.reason if change else "",
    )


def _windows(request: HttpRequest) -> Iterator[LeftOn | Others]:
    if not request.user.has_perm("msh.view_maintenancewindow"):
        return
    running = MaintenanceWindow.objects.filter(state=WindowState.RUNNING)
    long = running.filter(ends_at__gt=F("starts_at") + SHOWN_AFTER)
    found = list(long.select_related("partner").order_by("starts_at")[: FIRST + 1])
    url = markup.list_url(MaintenanceWindow, state__exact=WindowState.RUNNING)
    yield from _others(long, found, "long maintenance windows", url)
    for one in found[:FIRST]:
        end = timezone.localdate(one.ends_at)
        yield LeftOn(
            str(one.partner),
            markup.page_url(one),
            f"maintenance until {end:%Y-%m-%d}, {(one.ends_at - one.starts_at).days} days",
            one.starts_at,
            one.planned_by,
            one.reason,
        )


def _offers(request: HttpRequest, link: Model, ends: ActionDialog[Any]) -> Sequence[Offer]:
    page: Any = admin.site.get_model_admin(type(link))
    offers: Sequence[Offer] = page.offers(request, link, [ends])
    return offers
