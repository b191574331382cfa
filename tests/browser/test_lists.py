"""Lists at 1280 pixels: what matters is in sight, and many rows at once."""

from datetime import timedelta

from django.db import transaction
from django.utils import timezone
from playwright.sync_api import Page, expect

from msh.models import Incident, OutboundLink
from partners.models import Partner
from tests.admin.many import REFUSED_CONNECTION, answered, suspended_partners
from tests.browser.axe import violations
from tests.browser.console import Console
from tests.exchange.pair import PairFactory

HTML = answered(
    503, "503 Service Unavailable: <html><body><h1>503</h1>No server is available.</body></html>"
)

# Rows that are whole between the head of the window and the bar at its lower edge.
_ROWS_IN_SIGHT = """() => {
    const bar = document.querySelector("#changelist-form ~ *, footer, .sticky.bottom-0");
    const foot = [...document.querySelectorAll("#main .sticky, #main .fixed")]
        .map(one => one.getBoundingClientRect()).filter(box => box.top > innerHeight / 2);
    const end = Math.min(innerHeight, ...foot.map(box => box.top));
    return [...document.querySelectorAll("#result_list tbody tr")]
        .filter(row => row.getBoundingClientRect().bottom <= end + 1).length;
}"""
_OUT_OF_SIGHT = """() => [...document.querySelectorAll("#result_list .field-actions a")]
    .filter(one => one.getBoundingClientRect().right > document.documentElement.clientWidth)
    .map(one => one.textContent.trim())"""
_COVERED = """() => [...document.querySelectorAll("#result_list tbody .field-actions")]
    .map(cell => [cell, cell.previousElementSibling].map(one => one.getBoundingClientRect()))
    .filter(([cell, before]) => cell.left < before.right - 1).length"""
_BROKEN = """() => [...document.querySelectorAll("#result_list bdi")].filter(one => {
    const range = document.createRange();
    const text = one.firstChild;
    for (const word of (text?.textContent || "").matchAll(/[^\\s-]+/g)) {
        if (word[0].length > 20) continue;
        range.setStart(text, word.index);
        range.setEnd(text, word.index + word[0].length);
        if (new Set([...range.getClientRects()].map(box => Math.round(box.top))).size > 1)
            return true;
    }
    return false;
}).map(one => one.textContent)"""


def test_ten_links_with_their_buttons_are_on_one_screen(console: Console) -> None:
    """F4: four, and the buttons were cut off at the right."""
    suspended_partners(8, REFUSED_CONNECTION)
    waiting, *_ = suspended_partners(8, HTML)
    with transaction.atomic():  # it has three buttons
        OutboundLink.objects.filter(pk=waiting.pk).update(
            state="transient", suspended_since=None, due=timezone.now() + timedelta(hours=1)
        )
        Incident.objects.filter(partner=waiting.partner_id).delete()
    Partner.objects.filter(name__startswith="many-").update(display_name="Helios Solar AG")
    page = console.open("Supervisor", "msh/outboundlink/")
    expect(page.get_by_role("link", name="Resume sending").first).to_be_visible()
    console.picture(page, "list of links")

    assert page.evaluate(_ROWS_IN_SIGHT) >= 10
    assert page.evaluate(_OUT_OF_SIGHT) == []
    assert page.evaluate(_COVERED) == 0
    assert violations("links", page) == []


def test_links_are_sorted_by_their_queue_and_by_their_age(console: Console) -> None:
    few, *_ = suspended_partners(1, queued=1)
    many, *_ = suspended_partners(1, queued=9)
    both = (few.partner_id, many.partner_id)  # other tests leave more than a page of them
    Partner.objects.filter(pk__in=both).update(display_name="Sorted")
    page = console.open("Viewer", "msh/outboundlink/?q=Sorted")
    for header, first, last in (("Queue", few, many), ("Status", few, many)):
        page.get_by_role("columnheader", name=header).get_by_role("link").first.click()
        rows = page.locator("#result_list tbody tr")
        names = rows.locator(".field-partner").all_inner_texts()
        assert names == [f"Sorted ({one.partner.name})" for one in (first, last)], header


def test_names_are_not_broken_in_the_list_of_agreements(
    console: Console, pair: PairFactory
) -> None:
    """F4: "aduana s-vigo", "aquaviv a"."""
    for name in ("aduanas-vigo", "aquaviva"):
        pair(name=name)
    page = console.open("Viewer", "partners/agreement/")
    console.picture(page, "list of agreements")
    assert page.evaluate(_BROKEN) == []


def test_an_empty_list_has_its_heading_below_the_tool_bar(console: Console) -> None:
    """F30: the heading stuck to the border of the tool bar."""
    page = console.open("Viewer", "msh/outboundmessage/?q=nothing")
    heading = page.get_by_role("heading", name="found").bounding_box()
    bar = page.locator("#searchbar").bounding_box()
    assert heading
    assert bar
    assert heading["y"] > bar["y"] + bar["height"] + 20
    console.picture(page, "empty list")


def one_line(page: Page) -> list[str]:
    """Entries of the menu that are higher than one line."""
    entries = page.locator("#nav-sidebar-apps li a > span:not([aria-hidden])")
    found: list[str] = entries.evaluate_all(
        "all => all.filter(one => one.getClientRects().length > 1).map(one => one.textContent)"
    )
    return found


def test_an_entry_of_the_menu_is_one_line(console: Console) -> None:
    """F30: in bold it wrapped, and the menu shifted."""
    page = console.open("Administrator")
    for entry in ("Links from partners", "Four-eyes requests", "Alert recipients"):
        page.get_by_role("navigation").get_by_role("link", name=entry).first.click()
        assert one_line(page) == [], entry
