"""The page of statistics, its files, the API and the monthly report: what they say, and to whom."""

import csv
import json
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.core import mail
from django.core.management import CommandError, call_command
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from msh.admin.framework import markup
from msh.admin.framework.downloads import csv_lines
from msh.flows.operations.figures import duration_text, seconds_text
from msh.models import History
from msh.statistics.admin import page as statistics_page
from msh.statistics.flows import periods
from msh.statistics.flows.report import report_of
from msh.statistics.models import StatisticsProgress
from msh.statistics.store import collect as collecting
from msh.statistics.store import read
from msh.statistics.store.span import Span
from partners.models import Agreement, Partner
from tests.admin.conftest import client_of
from tests.api.conftest import Tokens, token

from .happenings import Cast, cast, collect_all

__all__ = ["cast", "token"]
pytestmark = pytest.mark.django_db
PAGE = "/admin/statistics/"
HOUR = timedelta(hours=1)


@pytest.fixture
def busy(cast: Cast) -> Cast:
    """Two messages out of which one was sent again, one in, a suspension that is over, and one that
    is not. The first agreement has a name that is a formula.

    All of it before what `collect_all` counts up to, which is SETTLED ago: of the hour that begins
    in between the page shows nothing."""
    return story(cast, timezone.now() - 2 * collecting.SETTLED)


def story(cast: Cast, now: datetime) -> Cast:
    first, other = cast.agreements[:2]
    first.tpa_id = "=1+1"
    first.save()
    for agreement, waited in ((first, 1), (other, 2)):
        sent = now - timedelta(seconds=waited)
        message_id = cast.message(agreement, out=True, size=2048, at=sent)
        acknowledged = {"event": "AckReceived", "to_state": "acknowledged"}
        cast.happened(agreement, now, direction="out", message_id=message_id, **acknowledged)
    arrived = {"event": "MessageArrived", "to_state": "accepted", "direction": "in"}
    message_id = cast.message(first, out=False, size=1024, at=now)
    cast.happened(first, now, message_id=message_id, **arrived)
    link = {"subject": "link", "direction": "out", "event": "x"}
    for agreement, at, states in (
        (first, now - 3 * HOUR, ("idle", "suspended")),
        (first, now - 2 * HOUR, ("suspended", "idle")),
        (other, now - HOUR, ("waiting", "suspended")),
    ):
        before, after = states
        cast.happened(agreement, at, from_state=before, to_state=after, **link)
    collect_all()
    return cast


@pytest.fixture
def viewer(db: None) -> Client:
    return client_of("vera", "view_statistics")


def test_page_says_what_it_counts_and_up_to_when(busy: Cast, viewer: Client) -> None:
    page = viewer.get(PAGE)
    text = page.content.decode()
    up_to = StatisticsProgress.objects.get().up_to
    assert up_to is not None
    assert f"{up_to:%H:%M:%S} UTC" in text
    figures = {name: value for name, value, _ in page.context["figures"]}
    assert (figures["Out"], figures["In"], figures["Ack p99"]) == ("2", "1", "1.9\xa0s")
    (table,) = page.context["tables"]
    assert [(row[1], row[2], row[-1]) for row in table.rows] == [
        ("1", "1", "1\xa0h\xa00\xa0min"),
        ("1", "0", "1\xa0h\xa01\xa0min"),
    ]
    assert text.count('<path class="msh-bar-') > 1
    assert "<script" not in text.partition("msh-charts")[2].partition("</figure>")[0]


def test_page_of_a_partner(busy: Cast, viewer: Client) -> None:
    partner = busy.agreements[0].partner
    page = viewer.get(f"{PAGE}?partner={partner.pk}&period=30d")
    by_agreement, suspensions = page.context["tables"]
    assert "=1+1" in by_agreement.rows[0][0]
    assert [row[2] for row in suspensions.rows] == ["1 h 0 min"]
    assert next(url for _, url in page.context["reports"]).startswith(f"{PAGE}{partner.pk}/")


def test_partner_page_shows_the_last_day(busy: Cast, viewer: Client) -> None:
    partner = busy.agreements[0].partner
    url = reverse("partner_page", args=[partner.pk])
    names = ("view_partner", "view_statistics")
    (table,) = (
        one
        for one in client_of("paul", *names).get(url).context["tables"]
        if one.more and one.more.startswith(PAGE)
    )
    assert table.title.startswith("Last 24 hours, counted up to ")
    assert (table.rows[0][:2], table.more) == (
        ("1", "1"),
        f"{PAGE}?period=24h&partner={partner.pk}",
    )
    page = client_of("olga", "view_partner").get(url)
    assert not any(one.title.startswith("Last 24") for one in page.context["tables"])


