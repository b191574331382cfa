"""What stands still or goes wrong, with its curves of the last hour: the dashboard shows it in
tables, the wall as one list, the worst first."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import chain
from typing import Any

from django.http import HttpRequest

from msh.admin.framework import markup
from msh.admin.framework.actions import Offer
from msh.admin.framework.curves import small_curves
from msh.admin.framework.headline import Jump
from msh.models import Direction, Incident
from msh.protocol.kinds import DeliveryState
from msh.protocol.severity import Severity, weight

from .inbound import OtherIncident, Standing, other_incidents, standing
from .suspended import Group, Line, Suspended, suspended

SEVERITIES = {
    DeliveryState.BLOCKED: Severity.CRITICAL,
    DeliveryState.IN_DOUBT: Severity.CRITICAL,
    DeliveryState.PARKED: Severity.WARNING,
}
"""Of deliveries that stand still: behind a parked one nothing waits."""


@dataclass(frozen=True, slots=True)
class Troubles:
    """`other_incidents`: how many there are; `incidents` has the worst."""

    suspended: Suspended
    standing: Sequence[Standing]
    incidents: Sequence[OtherIncident]
    other_incidents: int


def troubles(request: HttpRequest) -> Troubles:
    count, incidents = other_incidents(request)
    found = Troubles(suspended(request), standing(request), incidents, count)
    return _with_one_filled(_with_curves(found))


def _with_curves(found: Troubles) -> Troubles:
    """With one statement for all of them."""
    links = found.suspended
    rows: list[Any] = [*links.groups, *links.lines, *found.standing, *found.incidents]
    drawn = iter(small_curves([row.about for row in rows]))

    def drawn_for(some: Sequence[Any]) -> list[Any]:
        return [replace(one, curve=next(drawn)) for one in some]

    shown = replace(links, groups=drawn_for(links.groups), lines=drawn_for(links.lines))
    return replace(
        found,
        suspended=shown,
        standing=drawn_for(found.standing),
        incidents=drawn_for(found.incidents),
    )


class _OneFilled:
    """Fills the first button that acts and helps; none that only leads to another page."""

    def __init__(self) -> None:
        self._used = False

    def offers(self, offers: Sequence[Offer]) -> list[Offer]:
        return [replace(one, recommended=self._fills(one.recommended)) for one in offers]

    def jumps(self, jumps: Sequence[Jump]) -> list[Jump]:
        return [
            replace(one, recommended=self._fills(one.recommended and bool(one.busy)))
            for one in jumps
        ]

    def _fills(self, helps: bool) -> bool:
        fills = helps and not self._used
        self._used |= fills
        return fills


def _with_one_filled(found: Troubles) -> Troubles:
    """In the order of the page, and of the buttons of a row."""
    fill = _OneFilled()
    lines = []
    for line in found.suspended.lines:
        advice = line.advice and replace(line.advice, jumps=fill.jumps(line.advice.jumps[:1]))
        lines.append(replace(line, advice=advice, offers=fill.offers(line.offers)))
    return replace(
        found,
        suspended=replace(found.suspended, lines=lines),
        standing=[replace(one, offers=fill.offers(one.offers)) for one in found.standing],
        incidents=[replace(one, jumps=fill.jumps(one.jumps)) for one in found.incidents],
    )


@dataclass(frozen=True, slots=True)
class OnWall:
    """One trouble. `waiting`: how many of `unit`. `whose`: who has taken it."""

    who: str
    what: str
    detail: str
    severity: Severity
    waiting: int
    since: datetime
    curve: str
    whose: str = ""
    unit: str = "queued"

    @property
    def age(self) -> str:
        return markup.age_of(self.since)

    def weight(self, now: datetime) -> float:
        return weight(self.severity, self.waiting, now - self.since)


def worst_first(found: Troubles, now: datetime) -> list[OnWall]:
    takers = _takers()
    links = chain(
        (_group_on_wall(one) for one in found.suspended.groups),
        (_line_on_wall(one, takers) for one in found.suspended.lines),
    )
    others = chain(_standing_on_wall(found.standing), _incidents_on_wall(found.incidents))
    return sorted(chain(links, others), key=lambda one: -one.weight(now))


def _takers() -> Mapping[tuple[int, str], str]:
    """By partner and kind, who has taken an open incident about a link to a partner."""
    taken = Incident.objects.filter(resolved_at=None, direction=Direction.OUT)
    named = taken.exclude(assigned_to="").values_list("partner", "kind", "assigned_to")
    return {(partner, kind): who for partner, kind, who in named}


def _group_on_wall(one: Group) -> OnWall:
    answer = one.answers[0][1] if one.answers else ""
    who = f"{one.count} partners"
    return OnWall(who, one.cause.title, answer, one.severity, one.queued, one.since, one.curve)


def _line_on_wall(one: Line, takers: Mapping[tuple[int, str], str]) -> OnWall:
    link = one.link
    whose = takers.get((link.partner_id, link.suspended_for), "")
    return OnWall(
        str(link.partner),
        one.cause.title,
        one.answer,
        one.severity,
        one.queued,
        one.since,
        one.curve,
        whose,
    )


def _standing_on_wall(rows: Sequence[Standing]) -> Iterator[OnWall]:
    for one in rows:
        count = f" ({one.count} deliveries)" if one.count > 1 else ""
        yield OnWall(
            str(one.first.consumer),
            f"{one.first.get_state_display().capitalize()}{count}",
            one.first.detail,
            SEVERITIES[DeliveryState(one.state)],
            one.behind + one.count,
            one.since,
            one.curve,
            unit="waiting",
        )


def _incidents_on_wall(rows: Sequence[OtherIncident]) -> Iterator[OnWall]:
    for one in rows:
        yield OnWall(
            str(one.partner),
            one.cause.title,
            one.detail,
            one.severity,
            one.times,
            one.since,
            one.curve,
            one.assigned_to,
            "time" if one.times == 1 else "times",
        )
