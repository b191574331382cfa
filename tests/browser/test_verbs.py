"""Each verb as an operator uses it, by its dialog; and a Viewer, who may not."""

from playwright.sync_api import expect

from tests.browser.console import Console
from tests.exchange.pair import PairFactory


def test_a_dialog_says_what_it_does_and_does_it_on_its_button_only(
    console: Console, pair: PairFactory
) -> None:
    partner = pair()
    page = console.open("Operator", f"msh/outboundlink/{partner.link.pk}/change/")

    page.get_by_role("link", name="Suspend").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_text("Nothing more is sent to")).to_be_visible()
    dialog.get_by_role("link", name="Do nothing").click()
    expect(dialog).to_be_hidden()
    assert partner.link.state == "idle"

    page.get_by_role("link", name="Suspend").click()
    dialog.get_by_label("Reason").fill("their data centre moves")
    dialog.get_by_role("button", name="Suspend").click()

    expect(page.get_by_text("The link is suspended now.")).to_be_visible()
    assert partner.link.suspended_detail == "their data centre moves"
