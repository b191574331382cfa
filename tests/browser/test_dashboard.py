"""The dashboard stays true while it stands open, and says so when it cannot."""

import re
from datetime import UTC, datetime, timedelta

from django.utils import timezone
from playwright.sync_api import Locator, Page, Route, expect

from msh.models import OutboundLink
from msh.protocol.kinds import IncidentKind
from msh.store import incidents
from tests.admin.many import standing_deliveries
from tests.browser.console import Console
from tests.exchange.pair import Pair, PairFactory

OLD = "Connection lost"
REFRESH = 10_000  # milliseconds


def left_open(console: Console) -> Page:
    """The dashboard in a browser whose clock the test moves on."""
    page = console.open("Operator")
    page.clock.install()
    page.reload()
    return page


def trouble(page: Page, partner: Pair) -> Locator:
    return page.get_by_role("row").filter(has_text=partner.partner.name)


def put_first(partner: Pair) -> None:
    """Other tests leave suspended partners behind: the dashboard shows ten of them, and those with
    the same cause as a group."""
    long_ago = datetime(2000, 1, 1, tzinfo=UTC)
    links = OutboundLink.objects.filter(partner=partner.partner)
    links.update(suspended_since=long_ago, suspended_for=IncidentKind.TRANSIENT_LIMIT)


def test_it_refreshes_itself_under_the_keyboard(console: Console, pair: PairFactory) -> None:
    partner = pair()
    page = left_open(console)
    square = page.get_by_role("link", name=f"{partner.partner.name}: OK")
    square.focus()
    address = square.get_attribute("href")

    partner.suspend()
    put_first(partner)
    page.clock.fast_forward(REFRESH)

    expect(trouble(page, partner)).to_be_visible()
    expect(page.locator(f".msh-strip [href='{address}']")).to_be_focused()


def test_a_dialog_gives_the_keyboard_back_to_what_opened_it(
    console: Console, pair: PairFactory
) -> None:
    partner = pair()
    partner.suspend()
    put_first(partner)
    page = left_open(console)
    shown = trouble(page, partner)
    shown.get_by_role("link", name="Resume sending").press("Enter")
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_label("Reason")).to_be_focused()

    partner.submit()
    page.clock.fast_forward(REFRESH)
    expect(shown.get_by_role("cell", name=re.compile(r"^1( |$)"))).to_be_visible()
    dialog.get_by_role("link", name="Cancel").press("Enter")

    expect(shown.get_by_role("link", name="Resume sending")).to_be_focused()


def test_dashboard_shows_lost_and_restored_connection(console: Console) -> None:
    page = left_open(console)
    expect(page.get_by_text(OLD)).to_be_hidden()

    page.context.set_offline(True)
    page.clock.fast_forward(REFRESH)
    expect(page.get_by_text(OLD)).to_be_visible()

    page.context.set_offline(False)
    page.clock.fast_forward(REFRESH)
    expect(page.get_by_text(OLD)).to_be_hidden()


def test_dashboard_shows_a_missing_answer(console: Console) -> None:
    page = left_open(console)
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    page.route(console.msh.console, hold)

    page.clock.fast_forward(REFRESH)
    page.clock.fast_forward(3 * REFRESH)

    expect(page.get_by_text(OLD)).to_be_visible()
    assert held


def test_pages_and_lists_of_links_refresh_themselves(console: Console, pair: PairFactory) -> None:
    """F12 of the review of the console: only the dashboard refreshed itself."""
    partner = pair(timeout=600, retries=1, retry_interval=600)
    message = partner.submit()
    partner.wait_for_attempts(message, 1)
    page = console.open("Operator", f"msh/outboundlink/{partner.link.pk}/change/")
    listed = console.open("Operator", f"msh/outboundlink/?q={partner.partner.name}")
    for one in (page, listed):
        one.clock.install()
        one.reload()
        expect(one.get_by_text("Waiting for the Acknowledgement of message 1")).to_be_visible()

    partner.suspend()
    page.clock.fast_forward(REFRESH)
    listed.clock.fast_forward(REFRESH)

    expect(page.get_by_text("Message 1 blocks the queue.")).to_be_visible()
    expect(listed.get_by_text("Message 1 blocks the queue.")).to_be_visible()


def test_badges_and_the_title_of_the_tab_are_refreshed(console: Console, pair: PairFactory) -> None:
    """F6 of the review of the console: the menu showed the numbers of the evening all night."""
    page = left_open(console)
    badge = page.locator("[data-badge*='/msh/incident/']")
    before = int(badge.text_content() or 0)

    incidents.open_now(pair().partner.pk, "in", IncidentKind.BACKLOG, "m-1", "so many wait")
    page.clock.fast_forward(REFRESH)

    expect(badge).to_have_text(str(before + 1))
    expect(badge).to_be_visible()
    expect(page).to_have_title(f"({before + 1}) Dashboard | MSH console")


def test_a_list_fits_its_window_in_rows_of_two_lines(console: Console, pair: PairFactory) -> None:
    """F4 of the review: 113 to 133 pixels a row, and what matters was off the right edge."""
    partner = pair(timeout=600)
    message = partner.submit()
    incidents.open_now(partner.partner.pk, "in", IncidentKind.BACKLOG, "m-1", "so many wait")
    long_ago = timezone.now() - timedelta(days=3)  # a date is wider than a time of today
    error = "500 Internal Server Error: " * 3
    stopped = standing_deliveries("blocked", behind=1, detail=error, since=long_ago)
    for where in (
        f"msh/outboundmessage/?q={message.message_id}",
        "msh/incident/?is=open",
        f"msh/delivery/?q={stopped.message.message_id}",
        f"msh/consumer/?q={stopped.consumer}",
    ):
        page = console.open("Operator", where)
        console.picture(page, f"console-list-{where.split('/')[1]}")
        rows = page.locator("#result_list tbody tr")
        heights = [one.bounding_box() for one in rows.all()[:5]]
        assert heights
        assert all(box and box["height"] <= 84 for box in heights), (where, heights)
        wide = page.evaluate(
            "() => { const table = document.querySelector('#result_list');"
            " return table.offsetWidth - table.closest('.simplebar-content-wrapper').clientWidth }"
        )
        assert wide <= 0, where


def test_an_id_is_shown_in_part_and_copied_whole(console: Console, pair: PairFactory) -> None:
    message = pair(timeout=600).submit()
    page = console.open("Operator", f"msh/outboundmessage/?q={message.message_id}")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name=f"Copy {message.message_id}").click()
    expect(page.locator(".msh-copy[title=Copied]")).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()") == message.message_id
