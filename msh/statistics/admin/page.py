"""The page of statistics: of all partners, or of one; as CSV and JSON too."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, JsonResponse
from django.http.response import HttpResponseBase
from django.template.defaultfilters import filesizeformat
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html
from django.utils.http import urlencode

from msh.admin.framework import markup
from msh.admin.framework.downloads import csv_response
from msh.admin.framework.pages import Table
from msh.admin.framework.time_format import format_time
from msh.admin.partner.page import tables_of_partner
from msh.flows.operations.figures import duration_text, seconds_text
from msh.statistics.flows import overview, periods
from msh.statistics.flows.overview import OfPartner
from msh.statistics.models import Unit
from msh.statistics.store import histogram, read
from msh.statistics.store.collect import counted_up_to, happened_after
from msh.statistics.store.read import Counts, Figures
from msh.statistics.store.span import Span
from msh.store.snapshot import snapshot
from partners.models import Partner

from . import charts

PERMISSION = "msh.view_statistics"
_NOT_COUNTED = "Not counted yet: what has happened is newer than what is counted so far."
MOST = 100
"""Partners that are shown, and suspensions; a file has all."""


@dataclass(frozen=True, slots=True)
class Asked:
    """`name` is a key of PERIODS. `partner`: None for all."""

    name: str
    partner: Partner | None

    @property
    def period(self) -> periods.Period:
        return periods.PERIODS[self.name]

    @property
    def partner_ids(self) -> list[int] | None:
        return [self.partner.pk] if self.partner else None

    def url(self, **other: str) -> str:
        query = {"period": self.name} | other
        if self.partner:
            query["partner"] = str(self.partner.pk)
        return f"{reverse('statistics')}?{urlencode(query)}"


def statistics(request: HttpRequest) -> HttpResponseBase:
    if not request.user.has_perm(PERMISSION):
        raise PermissionDenied
    asked = _asked(request)
    with snapshot():
        up_to = counted_up_to()
        if up_to is None:
            return _page(request, asked, {})
        span = periods.span_of(asked.period, up_to)
        wanted = request.GET.get("format")
        if wanted not in ("csv", "json"):
            listed = overview.overview(span, asked.partner_ids, timed=MOST)
            return _page(request, asked, _shown(asked, span, listed)).render()
        listed = overview.overview(span, asked.partner_ids)
        if wanted == "json":
            return JsonResponse(overview.document(listed, span, asked.name))
        name = f"statistics-{asked.name}-{up_to:%Y-%m-%dT%H%M}.csv"
        return csv_response(name, overview.HEADERS, overview.lines(listed))


@tables_of_partner.register
def on_page_of(request: HttpRequest, partner: Partner) -> Iterator[Table]:
    if request.user.has_perm(PERMISSION) and (table := last_day_of(partner)):
        yield table


def last_day_of(partner: Partner) -> Table | None:
    """Return the day that its page ends with; None before anything is counted."""
    up_to = counted_up_to()
    if up_to is None:
        return None
    asked = Asked("24h", partner)
    span = periods.span_of(asked.period, up_to)
    rows = [tuple(_cells(one.figures)) for one in overview.overview(span, [partner.pk])]
    title = f"Last 24 hours, counted up to {format_time(up_to, timezone.now())}"
    waits = not rows and happened_after(up_to, [partner.pk])
    return Table(title, _HEADERS, rows, _NOT_COUNTED if waits else "Nothing happened.", asked.url())


def _asked(request: HttpRequest) -> Asked:
    name = request.GET.get("period") or periods.FIRST
    if name not in periods.PERIODS:
        raise Http404(f"There is no period {name!r}: {', '.join(periods.PERIODS)}.")
    key = request.GET.get("partner", "")
    if not key:
        return Asked(name, None)
    partner = Partner.objects.filter(pk=key).first() if key.isdecimal() else None
    if partner is None:
        raise Http404(f"The partner {key} does not exist.")
    return Asked(name, partner)


def _page(request: HttpRequest, asked: Asked, shown: Mapping[str, object]) -> TemplateResponse:
    title = "Statistics"
    if asked.partner:
        title = f"Statistics of {markup.escape_invisible(str(asked.partner))}"
    context = {
        **admin.site.each_context(request),
        "title": title,
        "asked": asked,
        "tabs": [
            (one.title, Asked(name, asked.partner).url(), name == asked.name)
            for name, one in periods.PERIODS.items()
        ],
        "error": round(histogram.ERROR * 100),
        **shown,
    }
    return TemplateResponse(request, "admin/msh/statistics/page.html", context)


def _shown(asked: Asked, span: Span, listed: Sequence[OfPartner]) -> dict[str, object]:
    points = read.series(span, asked.partner_ids)
    whole = read.total(points.values())
    waits = whole.counts == Counts() and happened_after(span.end, asked.partner_ids)
    context = {
        "span": span,
        "not_counted": _NOT_COUNTED if waits else "",
        "figures": [] if waits else list(_figures(whole, listed)),
        "charts": _charts(span, charts.of_time(span, points)),
        "tables": [_by_agreement(listed), _suspensions(listed, span)]
        if asked.partner
        else [_by_partner(asked, listed, whole)],
        "others": max(len(listed) - MOST, 0),
        "csv": asked.url(format="csv"),
        "json": asked.url(format="json"),
    }
    if asked.partner:
        year, number = periods.month_before(span.end)
        local = span.end.astimezone(span.begin.tzinfo)
        months = ((year, number), (local.year, local.month))
        context["reports"] = [
            (
                datetime(*month, 1).strftime("%B %Y"),  # noqa: DTZ001  its name only
                reverse("statistics_report", args=[asked.partner.pk, *month]),
            )
            for month in months
        ]
        context["partner_url"] = reverse("partner_page", args=[asked.partner.pk])
    return context


def _figures(whole: Figures, listed: Sequence[OfPartner]) -> Iterator[tuple[str, object, str]]:
    """Return name, value and note of each figure."""
    counts = whole.counts
    down = sum((one.figures.down for one in listed), timedelta())
    suspended = sum(1 for one in listed if one.downs)
    yield "Out", f"{counts.acknowledged + counts.sent:,}", filesizeformat(counts.bytes_out)
    yield "In", f"{counts.received:,}", filesizeformat(counts.bytes_in)
    for percent in overview.QUANTILES:
        yield f"Ack p{percent}", _acknowledged_within(whole, percent), ""
    yield "Retries", f"{counts.retries:,}", "copies after the first"
    yield "Duplicates", f"{counts.duplicates:,}", "from partners, discarded"
    note = f"{suspended} partner{'' if suspended == 1 else 's'}" if suspended else ""
    yield "Suspended", duration_text(down) if down else "0", note
    yield "In doubt", f"{counts.in_doubt:,}", ""
    failed = counts.failed + counts.rejected + counts.delivery_failures
    yield "Failures", f"{failed:,}", _failures(whole)


def _failures(whole: Figures) -> str:
    counts = whole.counts
    parts = (
        (counts.failed, "given up or cancelled"),
        (counts.rejected, "rejected"),
        (counts.delivery_failures, "attempts at consumers"),
    )
    return ", ".join(f"{number:,} {what}" for number, what in parts if number)


def _charts(span: Span, found: Sequence[Figures]) -> list[charts.Chart]:
    each = "hour" if span.unit is Unit.HOUR else "day"
    counts = [one.counts for one in found]
    return [
        charts.bars(
            f"Messages per {each}",
            span,
            [
                ("out", [one.acknowledged + one.sent for one in counts]),
                ("in", [one.received for one in counts]),
            ],
        ),
        charts.lines(
            "Time to Acknowledgement",
            span,
            [(f"p{n}", [one.within(n / 100) for one in found]) for n in (50, 95)],
        ),
        charts.bars(
            f"Retries and duplicates per {each}",
            span,
            [
                ("retries", [one.retries for one in counts]),
                ("duplicates", [one.duplicates for one in counts]),
            ],
        ),
        charts.bars(
            f"Failures and deliveries in doubt per {each}",
            span,
            [
                ("failures", [one.failed + one.rejected + one.delivery_failures for one in counts]),
                ("in doubt", [one.in_doubt for one in counts]),
            ],
        ),
    ]


_HEADERS = (
    *("Out", "In", "Ack p50", "p95", "p99", "Retries", "Duplicates", "In doubt", "Failures"),
    "Suspended",
)


def _by_partner(asked: Asked, listed: Sequence[OfPartner], whole: Figures) -> Table:
    rows: list[tuple[object, ...]] = [
        (
            format_html(
                '<a href="{}" class="text-link"><bdi>{}</bdi></a>',
                Asked(asked.name, one.partner).url(),
                markup.escape_invisible(str(one.partner)),
            ),
            *_cells(one.figures),
        )
        for one in listed[:MOST]
    ]
    removed = whole.counts - read.added(one.figures.counts for one in listed)
    if removed != Counts():
        rows.append(("Partners removed since", *_cells(Figures(removed))))
    headers = ("Partner", *_HEADERS)
    return Table("By partner", headers, rows, "Nothing happened in this time.")


def _by_agreement(listed: Sequence[OfPartner]) -> Table:
    rows = [
        (markup.isolated(of.agreement or "none"), *list(_cells(of.figures))[:-1])
        for one in listed
        for of in one.agreements
    ]
    empty = "Nothing happened in this time."
    return Table("By agreement", ("Agreement", *_HEADERS[:-1]), rows, empty)


def _suspensions(listed: Sequence[OfPartner], span: Span) -> Table:
    rows = [
        (
            markup.time_of(one.began_at),
            markup.time_of(one.ended_at) if one.ended_at else "still suspended",
            duration_text(one.within(span.begin, span.end)),
        )
        for of in listed
        for one in reversed(of.downs)
    ]
    headers = ("Suspended", "Until", "Within this time")
    return Table("Suspensions", headers, rows[:MOST], "Sending was never suspended.")


def _cells(figures: Figures) -> Iterator[object]:
    counts = figures.counts
    yield f"{counts.acknowledged + counts.sent:,}"
    yield f"{counts.received:,}"
    for percent in overview.QUANTILES:
        yield _acknowledged_within(figures, percent)
    yield f"{counts.retries:,}"
    yield f"{counts.duplicates:,}"
    yield f"{counts.in_doubt:,}"
    yield f"{counts.failed + counts.rejected + counts.delivery_failures:,}"
    down = figures.down
    yield _on_one_line(duration_text(down)) if down else ""


def _acknowledged_within(figures: Figures, percent: int) -> str:
    found = figures.within(percent / 100)
    return markup.DASH if found is None else _on_one_line(seconds_text(found))


def _on_one_line(text: str) -> str:
    return text.replace(" ", "\N{NO-BREAK SPACE}")
