"""The last hour of a partner and of a consumer: what waited, what was done, and what is said of
it."""

from datetime import datetime, timedelta

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from msh.admin.framework import curves
from msh.admin.framework.curves import About
from msh.models import Consumer, InboundLink, OutboundLink
from msh.statistics.admin.charts import Chart, rates, whole_number
from msh.statistics.admin.last_hour import MINUTES, first_minute, trend
from msh.statistics.models import Statistics, StatisticsProgress, Unit
from msh.statistics.store.collect import look
from msh.statistics.store.read import Minutes, minutes
from partners.models import Partner
from tests.admin.conftest import page_of
from tests.admin.many import standing_deliveries, suspended_partners
from tests.flows.costs import statements_of
from tests.flows.flying import sky_of_five

pytestmark = pytest.mark.django_db
MINUTE = timedelta(minutes=1)


def minute(at: datetime, **values: object) -> None:
    Statistics.objects.create(unit=Unit.MINUTE, begins=at, **values)


def counted_up_to(at: datetime) -> None:
    StatisticsProgress.objects.update_or_create(pk=1, defaults={"up_to": at})


def waiting_of(
    partner: Partner | None = None, consumer: Consumer | None = None
) -> list[int | None]:
    rows = Statistics.objects.filter(partner=partner, consumer=consumer, agreement=None)
    return list(rows.values_list("waiting", flat=True))


def test_what_waits_is_looked_at_for_each_partner_and_consumer() -> None:
    """Also messages that fly; and once more in the same minute is no second row."""
    (link,) = suspended_partners(1, queued=3)
    delivery = standing_deliveries("blocked", behind=2)
    sky = sky_of_five()
    for _ in range(2):
        look()
    assert waiting_of(link.partner)[-1:] == [3]
    assert waiting_of(sky.partner)[-1:] == [1]
    assert waiting_of(consumer=delivery.consumer)[-1:] == [1]
    assert waiting_of()[-1:] == [4]
    assert Statistics.objects.filter(partner=link.partner).count() <= 2  # a minute may have ended


def test_nobody_waits_where_somebody_looked_and_found_nobody() -> None:
    (link,) = suspended_partners(1)
    begin = first_minute()
    minute(begin + 5 * MINUTE, waiting=4)
    minute(begin + 5 * MINUTE, waiting=4, partner=link.partner)
    minute(begin + 6 * MINUTE, waiting=0)

    (found,) = minutes(begin, MINUTES, [((link.partner_id,), ())])

    assert found["waiting"][4:8] == [None, 4, 0, None]


def test_what_is_not_counted_yet_is_not_shown_as_nothing() -> None:
    """The last minutes are counted later: a line that falls to 0 would tell of an outage."""
    (link,) = suspended_partners(1)
    begin = first_minute()
    minute(begin, acknowledged=2, partner=link.partner)
    minute(begin + 58 * MINUTE, acknowledged=7, partner=link.partner)
    minute(begin + 57 * MINUTE, waiting=0)
    counted_up_to(begin + 57 * MINUTE + MINUTE / 2)

    (found,) = minutes(begin, MINUTES, [((link.partner_id,), ())])

    assert found["acknowledged"][:2] == [2, 0]
    assert found["acknowledged"][56:] == [0, None, 7, None]


def test_partners_of_a_group_are_added_up_in_one_statement() -> None:
    links = suspended_partners(3, queued=2)
    delivery = standing_deliveries("parked", behind=0)
    look()
    about = [
        ([one.partner_id for one in links], []),
        ([links[0].partner_id], []),
        ([], [delivery.consumer_id]),
        ([], []),
    ]
    found: list[Minutes] = []
    seen = statements_of(lambda: found.extend(minutes(first_minute(), MINUTES, about)))
    assert len(seen) == 1
    assert [[one for one in of["waiting"] if one is not None][-1] for of in found] == [6, 2, 1, 6]


@pytest.mark.parametrize(
    ("waiting", "words"),
    [
        ([None, 5, None, 9], "+4 in 2 min"),
        ([1_000] * 30 + [4] * 10, "-996 in 15 min"),
        ([3] * 60, "unchanged in 15 min"),
        ([None, 5], ""),
        ([None], ""),
    ],
)
def test_a_trend_is_told_in_words(waiting: list[int | None], words: str) -> None:
    assert trend(waiting) == words


@pytest.mark.parametrize(
    ("most", "top"),
    [(0, 1), (1, 1), (1.3, 2), (3, 5), (5, 5), (38.7, 50), (51, 100), (1_001, 2_000)],
)
def test_an_axis_has_whole_numbers(most: float, top: int) -> None:
    """F23 of the review of the console: "38.7 messages"."""
    assert whole_number(most) == top
    drawn = rates("x", {"out": [int(most * 10)]}, 10, [])
    assert drawn.top == f"{whole_number(int(most * 10) / 10):,}"


def test_a_line_is_interrupted_where_nothing_is_known() -> None:
    drawn = rates("x", {"out": [1, None, 3, 4]}, 1, [])
    (series,) = drawn.series
    assert len(series.lines) == 2
    assert series.summary == "8 total"


def titles(charts: list[Chart]) -> list[str]:
    return [chart.title for chart in charts]


def test_pages_of_partner_and_consumer_have_their_last_hour(administrator: Client) -> None:
    (link,) = suspended_partners(1, queued=3)
    consumer = standing_deliveries("blocked", behind=2).consumer
    look()
    of_partner = ["Queue, last hour", "Messages per minute, last hour"]
    page = administrator.get(reverse("admin:msh_outboundlink_change", args=[link.pk]))
    assert titles(page.context["charts"]) == of_partner
    assert page.context["charts"][0].series[0].summary == "now 3"
    assert "now 3" in page.content.decode()
    page = administrator.get(reverse("partner_page", args=[link.partner_id]))
    assert titles(page.context["charts"]) == of_partner
    inbound = InboundLink.objects.first()
    assert inbound
    page = administrator.get(reverse("admin:msh_inboundlink_change", args=[inbound.pk]))
    assert titles(page.context["charts"]) == of_partner[1:]
    text = page_of(administrator, consumer)
    assert "Open deliveries, last hour: waiting now 1" in text
    assert "Deliveries per minute, last hour: completed 0 total, failed attempts 0 total" in text
    assert (
        "Open deliveries"
        not in administrator.get(reverse("admin:msh_consumer_add")).content.decode()
    )


def test_without_the_feature_there_is_no_curve(monkeypatch: pytest.MonkeyPatch) -> None:
    for point in (curves.small, curves.whole):
        monkeypatch.setattr(point, "_functions", [])
    about = About(partners=(1,))
    assert curves.small_curves([about, about]) == ["", ""]
    assert curves.charts(about) == []


def test_lines_of_the_dashboard_have_a_curve_by_one_statement_more(operator: Client) -> None:
    links = suspended_partners(2, queued=2)
    standing_deliveries("blocked", behind=2)
    begins = timezone.now().replace(second=0, microsecond=0) - 10 * MINUTE
    minute(begins, waiting=0)
    look()
    context = operator.get(reverse("admin:index")).context
    lines, (stopped,) = context["suspended"].lines, context["standing"]
    assert {line.link.partner for line in lines} == {one.partner for one in links}
    for line in lines:
        assert "+2 in 1" in line.curve
        assert "Queue, last hour: waiting now 2" in line.curve
    assert "Open deliveries, last hour: waiting now 1" in stopped.curve
    OutboundLink.objects.update(state="idle", in_flight=None, suspended_since=None)
    assert operator.get(reverse("admin:index")).context["suspended"].lines == []
