"""Who is called, and when not: the pages of recipients and of maintenance windows."""

from datetime import timedelta

from django.utils import timezone
from playwright.sync_api import Page, expect

from msh.alerts.models import AlertRecipient
from msh.models import MaintenanceWindow
from tests.browser.axe import violations
from tests.browser.console import Console
from tests.browser.test_actions import page_of
from tests.exchange.pair import PairFactory
from tests.peer import Peer

DARK = {"color_scheme": "dark"}


def check(console: Console, page: Page, name: str) -> None:
    console.picture(page, name, whole=True)
    assert violations(name, page) == []


def add_recipient(console: Console, page: Page, hook: Peer) -> AlertRecipient:
    page.locator("#id_name").fill("night shift")
    page.locator("#id_channel").select_option("slack")
    page.locator("#id_url").fill(hook.address)
    page.locator("#id_wait").fill("15")
    page.get_by_label("Quiet from").fill("22:00")
    page.get_by_label("Quiet until").fill("07:00")
    page.get_by_role("group", name="Quiet all day on").get_by_label("Sun").check()
    page.get_by_label("Time zone").select_option("Europe/Amsterdam")
    page.get_by_label("Reason").fill("new team")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_role("link", name="night shift").first).to_be_visible()
    return AlertRecipient.objects.get(name="night shift")


def test_recipient_is_added_and_called_as_a_test(console: Console) -> None:
    page = console.open("Administrator", "msh/alertrecipient/add/", **DARK)
    check(console, page, "alert-form")
    with Peer() as hook:
        made = add_recipient(console, page, hook)
        check(console, page, "alerts")
        page.goto(console.at("msh_alertrecipient_change", made.pk))
        page.get_by_role("link", name="Send a test call").click()
        page.get_by_role("button", name="Send a test call").click()
        expect(page.get_by_text("204 No Content")).to_be_visible()
        check(console, page, "test-call")
    made.delete()


def test_maintenance_is_planned_in_24_hours(console: Console, pair: PairFactory) -> None:
    partner = pair()
    page = page_of(console, "Operator", partner.link)
    page.get_by_role("link", name="Plan maintenance").click()
    dialog = page.get_by_role("dialog")
    begin, end = (timezone.now() + timedelta(hours=one) for one in (1, 3))
    dialog.get_by_label("Suspend from").fill(f"{begin:%Y-%m-%d %H:%M}")
    dialog.get_by_label("or resume at").fill(f"{end:%Y-%m-%d %H:%M}")
    dialog.get_by_label("Reason").fill("their release 7")
    check(console, page, "maintenance-dialog")
    dialog.get_by_role("button", name="Plan maintenance").click()
    expect(page.get_by_text("maintenance is planned from")).to_be_visible()
    check(console, page, "maintenance-link")
    page.goto(console.at("msh_maintenancewindow_changelist"))
    check(console, page, "maintenance-list")
    window = MaintenanceWindow.objects.get(partner=partner.partner)
    page.goto(console.at("msh_maintenancewindow_change", window.pk))
    check(console, page, "maintenance-window")
