"""Findings of the review of the console about its pages: each test does what the review did."""

import re

from django.utils import timezone
from playwright.sync_api import expect

from msh.models import Incident, OutboundMessage
from msh.protocol.kinds import IncidentKind
from msh.store import incidents
from tests.admin.many import standing_deliveries
from tests.browser.console import TELEPHONE, Console
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


def test_a_telephone_shows_whose_page_it_is(console: Console, pair: PairFactory) -> None:
    """F20: the name of the partner was in the last line of a page of 2,836 pixels."""
    partner, delivery = pair(), standing_deliveries("parked", 1)
    names = {
        partner.link: partner.partner.name,
        delivery: delivery.message.link.partner.name,
    }
    for row, name in names.items():
        page = page_of(console, "Viewer", row, viewport=TELEPHONE)
        main = page.get_by_role("main")
        expect(main.get_by_role("link", name=name, exact=True).first).to_be_in_viewport()


def test_what_leads_to_another_page_has_one_colour(console: Console, pair: PairFactory) -> None:
    """F16: the link of the row itself was black, that of its partner purple."""
    partner = pair(acknowledges=True)
    partner.submit()
    standing_deliveries("parked", 1)
    what = (partner.partner.pk, "in", IncidentKind.BACKLOG, "m-1", "so many wait")
    incidents.open_now(*what)
    Incident.objects.filter(partner=partner.partner).update(resolved_at=timezone.now())
    colours = set()
    page = console.open("Viewer")
    for model in ("outboundlink", "outboundmessage", "inboundmessage", "delivery", "incident"):
        page.goto(console.at(f"msh_{model}_changelist"))
        links = page.locator("#result_list tbody a:not(.msh-action)")
        expect(links.first).to_be_visible()
        colours |= set(links.evaluate_all("all => all.map(one => getComputedStyle(one).color)"))
    page.goto(console.at("msh_outboundlink_change", partner.link.pk))
    name = page.get_by_role("main").get_by_role("link", name=partner.partner.name, exact=True)
    colours.add(name.first.evaluate("one => getComputedStyle(one).color"))
    assert len(colours) == 1
