"""The parts of a link's page that differ by dialect: numbered messages are sent one after the
other, flights many at once. The registry of dialects says which."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from django.utils import timezone

from msh.admin.framework import markup
from msh.admin.framework.pages import Table
from msh.flows.numbers import has_numbers
from msh.flows.operations.inspection.causes import CAUSES
from msh.models import Direction, InboundLink, Incident, OutboundLink
from msh.protocol.reason import Reason

from . import flight_view, lane_view

Shown = Callable[[Any], str]


@dataclass(frozen=True, slots=True)
class LinkView:
    """`state`: the status in a few words. `sentence`: in sentences. `in_flight`: the cell of the
    list. `facts`: the template in the head of the page, with `context`. `fields` and `tables` of
    the page. `suspended` and `resumed`: what becomes of messages when an operator does that.
    `retried`: of the last answer after which a message is sent again; None if none is."""

    state: Callable[..., str]
    sentence: Callable[..., str]
    in_flight: Shown
    facts: str
    context: Callable[[Any], dict[str, object]]
    fields: Sequence[str]
    tables: Callable[..., Sequence[Table]]
    suspended: Shown
    resumed: Shown
    retried: Callable[[Any], Reason | None]


_COMMON = ("where", "when_silent", "applications")
_LANE = LinkView(
    lane_view.state,
    lane_view.sentence,
    lane_view.in_flight,
    "admin/msh/links/lane_facts.html",
    lane_view.context,
    ("terms_in_force", *_COMMON),
    lane_view.tables,
    lane_view.suspended,
    lane_view.resumed,
    lane_view.retried,
)
_FLIGHTS = LinkView(
    flight_view.state,
    flight_view.sentence,
    flight_view.in_flight,
    "admin/msh/links/flight_facts.html",
    flight_view.context,
    _COMMON,
    flight_view.tables,
    flight_view.suspended,
    flight_view.resumed,
    flight_view.retried,
)


def view_of(link: OutboundLink) -> LinkView:
    return _LANE if has_numbers(link.partner) else _FLIGHTS


def state_of(link: OutboundLink) -> str:
    return view_of(link).state(link, timezone.now())


def variant_of(link: OutboundLink) -> str:
    """The colour of its badge: a warning if it waits for a retry, as after a TransientError."""
    if has_numbers(link.partner) and lane_view.is_failing(link):
        return "warning"
    return markup.STATE_VARIANTS.get(link.state, "")


def sentence_of(link: OutboundLink) -> str:
    return view_of(link).sentence(link, timezone.now())


def open_incidents(
    link: InboundLink | OutboundLink, direction: Direction
) -> list[tuple[str, str, str]]:
    """URL, cause and detail of each."""
    opened = Incident.objects.filter(partner=link.partner_id, direction=direction, resolved_at=None)
    return [
        (markup.page_url(one), CAUSES[one.kind].title, one.detail and markup.verbatim(one.detail))
        for one in opened
    ]
