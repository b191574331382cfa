"""Whoever does not see well, or has no mouse: labels, contrast, keyboard."""

import re
from datetime import datetime, timedelta
from itertools import product
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from django.utils import timezone
from playwright.sync_api import Locator, Page, expect

from msh.models import (
    ActRequest,
    Consumer,
    Delivery,
    InboundMessage,
    Incident,
    OutboundMessage,
    SavedFilter,
)
from msh.protocol.lane import LaneState
from msh.statistics.models import (
    AcknowledgementTime,
    Statistics,
    StatisticsProgress,
    Suspension,
    Unit,
)
from partners.models import Agreement
from tests.browser.console import Console, show_in, user_with
from tests.browser.test_actions import page_of, suspended
from tests.exchange.pair import Pair, PairFactory

ALL_RULES: dict[str, Any] = {"resultTypes": ["violations"]}
COLOURS = ALL_RULES | {
    "runOnly": {"type": "rule", "values": ["color-contrast", "link-in-text-block"]}
}


def violations(name: str, page: Page, rules: dict[str, Any] = ALL_RULES) -> list[str]:
    """What axe-core holds against the page as it is shown now: a line for each element."""
    response: dict[str, Any] = Axe().run(page, options=rules).response
    return [
        f"{name}: {violation['id']}: {' '.join(map(str, node['target']))} {node['html'][:200]}"
        f" {node['failureSummary']}"
        for violation in response["violations"]
        for node in violation["nodes"]
    ]


def violations_of_both(name: str, page: Page) -> list[str]:
    """Of the light scheme; and of the dark one what depends on colours."""
    found = violations(name, page)
    show_in("dark", page)
    found += violations(f"{name}, dark", page, COLOURS)
    show_in("light", page)
    return found


def other_pages(console: Console, partner: Pair, message: OutboundMessage) -> dict[str, str]:
    """Addresses of one page of each other kind: what is to be decided, forms, contents, lists."""
    now = timezone.now()
    save_filters()
    count_something(partner.agreement, now)
    return {
        **pages_of_rows(console, partner, now),
        **pages_of_requests(console, partner, now),
        "payload": console.at("msh_outboundmessage_payload", message.pk, 1),
        "cancel queue": console.at("msh_outboundlink_cancel_queue", partner.link.pk),
        "filtered list": console.at("msh_outboundmessage_changelist") + "?state=in_flight",
        "machine users": console.at("auth_user_changelist") + "?kind=machine",
        **{name: console.at(view) for name, view in VIEWS.items()},
        **{f"list of {name}": console.at(f"{name}_changelist") for name in LISTS},
        **pages_outside_the_admin(console, partner, now),
    }


VIEWS = {
    "new bulk job": "msh_bulkjob_new",
    "business key": "msh_keyrule_add",
    "import": "partners_agreement_import",
    "tokens": "msh_apitoken_changelist",
    "new token": "msh_apitoken_add",
}
LISTS = (
    *("msh_keyrule", "msh_outboundlink", "msh_outboundmessage", "msh_delivery", "msh_incident"),
    *("msh_history", "msh_settingchange", "msh_actrequest"),
    *("partners_partner", "partners_agreement", "partners_route"),
)


def pages_of_rows(console: Console, partner: Pair, now: datetime) -> dict[str, str]:
    partner.receive()
    received = InboundMessage.objects.get(link__partner=partner.partner)
    consumer = Consumer.objects.create(
        name=partner.partner.name, partner=partner.partner, kind="pull", enabled=False
    )
    delivery = Delivery.objects.create(
        consumer=consumer, message=received, state="blocked", attempt=1, started_at=now, detail="no"
    )
    incident = Incident.objects.create(
        partner=partner.partner, direction="in", kind="delivery_failed", opened_at=now, last_at=now
    )
    return {
        "inbound link": console.at("msh_inboundlink_change", received.link_id),
        "inbound message": console.at("msh_inboundmessage_change", received.pk),
        "header": console.at("msh_inboundmessage_header", received.pk),
        "delivery": console.at("msh_delivery_change", delivery.pk),
        "incident": console.at("msh_incident_change", incident.pk),
    }


