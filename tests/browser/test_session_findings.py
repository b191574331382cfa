"""Findings of the review of the console about errors, search, time and sessions: each test does
what the review did."""

import re
from datetime import UTC, datetime

from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from playwright.sync_api import Page, expect

from msh.models import OutboundMessage
from msh.protocol.lane import LaneState
from tests.browser.console import Console, user_with
from tests.browser.test_actions import suspended, waiting
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


def test_reason_survives_the_end_of_the_session(console: Console, pair: PairFactory) -> None:
    """F5: after the log-in the form was empty."""
    partner, _ = suspended(pair, queued=0)
    person("ben")
    page = anonymous(console)
    log_in(page, "ben")
    page.goto(console.at("msh_outboundlink_resume", partner.link.pk))
    page.get_by_label("Reason").fill(WHY)
    for cookie in page.context.cookies():
        Session.objects.filter(pk=cookie.get("value", "")).delete()

    page.get_by_role("button", name="Resume sending").click()
    log_in(page, "ben")

    expect(page.get_by_label("Reason")).to_have_value(WHY)
    assert partner.link.state == LaneState.SUSPENDED


def test_lockout_says_until_when_and_is_in_the_audit_log(console: Console) -> None:
    """F5: one sentence without a page. F18: refused log-ins were nowhere to be seen."""
    person("eve")
    page = anonymous(console)
    for _ in range(5):
        log_in(page, "eve", "guessed")
        expect(page.get_by_role("heading").or_(page.get_by_role("alert")).first).to_be_visible()

    expect(page.get_by_role("heading", name="Log-in locked")).to_be_visible()
    expect(page.get_by_text("15 minutes")).to_be_visible()
    page.get_by_role("link", name="Log in").click()
    expect(page.get_by_label("Username")).to_be_visible()
    page = console.open("Administrator", "msh/settingchange/")
    rows = page.get_by_role("row").filter(has_text="eve")
    expect(rows.filter(has_text="locked")).to_have_count(1)
    expect(rows.filter(has_text="refused")).to_have_count(4)


def test_search_finds_in_every_direction_and_says_what_it_searched(
    console: Console, pair: PairFactory
) -> None:
    """F16: one had to know the direction, and an empty list spoke of creating a new item."""
    partner, message = waiting(pair)
    partner.receive()
    received = partner.partner.inbound_link.messages.get()
    page = console.open("Operator")
    search_for(page, message.message_id)
    expect(page).to_have_title(re.compile(f"^Outbound message {message.message_id}"))
    search_for(page, received.message_id)
    found = page.get_by_role("region", name="Inbound messages")
    expect(found.get_by_role("link", name=received.message_id)).to_be_visible()

    mistyped = message.message_id[:-2]
    search_for(page, mistyped)
    expect(page.get_by_role("paragraph").filter(has_text=mistyped)).to_be_visible()
    expect(page.get_by_role("main").get_by_role("link", name=mistyped)).to_have_count(0)
    expect(page.get_by_text("parts of a MessageId")).to_be_visible()
    for name in ("msh_outboundmessage", "msh_delivery", "msh_incident"):
        page.goto(console.at(f"{name}_changelist") + f"?q={mistyped}")
        main = page.get_by_role("main")
        expect(main.get_by_role("heading", name=re.compile(r"^No .* found"))).to_be_visible()
        expect(main).not_to_contain_text("Create a new item")
        expect(main).not_to_contain_text("yielded")
        expect(main.get_by_role("link", name="Search everything")).to_be_visible()


def search_for(page: Page, what: str) -> None:
    page.get_by_role("navigation").get_by_role("searchbox").fill(what)
    page.keyboard.press("Enter")


def test_times_are_shown_in_the_zone_of_the_user(console: Console, pair: PairFactory) -> None:
    """F17: pages showed and read UTC alone."""
    partner, message = waiting(pair)
    noon = datetime(2026, 6, 1, 12, 0, tzinfo=UTC)
    OutboundMessage.objects.filter(pk=message.pk).update(submitted_at=noon)
    person("sue")
    page = anonymous(console)
    log_in(page, "sue")
    page.goto(console.msh.console + "time-zone/")
    page.get_by_role("combobox", name="Time zone").select_option("Europe/Madrid")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("Times are shown in Europe/Madrid")).to_be_visible()

    page.goto(console.at("msh_outboundmessage_change", message.pk))

    submitted = page.get_by_role("time").filter(has_text="2026-06-01 14:00:00 CEST").first
    expect(submitted).to_be_visible()
    expect(submitted).to_have_attribute("title", re.compile("^2026-06-01 12:00:00"))
    found = f"?q={message.message_id}&since=2026-06-01+"
    page.goto(console.at("msh_outboundmessage_changelist") + found + "13:59")
    expect(page.get_by_role("link", name=message.message_id)).to_be_visible()
    page.goto(console.at("msh_outboundmessage_changelist") + found + "14:01")
    expect(page.get_by_role("heading", name="No outbound messages found")).to_be_visible()
    assert partner.link.in_flight_id == message.pk


def test_sessions_are_listed_ended_and_have_a_limit(console: Console) -> None:
    """F18: two weeks without an idle limit, no list, and no log of log-ins and log-outs."""
    person("ian")
    page = anonymous(console)
    log_in(page, "ian")
    expect(page.get_by_role("heading", name="Dashboard")).to_be_visible()
    (cookie,) = [one for one in page.context.cookies() if "session" in one.get("name", "")]
    assert cookie["expires"] - datetime.now(UTC).timestamp() <= 8 * 3600

    boss = console.open("Administrator", "sessions/")
    expect(boss.get_by_text("A session ends after")).to_contain_text("without activity")
    row = boss.get_by_role("row").filter(has_text="ian")
    expect(row).to_contain_text("127.0.0.1")
    row.get_by_role("button").click()
    expect(boss.get_by_role("row").filter(has_text="ian")).to_have_count(0)

    page.reload()
    expect(page.get_by_label("Username")).to_be_visible()
    boss.goto(console.at("msh_settingchange_changelist"))
    rows = boss.get_by_role("row").filter(has_text="ian")
    expect(rows.filter(has_text="logged in")).to_have_count(1)
    expect(rows.filter(has_text="session ended")).to_have_count(1)
    answer = page.goto(console.msh.console)
    assert answer is not None
    assert "default-src" in answer.headers["content-security-policy"]
