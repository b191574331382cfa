"""What failed is submitted again; filters without a mouse; the scopes of a token."""

import re

from django.contrib.auth.models import Group, Permission, User
from django.utils import timezone
from playwright.sync_api import expect

from msh.models import ApiToken, OutboundMessage
from tests.browser.console import Console
from tests.browser.test_access import press
from tests.browser.test_actions import page_of, suspended
from tests.exchange.pair import PairFactory


def test_a_failed_message_is_submitted_again(console: Console, pair: PairFactory) -> None:
    partner, _ = suspended(pair, queued=2)
    failed = list(OutboundMessage.objects.filter(link=partner.link, state="queued"))
    OutboundMessage.objects.filter(pk__in=[one.pk for one in failed]).update(
        state="failed", completed_at=timezone.now()
    )
    page = page_of(console, "Supervisor", failed[0])
    console.picture(page, "failed-message", whole=True)

    page.get_by_role("link", name="Submit again", exact=True).click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Reason").fill("they have repaired it")
    console.picture(page, "submit-again")
    dialog.get_by_role("button", name="Submit again").click()

    expect(page.get_by_text("was submitted again as")).to_be_visible()
    copy = OutboundMessage.objects.get(corrects=failed[0])
    page.get_by_role("link", name=copy.message_id).first.click()
    expect(page.get_by_role("link", name=failed[0].message_id).first).to_be_visible()
    console.picture(page, "copy", whole=True)

    page.goto(console.at("msh_outboundmessage_changelist") + "?state__exact=failed")
    for one in failed:
        page.get_by_role("row").filter(has_text=one.message_id).get_by_role("checkbox").check()
    console.picture(page, "failed-list")
    page.locator("select[name=action]").select_option(label="Submit again")
    page.get_by_role("button", name="Run").click()
    expect(page.get_by_role("heading", name="Submit failed messages again:")).to_be_visible()
    left_out = page.get_by_role("listitem").filter(has_text=failed[0].message_id)
    expect(left_out).to_contain_text("was already submitted instead")
    expect(left_out.get_by_role("checkbox")).not_to_be_checked()
    console.picture(page, "submit-again-preview", whole=True)


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


def test_scopes_of_a_token_are_check_boxes_with_a_sentence_each(console: Console) -> None:
    group, _ = Group.objects.get_or_create(name="Tokenmaker")
    named = ("add_apitoken", "view_apitoken", "add_user", "submit_outboundmessage")
    group.permissions.set(Permission.objects.filter(codename__in=named))
    page = console.open("Tokenmaker", "msh/apitoken/add/")
    boxes = page.get_by_role("group", name="Scopes").get_by_role("checkbox")
    expect(boxes).to_have_count(2)  # send and operate: others it may not give
    console.picture(page, "token", whole=True)
    page.locator("input[name=name]").fill("shop")
    page.get_by_role("checkbox", name=re.compile("^send: ")).check()
    page.locator("textarea[name=reason]").fill("for the shop")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_text("Copy it now: it is not shown again.")).to_be_visible()
    assert ApiToken.objects.get(name="shop").scopes == ["send"]
    User.objects.filter(username="shop").delete()
