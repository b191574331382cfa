"""Findings of the review of the console about its pages: each test does what the review did."""

import re

from playwright.sync_api import expect

from msh.models import Incident, OutboundMessage
from msh.protocol.lane import LaneState
from partners.models import Partner
from tests.admin.many import standing_deliveries
from tests.browser.console import Console
from tests.browser.test_actions import page_of, suspended
from tests.exchange.pair import PairFactory
from tests.peer import status

CHINESE = "上海国际贸易有限公司"


def test_navigation_leads_to_people_and_to_what_waits(console: Console, pair: PairFactory) -> None:
    """F6: users had no place in the menu, a partner had no page, and the badge of deliveries opened
    a list that began with completed ones."""
    partner = pair()
    standing_deliveries("parked", 1)
    page = console.open("Administrator")
    navigation = page.get_by_role("navigation")
    for name in ("Users", "Roles", "Machine users", "This MSH"):
        expect(navigation.get_by_role("link", name=name, exact=True)).to_be_attached()
    navigation.get_by_role("link", name="Users", exact=True).click()
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


def test_partner_has_a_name_in_any_script_and_a_telephone(
    console: Console, pair: PairFactory
) -> None:
    """F8: a name outside ASCII was refused with 'Enter a valid "slug"', and nobody could be rung
    up."""
    partner = pair()
    page = page_of(console, "Administrator", partner.partner)
    name = page.get_by_role("textbox", name="Name", exact=False).first
    name.fill(CHINESE)
    page.get_by_label("Reason").fill("as they write it")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_text("Letters a-z, digits, - and _ only").first).to_be_visible()
    expect(page.get_by_role("main")).not_to_contain_text("slug")

    name.fill(partner.partner.name)
    page.get_by_label("Display name").fill(CHINESE)
    page.get_by_label("Contact").first.fill("Zürich Käse AG, on call")
    page.get_by_label("Phone").fill("+41 44 000 00 00")
    page.get_by_label("Reason").fill("as they write it")
    page.get_by_role("button", name="Save", exact=True).click()

    expect(page.get_by_text("changed successfully")).to_be_visible()
    assert Partner.objects.get(pk=partner.partner.pk).display_name == CHINESE
    page = page_of(console, "Operator", partner.link)
    expect(page.get_by_role("heading", name=CHINESE)).to_be_visible()
    expect(page.get_by_text("+41 44 000 00 00").first).to_be_visible()
    page.goto(console.msh.console)
    health = page.get_by_role("region", name="Partner health")
    expect(health.get_by_role("link", name=re.compile(CHINESE))).to_be_visible()


def test_message_tells_its_story_in_sentences_and_each_attempt_once(
    console: Console, pair: PairFactory
) -> None:
    """F9: names of classes, each failed attempt twice, and no word about what blocks it."""
    partner = pair(timeout=1, retries=1, retry_interval=1)
    partner.peer.always(status(401))
    message = partner.submit()
    partner.wait_for_link(LaneState.SUSPENDED)
    page = page_of(console, "Operator", message)

    summary = page.get_by_role("region", name="Summary")
    expect(summary).to_contain_text("The partner refuses our credentials")
    expect(summary).to_contain_text("Replace our credentials")
    expect(summary.get_by_role("link", name="Resume sending")).to_be_visible()
    expect(summary.get_by_role("definition").filter(has_text=re.compile("^-?$"))).to_have_count(0)
    story = page.get_by_role("region", name="Timeline")
    expect(story).to_be_in_viewport()
    expect(story.get_by_role("row").filter(has_text="401 Unauthorized")).to_have_count(2)
    expect(story.get_by_role("row").filter(has_text="Copy 2 sent")).to_have_count(1)
    expect(story.get_by_role("row").filter(has_text="warned")).to_have_count(1)
    names = re.compile(r"\b([A-Z][a-z]+){2,}\b|[a-z]+_[a-z]+|[A-Z]+_[A-Z]+")
    cells = story.get_by_role("cell").all_inner_texts()
    assert [text for text in cells if names.search(text)] == []


def test_delivery_in_doubt_says_what_waits_and_how_to_decide(console: Console) -> None:
    """F10: "attempt 1 did not end" was all that its page said, beside four equal buttons."""
    delivery = standing_deliveries("in_doubt", 59)
    page = page_of(console, "Operator", delivery)

    summary = page.get_by_role("region", name="Summary")
    expect(summary).to_contain_text(f"Unknown whether consumer {delivery.consumer}")
    expect(summary).to_contain_text("59 messages wait behind it")
    advice = summary.get_by_role("paragraph").filter(has_text="Recommended action")
    expect(advice).to_contain_text(delivery.message.message_id)
    expect(advice).to_contain_text("mark the delivery completed")
    expect(advice).to_contain_text("run the delivery again")
    for fact in ("Partner", "Number", "Attempt"):
        expect(summary.get_by_role("term").filter(has_text=re.compile(f"^{fact}$"))).to_be_visible()
    expect(page.get_by_role("region", name="Timeline")).to_be_visible()


def test_incident_shows_the_last_answer_of_the_partner(console: Console, pair: PairFactory) -> None:
    """F10: it was seen on the page of the link only."""
    partner = pair(timeout=1, retries=0)
    partner.peer.always(status(401))
    partner.submit()
    partner.wait_for_link(LaneState.SUSPENDED)
    page = page_of(console, "Operator", Incident.objects.get(partner=partner.partner))

    summary = page.get_by_role("region", name="Summary")
    expect(summary.get_by_role("definition").filter(has_text="401 Unauthorized")).to_be_visible()
    expect(summary).to_contain_text("Replace our credentials")


def test_verdicts_of_a_cancelled_message_say_what_follows(
    console: Console, pair: PairFactory
) -> None:
    """F11: six sentences, and a list to choose from that said nothing of numbers."""
    partner, _ = suspended(pair, queued=0)
    page = page_of(console, "Supervisor", partner.link)
    page.get_by_role("link", name="Cancel message in flight").click()

    dialog = page.get_by_role("dialog")
    verdicts = dialog.get_by_role("radio")
    expect(verdicts).to_have_count(3)
    for name, follows in {
        "Received": "The next message gets number 2",
        "Not received": "The next message gets number 1",
        "Unknown": "partner must agree",
    }.items():
        verdict = dialog.get_by_role("radio", name=re.compile(f"^{name}:.*{follows}"))
        expect(verdict).not_to_be_checked()
    radio, reason = verdicts.last.bounding_box(), dialog.get_by_label("Reason").bounding_box()
    assert radio is not None
    assert reason is not None
    assert radio["y"] < reason["y"]
