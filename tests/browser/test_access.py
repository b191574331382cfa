"""Whoever does not see well, or has no mouse: dark pages, keyboard. Labels and contrast of every
page: test_all_pages.py."""

import re

import pytest
from playwright.sync_api import Locator, Page, expect

from msh.models import InboundConversation, Incident
from msh.protocol.lane import LaneState
from partners.models import Partner
from tests.admin.many import standing_deliveries, suspended_partners
from tests.browser.axe import violations
from tests.browser.console import DESK, TELEPHONE, Console
from tests.browser.test_actions import page_of
from tests.browser.test_all_pages import TOO_WIDE
from tests.endpoint.ebms2 import agree
from tests.exchange.pair import PairFactory
from tests.flows.conversations_in.conversation import take


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_page_is_as_dark_as_the_machine(console: Console, scheme: str) -> None:
    page = console.open("Administrator", color_scheme=scheme)
    expect(page.locator("html.dark")).to_have_count(int(scheme == "dark"))


def test_suspend_and_resume_without_a_mouse(console: Console, pair: PairFactory) -> None:
    partner = pair()
    page = page_of(console, "Operator", partner.link)
    dialog = page.get_by_role("dialog")

    press(page, page.get_by_role("link", name="Suspend"))
    expect(dialog.get_by_label("Reason")).to_be_focused()
    page.keyboard.type("their data centre moves")
    press(page, dialog.get_by_role("button", name="Suspend"))
    expect(page.get_by_text("Nothing is sent until it is resumed.")).to_be_visible()
    assert partner.link.suspended_detail.endswith(": their data centre moves")

    press(page, page.get_by_role("link", name="Resume sending"))
    expect(dialog.get_by_label("Reason")).to_be_focused()
    page.keyboard.type("it has moved")
    press(page, dialog.get_by_role("button", name="Resume sending"))
    expect(page.get_by_text("The queue is empty.", exact=True)).to_be_visible()
    assert partner.link.state == LaneState.IDLE


def press(page: Page, wanted: Locator) -> None:
    """Go to it by the Tab key, see where one is on the way, and press Enter."""
    element = wanted.element_handle()
    for _ in range(200):
        page.keyboard.press("Tab")
        if page.evaluate("wanted => document.activeElement === wanted", element):
            break
    expect(wanted).to_be_focused()
    assert page.evaluate("wanted => getComputedStyle(wanted).outlineStyle", element) != "none"
    page.keyboard.press("Enter")


_CONTROLS = """() => [...document.querySelectorAll(
    "#main :is(a[href], button, input, select, textarea, summary, [tabindex='0'])")]
    .filter(one => one.checkVisibility({visibilityProperty: true}) && !one.disabled
        && one.tabIndex >= 0 && one.type !== "hidden" && !one.closest("[inert]"))
    .map((one, at) => { one.dataset.at = at; return one.textContent.trim() || one.outerHTML; })"""
_FOCUSED = """() => {
    const one = document.activeElement, style = getComputedStyle(one);
    const seen = style.outlineStyle !== "none" || style.boxShadow !== "none";
    const box = one.getBoundingClientRect();
    return [one.dataset.at ?? "", seen, box.bottom > 0 && box.top < innerHeight];
}"""


def troubles(console: Console) -> dict[str, str]:
    """The pages on which an operator decides, by what the trouble is."""
    link, *_ = suspended_partners(1)
    doubt = standing_deliveries("in_doubt", behind=1)
    partner = Partner.objects.create(name="ward", uri="http://ward.example/")
    take(agree(partner, ordered=True, tpa_id="cpa-ward"), 0, 2, conversation="ward-12")
    hole = InboundConversation.objects.get(conversation_id="ward-12")
    rows = {
        "suspended partner": link,
        "message that waits": link.in_flight,
        "delivery in doubt": doubt,
        "conversation with a hole": hole,
        "incident": Incident.objects.get(partner=link.partner),
    }
    return {
        name: console.at(f"msh_{row._meta.model_name}_change", row.pk)
        for name, row in rows.items()
        if row is not None
    }


def test_each_control_of_a_trouble_is_reached_by_keyboard_and_fits_a_phone(
    console: Console,
) -> None:
    page = console.open("Supervisor")
    missed = []
    for name, address in troubles(console).items():
        page.goto(address)
        controls = page.evaluate(_CONTROLS)
        seen: set[str] = set()
        for _ in range(3 * len(controls) + 60):
            page.keyboard.press("Tab")
            at, outlined, in_sight = page.evaluate(_FOCUSED)
            if not at or at in seen:
                if len(seen) == len(controls):
                    break
                continue
            seen.add(at)
            if not (outlined and in_sight):
                missed.append(f"{name}: {controls[int(at)]} has the focus, and nobody sees it")
        missed += [f"{name}: {c}" for at, c in enumerate(controls) if str(at) not in seen]
        for size in (DESK, TELEPHONE):
            page.set_viewport_size(size)
            missed += [f"{name}: {one}" for one in page.evaluate(TOO_WIDE)]
        missed += violations(name, page)
        page.set_viewport_size(DESK)
    assert missed == []


def test_the_first_tab_leads_to_the_content(console: Console) -> None:
    """F15 of the review of the console: no skip link, icons read aloud in the sidebar."""
    page = console.open("Viewer")
    page.keyboard.press("Tab")
    skip = page.get_by_role("link", name="Skip to content")
    expect(skip).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#content")).to_be_focused()
    links = page.get_by_role("navigation").get_by_role("link")
    expect(links.filter(has_text="Incidents")).to_have_accessible_name(re.compile("^Incidents"))
    expect(page.get_by_role("button", name="Show or hide the navigation").first).to_be_visible()


def test_links_to_wrong_fields_are_told_by_more_than_colour(console: Console) -> None:
    page = console.open("Administrator")
    page.goto(console.at("msh_keyrule_add"))
    page.evaluate("for (const form of document.forms) form.noValidate = true")
    page.get_by_label("Reason").fill("as they call it")
    page.get_by_role("button", name="Save", exact=True).click()
    link = page.locator(".errornote .text-link").first
    expect(link).to_have_css("text-decoration-line", "underline")
    assert [one for one in violations("errors", page) if "link-in-text-block" in one] == []


def test_filters_are_opened_without_a_mouse(console: Console) -> None:
    page = console.open("Viewer", "msh/outboundmessage/")
    filters = page.get_by_role("button", name="Filters", exact=True)
    expect(filters).to_have_attribute("aria-expanded", "false")
    press(page, filters)
    expect(filters).to_have_attribute("aria-expanded", "true")
    inside = "document.activeElement.closest('#changelist-filter') !== null"
    page.wait_for_function(inside)
    console.picture(page, "filters")
    page.keyboard.press("Escape")
    expect(filters).to_have_attribute("aria-expanded", "false")
    expect(filters).to_be_focused()
