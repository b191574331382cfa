"""Findings of the review of the console about partners that are down: what it did."""

import re
from datetime import UTC, datetime, timedelta

from django.utils import timezone
from playwright.sync_api import Locator, Page, expect

from msh.models import BulkJob, Incident, OutboundLink
from msh.protocol.lane import LaneState
from tests.admin.many import REFUSED_CONNECTION, suspended_partners
from tests.browser.console import Console
from tests.browser.test_actions import page_of
from tests.browser.test_dashboard import trouble
from tests.exchange.pair import Pair, PairFactory
from tests.peer import status

TRANSPARENT = re.compile(r"^rgba\(\d+, \d+, \d+, 0\)$")
LONG_AGO = datetime(2001, 1, 1, tzinfo=UTC)
CARD = 2 * 215
"""Pixels of two suspended partners on the dashboard of the review."""


def assert_filled(page: Page, filled: str, *others: str) -> None:
    """`filled` is drawn as the button that helps, and the others are not."""
    main = page.get_by_role("main")

    def button(name: str) -> Locator:
        link = main.get_by_role("link", name=name, exact=True)
        return link.or_(main.get_by_role("button", name=name, exact=True))

    expect(button(filled)).not_to_have_css("background-color", TRANSPARENT)
    for name in others:
        expect(button(name)).to_have_css("background-color", TRANSPARENT)


def refused(pair: PairFactory, code: int, retries: int = 0) -> Pair:
    """A partner that answers each copy with this status, until its link is suspended."""
    partner = pair(timeout=1, retries=retries, retry_interval=1)
    partner.peer.always(status(code))
    partner.submit()
    return partner


def test_advice_and_filled_button_follow_the_last_answer(
    console: Console, pair: PairFactory
) -> None:
    """F1: the partner is up and refuses our token. To resume alone is not what helps."""
    partner = refused(pair, 401)
    partner.wait_for_link(LaneState.SUSPENDED)
    page = page_of(console, "Administrator", partner.link)

    advice = page.get_by_role("paragraph").filter(has_text="Recommended action")
    expect(advice).to_contain_text("Its MSH is running")
    expect(advice).to_contain_text("Replace our credentials")
    expect(advice).not_to_contain_text("Find out whether")
    assert_filled(page, "Partner settings", "Test connection", "Resume sending")
    page.get_by_role("link", name="Partner settings").click()
    expect(page.get_by_label("Our credential")).to_be_in_viewport()

    page = page_of(console, "Operator", partner.link)
    expect(page.get_by_text("ask a user with the role Administrator")).to_be_visible()


def test_many_suspended_partners_fit_on_one_screen(console: Console) -> None:
    """F3: 31 suspended partners made a page of four screens, with the figures at its end."""
    suspended_partners(31, REFUSED_CONNECTION, since=LONG_AGO)
    page = console.open("Supervisor")

    expect(page.get_by_role("region", name="Now")).to_be_in_viewport(ratio=1)
    group = page.get_by_role("row").filter(has_text=":8199")
    expect(group).to_have_count(1)
    expect(group).to_be_in_viewport()  # groups of other tests may stand above it
    expect(group).to_contain_text(re.compile(r"\b(3[1-9]|[4-9]\d) partners"))
    expect(group.get_by_role("link", name="Resume these")).to_be_visible()
    box = group.bounding_box()
    assert box is not None
    assert box["height"] < CARD
    others = page.get_by_role("region", name="Other incidents")
    expect(others).not_to_contain_text("No Acknowledgement after all retries")


def test_bulk_job_shows_who_was_suspended_again(console: Console, pair: PairFactory) -> None:
    """F4: from the dashboard to a job for some of the partners with one cause; its page then shows
    for which of them it did not help. F3: the dashboard counts that resume, and does not begin the
    time anew."""
    partners = [refused(pair, 402) for _ in range(3)]
    for one in partners:
        one.wait_for_link(LaneState.SUSPENDED)
        put_back(one)
    mended, broken, left = partners
    page = console.open("Supervisor")
    group = page.get_by_role("row").filter(has_text="402 ")
    group.get_by_role("link", name="Resume these").click()
    expect(page.get_by_role("heading", name="New bulk job")).to_be_visible()
    left_out = page.get_by_role("listitem").filter(has_text=left.partner.name)
    left_out.get_by_role("checkbox").uncheck()
    mended.peer.always(status(204))
    mended.peer.acknowledges = True
    earlier = list(BulkJob.objects.values_list("pk", flat=True))

    page.get_by_label("Reason").fill("they say that it works again")
    page.get_by_role("button", name="Resume partners (").click()

    expect(page.get_by_text("rows queued")).to_be_visible()
    job = BulkJob.objects.exclude(pk__in=earlier).get()
    rows = page.get_by_role("row")
    expect(rows.filter(has_text=broken.partner.name)).to_contain_text("suspended again")
    expect(rows.filter(has_text=broken.partner.name)).to_contain_text("402")
    expect(rows.filter(has_text=mended.partner.name)).to_contain_text("up")
    expect(rows.filter(has_text=left.partner.name)).to_have_count(0)
    assert not job.items.filter(key=left.partner.pk).exists()
    page.goto(console.msh.console)
    line = trouble(page, broken)
    expect(line).to_contain_text("resumed 1 time")
    expect(line).to_contain_text("2 h")


def put_back(partner: Pair) -> None:
    """It has been suspended for two hours."""
    since = timezone.now() - timedelta(hours=2)
    OutboundLink.objects.filter(partner=partner.partner).update(suspended_since=since)
    Incident.objects.filter(partner=partner.partner).update(opened_at=since)
