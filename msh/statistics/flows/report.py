"""The report of one month with one partner, in sentences, for people who do not use the console."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from django.conf import settings
from django.core.mail import EmailMultiAlternatives
from django.template.defaultfilters import filesizeformat
from django.template.loader import render_to_string
from django.utils import timezone

from msh.flows.operations.figures import count_text, duration_text, seconds_text
from msh.statistics.store import histogram, read
from msh.statistics.store.collect import counted_up_to
from msh.statistics.store.read import Counts, Figures
from msh.statistics.store.span import Span
from partners.models import Partner

from . import periods
from .overview import QUANTILES, OfAgreement, OfPartner, overview, time_down

TEMPLATE = "msh/report.html"


@dataclass(frozen=True, slots=True)
class Day:
    """`share`: of the busiest day, in percent."""

    begins: datetime
    figures: Figures
    share: int

    @property
    def out(self) -> int:
        return self.figures.counts.acknowledged + self.figures.counts.sent


@dataclass(frozen=True, slots=True)
class Suspended:
    """`ended_at`: None, it was not over when the month was, or is not yet."""

    began_at: datetime
    ended_at: datetime | None
    length: str


@dataclass(frozen=True, slots=True)
class Report:
    """`up_to`: None if nothing is counted at all."""

    partner: Partner
    title: str
    begin: datetime
    end: datetime
    up_to: datetime | None
    sentences: Sequence[str]
    agreements: Sequence[OfAgreement]
    days: Sequence[Day]
    suspensions: Sequence[Suspended]

    @property
    def is_complete(self) -> bool:
        return self.up_to is not None and self.up_to >= self.end

    def html(self) -> str:
        """Return a page that needs nothing else: to be printed, stored or sent."""
        error = round(histogram.ERROR * 100)
        with timezone.override(settings.TIME_ZONE):  # its days are those of the MSH
            return render_to_string(TEMPLATE, {"report": self, "error": error})

    def text(self) -> str:
        return "\n\n".join([self.title, *self.sentences])


def report_of(partner: Partner, year: int, number: int) -> Report:
    """Return the report of this month. Raises ValueError for a month that the calendar does not
    have."""
    month = periods.month(year, number)
    up_to = counted_up_to()
    end = min(up_to, month.end) if up_to else month.begin
    span = Span(month.unit, month.begin, max(end, month.begin))
    of = next(iter(overview(span, [partner.pk])), OfPartner(partner, Figures(), (), ()))
    before = periods.month(*periods.month_before(month.begin))
    earlier = next(iter(overview(before, [partner.pk])), None)
    return Report(
        partner=partner,
        title=f"{month.begin:%B %Y}: messages exchanged with {_name(partner)}",
        begin=month.begin,
        end=month.end,
        up_to=up_to,
        sentences=list(_sentences(of, span, earlier, before)),
        agreements=of.agreements,
        days=_days(span, read.series(span, [partner.pk])),
        suspensions=[
            Suspended(one.began_at, one.ended_at, duration_text(one.within(span.begin, span.end)))
            for one in of.downs
        ],
    )


def send(report: Report, to: Sequence[str]) -> None:
    """Send it by e-mail: the sentences as text, the page beside them. Raises OSError."""
    mail = EmailMultiAlternatives(
        subject=report.title.replace("\n", " "),
        body=report.text(),
        from_email=settings.MSH_OPERATORS_EMAIL_FROM,
        to=list(to),
    )
    mail.attach_alternative(report.html(), "text/html")
    mail.send()


def _sentences(of: OfPartner, span: Span, earlier: OfPartner | None, before: Span) -> Iterator[str]:
    name, counts = _name(of.partner), of.figures.counts
    yield from _volume(name, counts, earlier, f"{before.begin:%B}")
    times = [of.figures.within(percent / 100) for percent in QUANTILES]
    if None not in times:
        half, most, nearly = (seconds_text(found or 0) for found in times)
        yield (
            f"Half of our messages were acknowledged within {half}, 95 % within {most}, 99 % within"
            f" {nearly}."
        )
    yield (
        f"We sent {count_text(counts.retries, 'further copy', 'further copies')} because no"
        f" answer came in time, and discarded {count_text(counts.duplicates, 'duplicate')}."
    )
    yield _suspension(of, span)
    yield _ends(counts)


def _volume(name: str, counts: Counts, earlier: OfPartner | None, month: str) -> Iterator[str]:
    """Return the volume beside that of the month before, if there was something in it."""
    was = earlier.figures.counts if earlier else None
    out = f" In {month} it was {was.acknowledged:,}." if was else ""
    into = f" In {month} it was {was.received:,}." if was else ""
    taken, got = (count_text(n, "message") for n in (counts.acknowledged, counts.received))
    yield f"{name} acknowledged {taken} from us{_size(counts.bytes_out)}.{out}"
    if counts.sent:
        yield (
            f"We sent {count_text(counts.sent, 'message')} that are not acknowledged by agreement."
        )
    yield f"We received {got} from {name}{_size(counts.bytes_in)}.{into}"


def _suspension(of: OfPartner, span: Span) -> str:
    down, length = time_down(of.downs, span.begin, span.end), read.length(span.begin, span.end)
    if not of.downs or not length:
        return "Sending was never suspended."
    longest = max(one.within(span.begin, span.end) for one in of.downs)
    share = 100 * (1 - down / length)
    return (
        f"Sending was suspended {count_text(len(of.downs), 'time')}, for {duration_text(down)} in"
        f" total and at most {duration_text(longest)} at a time: it was possible for {share:.2f} %"
        " of the time."
    )


def _ends(counts: Counts) -> str:
    parts = (
        (counts.failed, "message", "to the partner", "given up or cancelled"),
        (counts.rejected, "message", "from the partner", "rejected by an application"),
        (counts.in_doubt, "delivery", "to an application", "in doubt"),
    )
    said = [
        f"{count_text(number, noun, 'deliveries' if noun == 'delivery' else '')} {whom}"
        f" {'was' if number == 1 else 'were'} {what}"
        for number, noun, whom, what in parts
        if number
    ]
    if not said:
        return "No message was given up, rejected or in doubt."
    return f"{'; '.join(said)}."


def _name(partner: Partner) -> str:
    """Return the name without the key, which is ours."""
    return partner.display_name or partner.name


def _size(count: int) -> str:
    """Return the size in parentheses; nothing of nothing."""
    return f" ({filesizeformat(count)})".replace("\xa0", " ") if count else ""


def _days(span: Span, found: dict[datetime, Figures]) -> list[Day]:
    listed = [(begin, found.get(begin.astimezone(UTC), Figures())) for begin in periods.slots(span)]
    volumes = [one.counts.volume for _, one in listed]
    top = max([*volumes, 1])
    return [
        Day(begin, one, round(100 * volume / top))
        for (begin, one), volume in zip(listed, volumes, strict=True)
    ]