def test_partner_that_was_removed_stays_in_the_figures_of_all(busy: Cast, viewer: Client) -> None:
    """And the lines of the table add up to them."""
    gone = Partner.objects.create(name="gone", uri="http://gone.example/")
    agreement = Agreement(partner=gone)
    now = timezone.now() - 2 * collecting.SETTLED
    for event in ("DuplicateArrived", "MessageArrived"):
        busy.happened(agreement, now, direction="in", to_state="accepted", event=event)
    collect_all()
    History.objects.filter(partner=gone).delete()  # nothing else of it is kept
    key, _ = gone.pk, gone.delete()
    page = viewer.get(f"{PAGE}?period=90d")
    (table,) = page.context["tables"]
    assert [row[2] for row in table.rows] == ["1", "0", "1"]
    assert (table.rows[-1][0], table.rows[-1][7]) == ("Partners removed since", "1")
    assert [value for _, value, _ in page.context["figures"][:2]] == ["2", "2"]
    assert viewer.get(f"{PAGE}?partner={key}&period=90d").status_code == 404
    assert viewer.get(reverse("statistics_report", args=[key, 2026, 1])).status_code == 404
    listed = json.loads(viewer.get(PAGE, {"format": "json", "period": "90d"}).content)
    assert [one["partner"] for one in listed["partners"]] == ["pa", "pb"]


@pytest.mark.parametrize("period", periods.PERIODS)
def test_partner_without_traffic(busy: Cast, viewer: Client, period: str) -> None:
    idle = Partner.objects.create(name="idle", uri="http://idle.example/")
    at = {"partner": str(idle.pk), "period": period}
    page = viewer.get(PAGE, at)
    by_agreement, suspensions = page.context["tables"]
    assert (by_agreement.rows, suspensions.rows) == ([], [])
    assert {value for _, value, _ in page.context["figures"]} == {"0", markup.DASH}
    assert json.loads(viewer.get(PAGE, at | {"format": "json"}).content)["partners"] == []
    answer: Any = viewer.get(PAGE, at | {"format": "csv"})
    assert len(answer.getvalue().decode().splitlines()) == 1
    report = report_of(idle, timezone.now().year, timezone.now().month)
    assert "idle acknowledged no messages from us.\n" in report.text()
    assert "We received no messages from idle.\n" in report.text()


