"""What is sent once is sent once, and what was typed is kept."""

from playwright.sync_api import Route, expect

from msh.admin.setup.partner import AUTHENTICATION
from msh.models import Consumer
from tests.browser.console import Console
from tests.browser.test_actions import waiting
from tests.exchange.pair import PairFactory


def test_a_form_is_sent_by_the_first_click_alone(console: Console, pair: PairFactory) -> None:
    partner, _ = waiting(pair)
    dialog = console.at("msh_outboundlink_send_now", partner.link.pk)
    page = console.open("Operator")
    page.goto(dialog)
    page.get_by_label("Reason").fill("they wait for it")
    sent: list[Route] = []

    def stay_here(route: Route) -> None:
        sent.append(route)
        route.fulfill(status=204)

    page.route(dialog, stay_here)
    button = page.get_by_role("button", name="Send now")

    button.dblclick()
    expect(button).to_be_disabled()
    assert len(sent) == 1

    page.evaluate("window.dispatchEvent(new Event('pageshow'))")  # as after the back button
    expect(button).to_be_enabled()


def test_settings_opened_by_advice_are_not_changed_by_a_key(
    console: Console, pair: PairFactory
) -> None:
    """Keys that scroll a page select another entry of a list that has the focus."""
    settings = console.at("partners_partner_change", pair().partner.pk)
    page = console.open("Administrator")
    page.goto(f"{settings}#{AUTHENTICATION}")
    kind = page.get_by_label("Our credential")
    expect(kind).to_be_in_viewport()
    before = kind.input_value()

    for key in ("End", "Home", "ArrowDown", "ArrowDown", "b"):
        page.keyboard.press(key)

    assert kind.input_value() == before
    page.keyboard.press("Tab")
    expect(kind).to_be_focused()


def test_a_form_is_not_sent_without_a_reason_and_keeps_what_was_typed(console: Console) -> None:
    consumer = Consumer.objects.create(
        name="typed", service_interface="typed", kind="http", url="http://127.0.0.1:1/"
    )
    page = console.open("Administrator")
    page.goto(console.at("msh_consumer_change", consumer.pk))
    reason = page.get_by_label("Reason")
    expect(reason).to_be_in_viewport()
    page.get_by_label("Authorization").fill("Bearer by-telephone")
    page.get_by_role("button", name="Save", exact=True).click()

    expect(reason).to_be_focused()
    expect(page.get_by_label("Authorization")).to_have_value("Bearer by-telephone")
    reason.fill("their new key")
    page.get_by_role("button", name="Save", exact=True).click()
    said = page.locator(".msh-messages a")
    expect(said).to_have_text("typed")
    expect(said).to_have_css("text-decoration-line", "underline")
    consumer.refresh_from_db()
    assert consumer.authorization() == "Bearer by-telephone"
