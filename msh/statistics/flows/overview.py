"""Statistics by partner and agreement, as the console, the API and files have them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from msh.statistics.store import read
from msh.statistics.store.read import COUNTED, Down, Figures
from msh.statistics.store.span import Span
from partners.models import Agreement, Partner

QUANTILES = (50, 95, 99)


@dataclass(frozen=True, slots=True)
class OfAgreement:
    """`agreement`: its TPAId; empty of what is about no stored message."""

    agreement: str
    figures: Figures


@dataclass(frozen=True, slots=True)
class OfPartner:
    partner: Partner
    figures: Figures
    agreements: Sequence[OfAgreement]
    downs: Sequence[Down]


def overview(
    span: Span, partner_ids: Sequence[int] | None = None, timed: int | None = None
) -> list[OfPartner]:
    """Return those that had something, the busiest first. `timed`: only so many of them have times
    to Acknowledgement; None: all."""
    counts = read.counts(span, partner_ids)
    downs: dict[int, list[Down]] = {}
    for down in read.downs(span.begin, span.end, partner_ids):
        downs.setdefault(down.partner_id, []).append(down)
    partners = _named(list({key for key, _ in counts} | downs.keys()))
    counts = {key: of for key, of in counts.items() if key[0] in partners}
    volumes = dict.fromkeys(partners, 0)
    for (key, _), of in counts.items():
        volumes[key] += of.volume
    order = sorted(partners, key=lambda key: (-volumes[key], partners[key].name))
    times = read.times(span, partner_ids if timed is None else order[:timed])
    agreements: dict[int, list[OfAgreement]] = {key: [] for key in partners}
    names = _names(agreement_id for _, agreement_id in counts)
    for found, of in counts.items():
        one = OfAgreement(names[found[1]], Figures(of, times.get(found, {})))
        agreements[found[0]].append(one)
    return [_of_partner(partners[key], agreements[key], downs.get(key, ()), span) for key in order]


def _named(keys: Sequence[int]) -> dict[int, Partner]:
    return Partner.objects.only("name", "display_name").in_bulk(keys)


def _names(agreement_ids: Iterable[int | None]) -> dict[int | None, str]:
    wanted = {key for key in agreement_ids if key is not None}
    known = dict(Agreement.objects.filter(pk__in=wanted).values_list("pk", "tpa_id"))
    return {None: "", **{key: known.get(key, f"deleted {key}") for key in wanted}}


def _of_partner(
    partner: Partner, agreements: Iterable[OfAgreement], downs: Sequence[Down], span: Span
) -> OfPartner:
    ordered = sorted(agreements, key=lambda one: one.agreement)
    summed = replace(
        read.total(one.figures for one in ordered), down=time_down(downs, span.begin, span.end)
    )
    return OfPartner(partner, summed, ordered, downs)


def time_down(downs: Iterable[Down], begin: datetime, end: datetime) -> timedelta:
    return sum((one.within(begin, end) for one in downs), timedelta())


def document(listed: Iterable[OfPartner], span: Span, period: str) -> dict[str, Any]:
    """Return it as JSON has it."""
    return {
        "period": period,
        "begin": span.begin.isoformat(),
        "up_to": span.end.isoformat(),
        "partners": [
            {
                "partner": one.partner.name,
                **_values(one.figures),
                "suspended_seconds": round(one.figures.down.total_seconds()),
                "agreements": [
                    {"tpa_id": of.agreement, **_values(of.figures)} for of in one.agreements
                ],
            }
            for one in listed
        ],
    }


def _values(figures: Figures) -> Mapping[str, int | float | None]:
    counts = {name: getattr(figures.counts, name) for name in COUNTED}
    return counts | {f"ack_p{n}_seconds": _seconds(figures, n) for n in QUANTILES}


def _seconds(figures: Figures, percent: int) -> float | None:
    """Return seconds with the digits that their error leaves."""
    found = figures.within(percent / 100)
    return None if found is None else float(f"{found:.2g}")


HEADERS = (
    *("partner", "tpa_id", *COUNTED),
    *(f"ack_p{n}_seconds" for n in QUANTILES),
    "partner_suspended_seconds",
)


def lines(listed: Iterable[OfPartner]) -> Iterator[Sequence[object]]:
    """Return it as CSV has it: one for each agreement, with its partner's suspension; HEADERS say
    what."""
    for one in listed:
        down = round(one.figures.down.total_seconds())
        for of in one.agreements or [OfAgreement("", Figures())]:
            yield (one.partner.name, of.agreement, *_values(of.figures).values(), down)
