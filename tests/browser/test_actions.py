"""Dialogs as an operator uses them. What each action does, and who may, is in tests/admin."""

from typing import Any

from django.db.models import Model
from playwright.sync_api import Page, expect

from msh.models import OutboundMessage
from msh.protocol.lane import LaneState
from tests.browser.console import Console
from tests.exchange.pair import Pair, PairFactory

LONG = {"timeout": 600, "retries": 3, "retry_interval": 600}
"""Nothing happens by itself while the operator looks."""


def page_of(console: Console, role: str, row: Model, **options: Any) -> Page:
    meta = row._meta
    return console.open(role, f"{meta.app_label}/{meta.model_name}/{row.pk}/change/", **options)


def use(page: Page, action: str, said: str, **fields: str) -> None:
    """Open the dialog of an action, fill it in, send it, and see what was done."""
    page.get_by_role("link", name=action, exact=True).first.click()
    dialog = page.get_by_role("dialog")
    for label, value in {"Reason": "agreed by telephone", **fields}.items():
        if label == "Verdict":
            dialog.locator(f"input[name=verdict][value={value}]").check()
            continue
        dialog.get_by_label(label).fill(value)
    dialog.get_by_role("button", name=action, exact=True).click()
    expect(page.get_by_text(said).first).to_be_visible()


def waiting(pair: PairFactory) -> tuple[Pair, OutboundMessage]:
    """A message that was sent and is not acknowledged."""
    partner = pair(**LONG)
    message = partner.submit()
    partner.wait_for_attempts(message, 1)
    return partner, message


def suspended(pair: PairFactory, queued: int = 1) -> tuple[Pair, OutboundMessage]:
    """The same, suspended, with others behind it."""
    partner, message = waiting(pair)
    for _ in range(queued):
        partner.submit()
    partner.suspend()
    return partner, message


def test_dialog_acts_only_on_its_button(console: Console, pair: PairFactory) -> None:
    partner = pair()
    page = page_of(console, "Operator", partner.link)

    page.get_by_role("link", name="Suspend").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_text("No more messages are sent to")).to_be_visible()
    dialog.get_by_role("button", name="Suspend").click()  # without a reason
    expect(dialog.get_by_label("Reason")).to_be_focused()
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    expect(page.get_by_role("link", name="Suspend")).to_be_focused()
    assert partner.link.state == LaneState.IDLE


def test_cancel_in_flight_with_a_verdict_and_queued_without(
    console: Console, pair: PairFactory
) -> None:
    partner, message = suspended(pair, queued=1)
    queued = OutboundMessage.objects.get(link=partner.link, state="queued")

    page = page_of(console, "Supervisor", queued)
    use(page, "Cancel", "cancelled.")
    page = page_of(console, "Supervisor", partner.link)
    use(page, "Cancel message in flight", "message cancelled", Verdict="received")

    assert partner.state_of(message) == partner.state_of(queued) == "cancelled"
    message.refresh_from_db()
    assert message.outcome == "received"


def test_resynchronise_with_what_the_partner_says(console: Console, pair: PairFactory) -> None:
    """Its MSH is another product: the operator types in what was said on the telephone."""
    partner, message = suspended(pair, queued=0)
    page = page_of(console, "Supervisor", partner.link)

    page.get_by_role("link", name="Resynchronise and resume").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("alert")).to_contain_text("did not report the state of its link")
    expect(dialog.get_by_label("Reason")).to_have_count(0)
    dialog.get_by_label("Last accepted number").fill("1")
    dialog.get_by_label("MessageId of that message").fill(message.message_id)
    dialog.get_by_role("button", name="Compare").click()

    expect(page.get_by_text("no loss, no duplicates.")).to_be_visible()
    console.picture(page, "console-resynchronise")
    page.get_by_label("Reason").fill("agreed by telephone")
    page.get_by_role("button", name="Resynchronise and resume").click()
    expect(page.get_by_text("sequence numbers in sync")).to_be_visible()
    partner.wait_for_state(message)
