"""Findings of the review of the console about partners that are down and deliveries that are
stopped: each test does what the review did."""

import re
from datetime import UTC, datetime, timedelta

from django.utils import timezone
from playwright.sync_api import Locator, Page, expect

from msh.models import BulkJob, Incident, OutboundLink
from msh.protocol.kinds import IncidentKind
from msh.protocol.lane import LaneState
from tests.admin.many import REFUSED_CONNECTION, standing_deliveries, suspended_partners
from tests.browser.console import Console
from tests.browser.test_actions import page_of, suspended, waiting
from tests.browser.test_dashboard import put_first, trouble
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


def figure(page: Page, name: str) -> Locator:
    """A figure of the dashboard, with its name and its note."""
    now = page.get_by_role("region", name="Now")
    return now.locator("div").filter(has=page.get_by_role("term").filter(has_text=name)).last


def number_in(shown: Locator) -> int:
    return int(shown.get_by_role("link").inner_text())


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


def test_out_of_sync_link_offers_to_resynchronise(console: Console, pair: PairFactory) -> None:
    """F1: sending again does not help, so the button for it is not the filled one, the dashboard
    does not offer it alone, and an Operator learns who can help."""
    partner, _ = suspended(pair, queued=0)
    links = OutboundLink.objects.filter(pk=partner.link.pk)
    links.update(suspended_for=IncidentKind.RESYNCHRONISE, suspended_since=LONG_AGO)

    page = console.open("Supervisor")
    line = trouble(page, partner)
    expect(line.get_by_role("link", name="Resume sending")).to_have_count(0)
    line.get_by_role("link", name="Resynchronise and resume").click()
    expect(page.get_by_role("dialog").get_by_label("Last accepted number")).to_be_visible()
    page = page_of(console, "Supervisor", partner.link)
    expect(page.get_by_text("Sending again does not help")).to_be_visible()
    assert_filled(page, "Resynchronise and resume", "Resume sending")

    page = console.open("Operator")
    expect(trouble(page, partner)).to_contain_text("ask a user with the role Supervisor")


def test_dashboard_shows_stopped_deliveries(console: Console) -> None:
    """F2: two deliveries stand still, and the dashboard said "Everything flows". The inbound
    backlog and its age are a figure."""
    page = console.open("Operator")
    before = number_in(figure(page, "Undelivered"))
    doubtful = standing_deliveries("in_doubt", 4)
    blocked = standing_deliveries("blocked", 3, "500 Internal Server Error")

    page.reload()

    expect(page.get_by_role("main")).not_to_contain_text("Everything flows")
    undelivered = figure(page, "Undelivered")
    assert number_in(undelivered) == before + 5 + 4
    expect(undelivered).to_contain_text(re.compile(r"oldest \d+ min"))
    stopped = page.get_by_role("region", name="Stopped deliveries")
    lines = stopped.get_by_role("row")
    line = lines.filter(has_text=str(blocked.consumer))
    expect(line).to_contain_text("Blocked")
    expect(line).to_contain_text("500 Internal Server Error")
    expect(line).to_contain_text("8 min")
    expect(line.get_by_role("cell", name="3", exact=True)).to_be_visible()
    expect(line.get_by_role("link", name="Run again")).to_be_visible()
    in_doubt = lines.filter(has_text=str(doubtful.consumer))
    expect(in_doubt).to_contain_text("In doubt")
    page.goto(console.at("msh_inboundlink_changelist"))
    expect(page.get_by_role("row").nth(1)).to_contain_text(re.compile("many-|partner-"))
    waiting_there = page.locator('[data-label="Undelivered"]').first
    assert int(waiting_there.inner_text()) > 0, "links with a backlog come first"


def test_many_suspended_partners_fit_on_one_screen(console: Console) -> None:
    """F3: 31 suspended partners made a page of four screens, with the figures at its end."""
    suspended_partners(31, REFUSED_CONNECTION, since=LONG_AGO)
    page = console.open("Supervisor")

    expect(page.get_by_role("region", name="Now")).to_be_in_viewport(ratio=1)
    group = page.get_by_role("row").filter(has_text="8199")
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


def test_facts_of_a_link_are_of_one_moment_while_its_queue_is_sent(
    console: Console, pair: PairFactory
) -> None:
    """F12: the head of the page named three different messages in flight."""
    partner = pair(acknowledges=True)
    partner.peer.always(status(204, delay=0.1))
    messages = [partner.submit() for _ in range(60)]
    partner.wait_for_state(messages[0])
    page = page_of(console, "Viewer", partner.link)
    seen: set[str] = set()
    while len(seen) < 4:
        if partner.state_of(messages[-10]) == "acknowledged":  # it is sent faster than it is seen
            messages += [partner.submit() for _ in range(30)]
        text = page.get_by_role("main").inner_text()
        counter = re.search(r"out: number (\d+) in flight, then (\d+)", text)
        flying = re.search(r"(?:Sending|Acknowledgement of) message (\d+)", text)
        if counter and flying:
            assert int(counter[2]) == int(counter[1]) + 1
            assert flying[1] == counter[1]
            queue = page.get_by_role("region", name="Queue, in sending order")
            first = messages[int(counter[1])].message_id
            expect(queue.get_by_role("row").nth(1)).to_contain_text(first)
            seen.add(counter[1])
        page.reload()


def test_figures_do_not_count_stuck_messages_as_in_flight(
    console: Console, pair: PairFactory
) -> None:
    """F13: nothing of a suspended link is on its way, and its queue has lost nothing to the
    partner."""
    partner, _ = waiting(pair)
    page = console.open("Viewer")
    before = number_in(figure(page, "In flight"))
    assert before >= 1

    partner.suspend()
    put_first(partner)
    page.reload()

    in_flight = figure(page, "In flight")
    assert number_in(in_flight) == before - 1
    expect(in_flight).to_contain_text(re.compile(r"\d+ more suspended"))
    page = page_of(console, "Viewer", partner.link)
    growth = page.get_by_role("definition").filter(has_text="in 10 min")
    expect(growth).to_contain_text("0 acknowledged")
    expect(growth).to_contain_text("1 sent for the first time")
    expect(growth).not_to_contain_text("went")
