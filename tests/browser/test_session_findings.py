"""Findings of the review of the console about errors and log-ins: each test does what it did."""

from django.contrib.auth.models import User
from playwright.sync_api import Page, expect

from msh.protocol.lane import LaneState
from tests.browser.console import Console, user_with
from tests.browser.test_actions import suspended
from tests.exchange.pair import PairFactory

WHY = "agreed with Zoë & Co. by telephone"
PASSWORD = "a long enough secret"


def person(name: str) -> User:
    """Somebody with a password and the role Operator, who has not logged in yet."""
    user, _ = User.objects.get_or_create(username=name, defaults={"is_staff": True})
    user.set_password(PASSWORD)
    user.save(update_fields=["password"])
    user.groups.set(user_with("Operator").groups.all())
    return user


def log_in(page: Page, name: str, password: str = PASSWORD) -> None:
    page.get_by_label("Username").fill(name)
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name="Log in").click()


def anonymous(console: Console) -> Page:
    """The log-in page of somebody whose browser has no session."""
    page = console.open("Viewer")
    page.context.clear_cookies()
    page.goto(console.msh.console)
    return page


def test_console_says_that_the_database_is_away_and_comes_back(console: Console) -> None:
    """F5: "Server Error (500)", black on white, with no way back."""
    page = console.open("Operator")
    console.msh.cut_database()
    try:
        page.goto(console.at("msh_outboundlink_changelist"))
        expect(page.get_by_role("heading", name="The database does not answer")).to_be_visible()
        expect(page.get_by_text("No message is lost")).to_be_visible()
        expect(page.get_by_role("link", name="Health of this MSH")).to_be_visible()
    finally:
        console.msh.unlock_database()
    expect(page.get_by_role("heading", level=1)).to_contain_text("Links to partners")


def test_reason_survives_a_log_in_in_a_second_tab(console: Console, pair: PairFactory) -> None:
    """F5: a new log-in changes the token of open forms, and the typed reason was lost."""
    partner, _ = suspended(pair, queued=0)
    dialog = console.at("msh_outboundlink_resume", partner.link.pk)
    person("ann")
    page = anonymous(console)
    log_in(page, "ann")
    page.goto(dialog)
    page.get_by_label("Reason").fill(WHY)

    second = page.context.new_page()
    page.context.clear_cookies()
    second.goto(console.msh.console)
    log_in(second, "ann")
    expect(second.get_by_role("heading", name="Dashboard")).to_be_visible()
    page.get_by_role("button", name="Resume sending").click()

    expect(page.get_by_text("Nothing was done")).to_be_visible()
    expect(page.get_by_label("Reason")).to_have_value(WHY)
    assert partner.link.state == LaneState.SUSPENDED
    page.get_by_role("button", name="Resume sending").click()
    expect(page.get_by_text("resumed. Message 1 is sent again")).to_be_visible()