def pages_of_requests(console: Console, partner: Pair, now: datetime) -> dict[str, str]:
    asked = ActRequest.objects.create(
        verb="reset",
        act="reset_sequence",
        parameters={"partner": partner.partner.pk},
        facts="the next number is 5",
        text="the next message gets number 1 instead of 5.",
        partner=partner.partner,
        direction="out",
        asked_by="operator",
        reason="agreed with the partner",
        until=now + timedelta(hours=1),
    )
    return {
        "request": console.at("msh_actrequest_change", asked.pk),
        "confirm": console.at("msh_actrequest_confirm", asked.pk),
        "asked": console.msh.console,
    }


def pages_outside_the_admin(console: Console, partner: Pair, now: datetime) -> dict[str, str]:
    key = partner.partner.pk
    paths = {
        "partner": f"partner/{key}/",
        "search": "search-all/?q=nothing",
        "sessions": "sessions/",
        "time zone": "time-zone/",
        "statistics": "statistics/",
        "statistics of a partner": f"statistics/?partner={key}&period=90d",
        "report": f"statistics/{key}/{now.year}/{now.month}/",
        "not found": "no/such/page/",
    }
    return {name: console.msh.console + path for name, path in paths.items()}


def save_filters() -> None:
    """One of the user's own, and one that is shared."""
    for name, shared in (("late orders", True), ("mine", False)):
        SavedFilter.objects.update_or_create(
            owner=user_with("Administrator"), of_list="msh_outboundmessage", name=name,
            defaults={"query": f"state={'queued' if shared else 'failed'}", "shared": shared},
        )  # fmt: skip


def count_something(agreement: Agreement, now: datetime) -> None:
    """The statistics have a day, an hour and a suspension of the agreement's partner."""
    StatisticsProgress.objects.update_or_create(pk=1, defaults={"up_to": now})
    partner = agreement.partner
    Suspension.objects.get_or_create(partner=partner, defaults={"began_at": now})
    counts = {"acknowledged": 3, "received": 2, "retries": 1, "in_doubt": 1}
    for unit, of in product(Unit, ((partner, agreement), (None, None))):
        slot, _ = Statistics.objects.get_or_create(
            unit=unit,
            begins=now.replace(hour=0),
            partner=of[0],
            agreement=of[1],
            defaults=counts,
        )
        AcknowledgementTime.objects.get_or_create(slot=slot, bucket=30, defaults={"number": 3})


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_page_is_as_dark_as_the_machine(console: Console, scheme: str) -> None:
    page = console.open("Administrator", color_scheme=scheme)
    expect(page.locator("html.dark")).to_have_count(int(scheme == "dark"))


def test_labels_and_contrast(console: Console, pair: PairFactory) -> None:
    """F15 of the review of the console: landmarks and links that axe-core objected to."""
    partner, message = suspended(pair)
    page = console.open("Administrator")
    found = violations_of_both("dashboard", page)

    for name, row in {
        "message": message,
        "agreement": partner.agreement,
        "agreements form": partner.partner,
        "link": partner.link,
    }.items():
        meta = row._meta
        page.goto(console.at(f"{meta.app_label}_{meta.model_name}_change", row.pk))
        found += violations_of_both(name, page)
    page.goto(console.at("msh_outboundlink_change", partner.link.pk))
    page.get_by_role("link", name="Cancel message in flight").click()
    expect(page.get_by_role("dialog").get_by_label("Reason")).to_be_focused()
    found += violations_of_both("dialog", page)
    for name, address in other_pages(console, partner, message).items():
        page.goto(address)
        found += violations_of_both(name, page)

    assert not found, "\n".join(found)


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
