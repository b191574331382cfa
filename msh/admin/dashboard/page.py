"""The dashboard: first steps, figures, suspended partners, deliveries that stand still, other
incidents, partner health, charts. All of it is read from one snapshot. The wall shows the same."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Case, Exists, IntegerField, OuterRef, Q, When
from django.http import HttpRequest
from django.utils import timezone

from msh import checks, health
from msh.admin.framework import markup
from msh.admin.framework.bulk import bulk_url
from msh.admin.framework.second_person import waiting
from msh.admin.setup.api_token import expiring, expiry_of
from msh.extension import ExtensionPoint
from msh.models import BulkAction, InboundLink, Incident, OutboundLink
from msh.protocol.lane import LaneState
from msh.store.snapshot import snapshot

from .figures import figures
from .first_steps import first_steps
from .left_on import left_on
from .troubles import troubles

HEALTH_LIMIT = 200
"""Partners shown at most, those with problems first."""
parts: ExtensionPoint[Callable[[HttpRequest, datetime], Mapping[str, object]]] = ExtensionPoint()
"""What features add to the context, which is read from one snapshot."""
_NAMED = ("state", "partner__name", "partner__display_name")
PERMISSIONS = ("msh.view_outboundlink", "msh.view_outboundmessage", "msh.view_incident")


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
        with snapshot():
            context |= _read(request, now)
    return context


def _read(request: HttpRequest, now: datetime) -> dict[str, object]:
    found = troubles(request)
    return {
        "first_steps": first_steps(request),
        "figures": figures(),
        "troubles": found,
        "suspended": found.suspended,
        "suspended_url": markup.list_url(OutboundLink, state__exact=LaneState.SUSPENDED),
        "resume_url": bulk_url(request, BulkAction.RESUME),
        "standing": found.standing,
        "run_again_url": bulk_url(request, BulkAction.RUN_AGAIN),
        "inbound_url": markup.list_url(InboundLink),
        "left_on": left_on(request),
        "asked": waiting(),
        "tokens": _tokens(request),
        "cautions": checks.check_deployment(None),
        "incidents": found.incidents,
        "other_incidents": found.other_incidents,
        "health": _partner_health(),
        "links_url": markup.list_url(OutboundLink),
        "incidents_url": markup.list_url(Incident, **{"is": "open"}),
        "health_limit": HEALTH_LIMIT,
        **{name: value for part in parts for name, value in part(request, now).items()},
    }


def _tokens(request: HttpRequest) -> Sequence[tuple[str, str, str]]:
    """Address, name and end of those that expire soon, for who can see them."""
    if not request.user.has_perm("msh.view_apitoken"):
        return ()
    return [(markup.page_url(one), one.name, expiry_of(one)) for one in expiring()]


def _partner_health() -> Sequence[Health]:
    troubles = Incident.objects.filter(partner=OuterRef("partner"), resolved_at=None)
    links = OutboundLink.objects.select_related("partner").only(*_NAMED)
    found: Any = links.annotate(trouble=Exists(troubles), problem=_PROBLEM)
    worst = found.order_by("problem", "-retries_spent", "partner__name")
    return [_health(link) for link in worst[:HEALTH_LIMIT]]


def _health(link: Any) -> Health:
    _, state, sign, words = _PROBLEMS[link.problem]
    return Health(str(link.partner), markup.page_url(link), state, sign, words)


_PROBLEMS: Sequence[tuple[Q, str, str, str]] = (
    (Q(state=LaneState.SUSPENDED), "suspended", "S", "suspended"),
    (Q(state=LaneState.TRANSIENT), "late", "W", "waiting at the request of the partner"),
    (Q(retries_spent__gt=0) | Q(failures__gt=0), "late", "R", "retrying"),
    (Q(partner__accepts=False), "late", "N", "submissions are refused by an operator"),
    (Q(partner__delivers=False), "late", "H", "deliveries are held by an operator"),
    (Q(trouble=True), "late", "I", "has an open incident"),
    (Q(), "ok", "", "OK"),
)
"""The first one that applies is shown, the first ones first: condition, style, letter, text."""
_PROBLEM = Case(
    *(When(applies, then=place) for place, (applies, *_) in enumerate(_PROBLEMS[:-1])),
    default=len(_PROBLEMS) - 1,
    output_field=IntegerField(),
)
