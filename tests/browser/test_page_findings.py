"""Findings of the review of the console about its pages: each test does what the review did."""

import re

from playwright.sync_api import expect

from msh.models import OutboundMessage
from tests.admin.many import standing_deliveries
from tests.browser.console import Console
from tests.browser.test_actions import page_of
from tests.exchange.pair import PairFactory


def test_navigation_leads_to_people_and_to_what_waits(console: Console, pair: PairFactory) -> None:
    """F6: users had no place in the menu, a partner had no page, and the badge of deliveries opened
    a list that began with completed ones."""
    partner = pair()
    standing_deliveries("parked", 1)
    page = console.open("Administrator")
    navigation = page.get_by_role("navigation")
    navigation.get_by_role("link", name="Partners", exact=True).click()
    expect(navigation.get_by_role("link", name="This MSH", exact=True)).to_be_visible()
    navigation.get_by_role("link", name="Users", exact=True).click()
    for name in ("Roles", "Machine users"):
        expect(navigation.get_by_role("link", name=name, exact=True)).to_be_visible()
    expect(page.get_by_role("link", name="administrator", exact=True)).to_be_visible()

    page.get_by_role("navigation").get_by_role("link", name=re.compile(r"^Deliveries \d")).click()
    states = page.get_by_role("row").filter(has_text="many-")
    expect(states.first).to_be_visible()
    completed = re.compile("completed", re.IGNORECASE)
    expect(page.get_by_role("row").nth(1)).not_to_contain_text(completed)

    page = page_of(console, "Administrator", partner.link)
    page.get_by_role("main").get_by_role("link", name=partner.partner.name, exact=True).click()
    main = page.get_by_role("main")
    for name in ("to the partner", "from the partner", "Outbound messages", "Inbound messages"):
        expect(main.get_by_role("link", name=name)).to_be_visible()
    for name in ("Open incidents", "Agreements", "Credentials"):
        expect(main.get_by_role("heading", name=name)).to_be_visible()
    expect(main.get_by_role("link", name="Settings", exact=True)).to_be_visible()
    main.get_by_role("link", name="test connection").click()
    expect(page.get_by_role("button", name="Test connection")).to_be_visible()


def test_first_message_is_sent_from_the_page_of_the_partner(
    console: Console, pair: PairFactory
) -> None:
    """F7: after a new partner was set up, nothing in the console sent a message to it."""
    partner = pair(acknowledges=True, name="initech")
    page = console.open("Supervisor", f"partner/{partner.partner.pk}/")

    page.get_by_role("link", name="send test message").click()
    page.get_by_label("Reason").fill("its first message")
    page.get_by_role("button", name="Send test message").click()

    expect(page.get_by_text("The message is queued")).to_be_visible()
    message = OutboundMessage.objects.get(link=partner.link)
    page.get_by_role("link", name=message.message_id).first.click()
    partner.wait_for_state(message)
    page.reload()
    expect(page.get_by_role("region", name="Summary")).to_contain_text(
        re.compile("acknowledged", re.IGNORECASE)
    )
    console.picture(page, "console-message")