def test_page_reads_the_times_of_those_that_it_shows(
    busy: Cast, viewer: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []
    times = read.times

    def watched(span: Span, partner_ids: Sequence[int]) -> Any:
        asked.append(partner_ids)
        return times(span, partner_ids)

    monkeypatch.setattr(read, "times", watched)
    monkeypatch.setattr(statistics_page, "MOST", 1)
    shown = viewer.get(PAGE)
    assert asked == [[busy.agreements[0].partner_id]]
    (table,) = shown.context["tables"]
    assert [row[3] for row in table.rows] == ["930\xa0ms"]
    assert "1 more are in the files" in shown.content.decode()


@pytest.mark.parametrize("period", periods.PERIODS)
def test_every_period(busy: Cast, viewer: Client, period: str) -> None:
    figures = viewer.get(PAGE, {"period": period}).context["figures"]
    assert figures[0][:2] == ("Out", "2")


def test_before_anything_is_counted(viewer: Client) -> None:
    assert "Nothing is counted yet" in viewer.get(PAGE).content.decode()
    assert viewer.get(PAGE, {"period": "1y"}).status_code == 404
    assert viewer.get(PAGE, {"period": ""}).status_code == 200
    assert viewer.get(PAGE, {"partner": "x"}).status_code == 404


def test_pages_and_files_need_the_permission(busy: Cast) -> None:
    stranger = client_of("ivan", "view_outboundlink")
    partner = busy.agreements[0].partner_id
    report = reverse("statistics_report", args=[partner, 2026, 1])
    for url in (PAGE, f"{PAGE}?format=csv", f"{PAGE}?format=json", report):
        assert stranger.get(url).status_code == 403, url
    assert 'href="/admin/statistics/"' not in stranger.get("/admin/").content.decode()


def test_csv_has_no_formulas(busy: Cast, viewer: Client) -> None:
    answer: Any = viewer.get(PAGE, {"format": "csv"})
    assert answer["Content-Disposition"].startswith('attachment; filename="statistics-24h-')
    rows = list(csv.DictReader(answer.getvalue().decode().splitlines()))
    assert [row["tpa_id"] for row in rows] == ["'=1+1", "tpa-1"]
    assert [row["acknowledged"] for row in rows] == ["1", "1"]
    assert rows[0]["partner_suspended_seconds"] == "3600"


@pytest.mark.parametrize("text", ["=1", "+1", "-1", "@x", "\t=1", "\r=1", " =1", "\n=1", " \t1"])
def test_text_that_a_spreadsheet_would_compute(text: str) -> None:
    (line,) = csv_lines([[text, -1, None, "a=1"]])
    assert next(csv.reader([line])) == [f"'{text}", "-1", "", "a=1"]


def test_json_and_api_say_the_same(busy: Cast, viewer: Client, token: Tokens) -> None:
    page = json.loads(viewer.get(PAGE, {"format": "json"}).content)
    program = token("operate", may=("view_statistics",))
    assert program.get("statistics").json == page
    one = program.get("statistics", partner="pb", period="90d").json["partners"]
    assert [(of["partner"], of["acknowledged"]) for of in one] == [("pb", 1)]
    assert one[0]["ack_p50_seconds"] == pytest.approx(2, rel=0.1)
    assert program.get("statistics", partner="nobody").status == 404
    assert token("operate").get("statistics").status == 403


def test_report_in_sentences(cast: Cast, viewer: Client, tmp_path: Path) -> None:
    now = (timezone.now().replace(day=1) - timedelta(days=1)).replace(day=15)
    busy = story(cast, now)
    partner, file = busy.agreements[0].partner, tmp_path / "report.html"
    month = f"{now:%Y-%m}"
    call_command("report", "pa", "--month", month, "--output", str(file), "--mail", "m@x.example")
    page = file.read_text()
    assert "pa acknowledged 1 message from us (2.0 KB)" in page
    assert "We received 1 message from pa (1.0 KB)" in page
    assert "Sending was suspended 1 time, for 1 h 0 min in total" in page
    assert "The month is not complete" not in page
    (sent,) = mail.outbox
    assert (sent.to, "acknowledged 1 message" in sent.body) == (["m@x.example"], True)
    url = reverse("statistics_report", args=[partner.pk, now.year, now.month])
    assert viewer.get(url).content.decode() == page
    with pytest.raises(CommandError, match="no month"):
        call_command("report", "pa", "--month", "2026-13")
    nowhere = tmp_path / "missing" / "report.html"
    with pytest.raises(CommandError, match="cannot be written: No such file or directory"):
        call_command("report", "pa", "--month", month, "--output", str(nowhere))


def test_report_of_a_month_that_is_not_over(busy: Cast) -> None:
    now = timezone.now()
    report = report_of(busy.agreements[0].partner, now.year, now.month)
    assert "The month is not complete" in report.html()


def test_days_of_a_report_are_those_of_the_msh_whoever_reads_it(busy: Cast) -> None:
    now = timezone.now()
    report = report_of(busy.agreements[0].partner, now.year, now.month)
    there = report.html()
    with timezone.override("America/New_York"):
        assert report.html() == there


def test_month_whose_days_are_not_of_one_length(settings: Any) -> None:
    settings.TIME_ZONE = "Europe/Berlin"
    october = periods.month(2026, 10)
    days = list(periods.slots(october))
    assert len(days) == 31
    assert {day.hour for day in days} == {0}
    assert read.length(october.begin, october.end) == timedelta(days=31, hours=1)
    assert periods.month_before(october.begin) == (2026, 9)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        *((0.001, "1.0 ms"), (0.0456, "46 ms"), (0.234, "230 ms"), (1.0, "1.0 s"), (41.8, "42 s")),
        *((125, "2.1 min"), (7_300, "2.0 h"), (200_000, "2.3 d"), (0.0, "0 ms")),
    ],
)
def test_times_have_the_digits_that_their_error_leaves(seconds: float, text: str) -> None:
    assert seconds_text(seconds) == text


def test_durations_have_two_units() -> None:
    lengths = [timedelta(days=1, hours=2), timedelta(hours=3, minutes=5), timedelta(seconds=59)]
    assert [duration_text(one) for one in lengths] == ["1 d 2 h", "3 h 5 min", "59 s"]
