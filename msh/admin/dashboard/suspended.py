"""Suspended partners of the dashboard, one line each; many with the same cause are one group."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby
from typing import Any

from django.contrib import admin
from django.db.models import (
    Case,
    Count,
    F,
    Min,
    OuterRef,
    Prefetch,
    QuerySet,
    Subquery,
    Value,
    When,
    prefetch_related_objects,
)
from django.db.models.functions import Coalesce
from django.http import HttpRequest
from django.utils import timezone

from msh.admin.framework import markup
from msh.admin.framework.actions import Offer
from msh.admin.framework.bulk import ROW_PERMISSIONS, START_PERMISSIONS, bulk_url
from msh.admin.framework.curves import About
from msh.admin.framework.permitted import whom_to_ask
from msh.admin.framework.runbooks import runbook_url
from msh.admin.links.advice import (
    Advice,
    advice_on,
    cause_name,
    cause_of_link,
    helps_first,
    last_words,
    with_last_answer,
)
from msh.admin.links.maintenance import plan_url, with_window
from msh.admin.links.other_partner import hints, may_be_of_another
from msh.admin.links.outbound_actions import RESUME
from msh.admin.links.resynchronise import RESYNCHRONISE
from msh.flows.operations.inspection.causes import CAUSES, Cause, Help
from msh.models import (
    FLIGHTS_IN,
    BulkAction,
    Direction,
    Flight,
    Incident,
    OutboundLink,
    OutboundMessage,
    OutboundState,
)
from msh.protocol.kinds import IncidentKind
from msh.protocol.lane import OPERATOR
from msh.protocol.severity import Severity, severity_of, weight
from msh.protocol.vocabulary import DeliverySemantics
from msh.store.operations.bulk_jobs import with_cancelling
from msh.store.operations.windows import quiet_partners

MOST = 1000
"""Suspended partners that are looked at."""
GROUPED_FROM = 3
"""So many partners with the same cause are a group."""
FIRST_LINES = 10
"""Partners that are not in a group."""
FIRST_NAMES = 100
"""Partners of a group that are named."""
ANSWER_LIMIT = 80  # characters
BY_OPERATOR = Case(When(suspended_for=OPERATOR, then=1), default=0)
"""Links suspended by an operator come after the others."""
_TO_RESUME = (*START_PERMISSIONS, *ROW_PERMISSIONS[BulkAction.RESUME])
_IN_FLIGHT = Prefetch("in_flight", OutboundMessage.objects.defer("head"))
"""Of links that are shown: most are only counted."""
_NEVER = Value(datetime(1970, 1, 1, tzinfo=UTC))


@dataclass(frozen=True, slots=True)
class Line:
    """A suspended partner. `since`: its first suspension after the last Acknowledgement;
    `resumed`: how often it was resumed since then, in vain. `ask`: who may do what helps."""

    link: Any
    url: str
    cause: Cause
    answer: str
    since: datetime
    last_ack: str
    resumed: int
    message: OutboundMessage | None
    queued: int
    advice: Advice | None
    offers: Sequence[Offer]
    ask: str
    curve: str = ""

    @property
    def down_since(self) -> str:
        return markup.ago(self.since)

    @property
    def about(self) -> About:
        return About(partners=(self.link.partner_id,))

    @property
    def severity(self) -> Severity:
        return _severity(self.link)


@dataclass(frozen=True, slots=True)
class Member:
    """A partner of a group. `queued`: messages that wait for it. `contact`: whom to call, and the
    number; empty if neither is known."""

    name: str
    url: str
    queued: int
    contact: str = ""


@dataclass(frozen=True, slots=True)
class Group:
    """Partners with the same cause. `answers`: (how many, text), the most frequent first, and how
    many others there are; if no two are alike, one of them.
    `longest` is down since `since`, the last one since `latest`; None if they are down since
    the same time. `largest` has the longest queue; None if all queues are equally long. `members`:
    longest queue first. `plan`: the URL of a plan of maintenance for them, if it is permitted.
    `resume`: the URL of a bulk job for them, if it is permitted and there is
    one to resume; `resumes`: how many its preview selects; `left_out`: how many it does not, and
    why. `ask`: who may resume them. `hints`: whose answer names another partner."""

    count: int
    cause: Cause
    runbook: str
    answers: Sequence[tuple[int, str]]
    other_answers: int
    since: datetime
    latest: str
    longest: Member | None
    members: Sequence[Member]
    others: int
    queued: int
    largest: Member | None
    resume: str
    plan: str
    resumes: int
    left_out: str
    ask: str
    hints: Sequence[str]
    about: About
    severity: Severity
    curve: str = ""

    @property
    def down_since(self) -> str:
        return markup.ago(self.since)


@dataclass(frozen=True, slots=True)
class Suspended:
    groups: Sequence[Group]
    lines: Sequence[Line]
    others: int


def suspended(request: HttpRequest) -> Suspended:
    found = sorted(_links()[:MOST], key=cause_name)
    queued = _queue_lengths() if found else {}
    groups, single = [], []
    now = timezone.now()
    quiet = quiet_partners(now) if found else set()
    for name, group in groupby(found, key=cause_name):
        links = sorted(group, key=_since)
        if len(links) >= GROUPED_FROM:
            groups.append(_group(request, name, links, queued, quiet))
        else:
            single += links
    single.sort(key=lambda link: (link.suspended_for == OPERATOR, -_weight(link, queued, now)))
    groups.sort(key=lambda group: (group.cause == CAUSES[OPERATOR], -group.count))
    first = single[:FIRST_LINES]
    prefetch_related_objects(first, _IN_FLIGHT, "partner__agreements")
    before = _before(first) if first else {}
    lines = [_line(request, link, queued, before[link.pk]) for link in first]
    return Suspended(groups, lines, len(single) - len(lines))


def _links() -> QuerySet[OutboundLink]:
    links = OutboundLink.objects.suspended().select_related("partner")
    dated = with_window(with_cancelling(with_last_answer(links)))
    first = _suspensions().annotate(at=Min("opened_at")).values("at")
    counted = dated.alias(counted_from=Coalesce(_last_ack(), _NEVER))
    return counted.annotate(first_suspended=Subquery(first)).order_by(
        BY_OPERATOR, "suspended_since"
    )


def _last_ack() -> Subquery:
    acknowledged = OutboundMessage.objects.filter(
        link=OuterRef("pk"), sequence_number__isnull=False, state=OutboundState.ACKNOWLEDGED
    ).order_by("-epoch", "-sequence_number")
    return Subquery(acknowledged.values("completed_at")[:1])


@dataclass(frozen=True, slots=True)
class Before:
    """What a link did before it was suspended. `suspensions`: how many since `last_ack`."""

    last_ack: datetime | None
    suspensions: int


def _before(links: Sequence[OutboundLink]) -> Mapping[int, Before]:
    """By link. Asked only of those that have a line: for each it is two searches."""
    count = _suspensions().annotate(count=Count("pk")).values("count")
    found = OutboundLink.objects.filter(pk__in=[link.pk for link in links]).annotate(
        last_ack=_last_ack(), counted_from=Coalesce(F("last_ack"), _NEVER)
    )
    rows = found.values_list("pk", "last_ack", Subquery(count))
    return {pk: Before(last_ack, suspensions or 0) for pk, last_ack, suspensions in rows}


def _suspensions() -> QuerySet[Incident, Any]:
    """Since the last Acknowledgement."""
    kinds = [
        *(IncidentKind.RETRIES_SPENT, IncidentKind.REFUSED_BY_PEER, IncidentKind.TRANSIENT_LIMIT),
        *(IncidentKind.RESYNCHRONISE, IncidentKind.ERROR_RECEIVED),
        *(IncidentKind.PROCESSING_FAILED, IncidentKind.PARTNER_UNREACHABLE),
        IncidentKind.PARTNER_REFUSES,
    ]
    opened = Incident.objects.filter(
        partner=OuterRef("partner"),
        direction=Direction.OUT,
        kind__in=kinds,
        opened_at__gt=OuterRef("counted_from"),
    )
    return opened.order_by().values("partner")


def _queue_lengths() -> Mapping[int, int]:
    """By link, of all that are suspended."""
    queue = OutboundMessage.objects.queued().order_by().filter(link__state="suspended")
    counts: Counter[int] = Counter()
    for kind in DeliverySemantics:
        counted = queue.filter(semantics=kind).values("link").annotate(count=Count("pk"))
        counts.update(dict(counted.values_list("link", "count")))
    ready = Flight.objects.filter(FLIGHTS_IN[OutboundState.QUEUED], link__state="suspended")
    flying = ready.order_by().values("link").annotate(count=Count("pk"))
    counts.update(dict(flying.values_list("link", "count")))
    return counts


def _since(link: Any) -> datetime:
    """When it was suspended first; by an operator, when he did."""
    since: datetime = link.suspended_since
    return since if link.suspended_for == OPERATOR else link.first_suspended or since


def _severity(link: OutboundLink) -> Severity:
    """An operator who suspends a link knows of it."""
    return Severity.INFO if link.suspended_for == OPERATOR else severity_of(link.suspended_for)


def _weight(link: OutboundLink, queued: Mapping[int, int], now: datetime) -> float:
    return weight(_severity(link), queued.get(link.pk, 0), now - _since(link))


def _cause(link: OutboundLink) -> Cause:
    return cause_of_link(link) or Cause(link.suspended_for, "")


def _answer(link: OutboundLink) -> str:
    line = " ".join(markup.escape_invisible(last_words(link)).split())
    return line if len(line) <= ANSWER_LIMIT else f"{line[:ANSWER_LIMIT]}…"


def _line(request: HttpRequest, link: Any, queued: Mapping[int, int], before: Before) -> Line:
    page: Any = admin.site.get_model_admin(OutboundLink)
    out_of_sync = helps_first(link, Help.RESYNCHRONISE)
    helps = RESYNCHRONISE if out_of_sync else RESUME
    advice = advice_on(link, request)
    offers = page.offers(request, link, [helps])
    ask = advice.ask if advice else ""
    if not ask and not offers:
        ask = " ".join(page.withheld(request, link, [helps]))
    return Line(
        link,
        markup.page_url(link),
        _cause(link),
        _answer(link),
        _since(link),
        markup.ago(before.last_ack) if before.last_ack else "",
        max(before.suspensions - 1, 0),
        link.in_flight,
        queued.get(link.pk, 0),
        advice,
        offers,
        ask,
    )


def _group(
    request: HttpRequest,
    name: str,
    links: Sequence[Any],
    queued: Mapping[int, int],
    quiet: Collection[int],
) -> Group:
    cause = _cause(links[0])
    cancelling = sum(link.cancelling for link in links)
    in_maintenance = sum(link.partner_id in quiet and not link.cancelling for link in links)
    resumes = len(links) - cancelling - in_maintenance
    answers = Counter(_answer(link) for link in links).most_common()
    shown = answers[: 3 if answers[0][1] > 1 else 1]
    members = [_member(link, queued.get(link.pk, 0)) for link in links]
    total = sum(member.queued for member in members)
    by_queue = sorted(members, key=lambda member: -member.queued)
    first, last = _since(links[0]), _since(links[-1])
    helps = resumes and Help.RESUME in cause.helps
    return Group(
        len(links),
        cause,
        runbook_url(cause),
        [(times, text) for text, times in shown],
        len(answers) - len(shown),
        first,
        markup.ago(last),
        members[0] if first != last else None,
        by_queue[:FIRST_NAMES],
        max(len(links) - FIRST_NAMES, 0),
        total,
        by_queue[0] if by_queue[0].queued * len(links) > total else None,
        _resume(request, name) if helps else "",
        plan_url(request, cause=name),
        resumes,
        _left_out(cancelling, in_maintenance),
        whom_to_ask(request, _TO_RESUME, "resume several partners at once") if helps else "",
        _hints(cause, links),
        About(partners=tuple(link.partner_id for link in links)),
        _severity(links[0]),
    )


def _left_out(cancelling: int, in_maintenance: int) -> str:
    """Return the partners that the preview of the bulk job does not select (`kept_back` in
    bulk_rows.py)."""
    parts = []
    if in_maintenance:
        parts.append(f"{in_maintenance} in maintenance")
    if cancelling:
        parts.append(f"{cancelling} whose queue is to be cancelled")
    return f"not {' and '.join(parts)}" if parts else ""


def _hints(cause: Cause, links: Sequence[Any]) -> Sequence[str]:
    if not may_be_of_another(cause):
        return ()
    return hints([(link, last_words(link)) for link in links])[:FIRST_LINES]


def _member(link: Any, queued: int) -> Member:
    known = (link.partner.contact, link.partner.phone)
    contact = markup.escape_invisible(", ".join(filter(None, known)))
    return Member(str(link.partner), markup.page_url(link), queued, contact)


def _resume(request: HttpRequest, name: str) -> str:
    return bulk_url(request, BulkAction.RESUME, cause=name)
