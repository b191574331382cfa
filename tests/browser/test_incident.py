"""The main incident, from the partner that is down to the queue that has run off in order."""

import re

import pytest
from playwright.sync_api import Page, expect

from msh.models import History, OutboundMessage
from msh.protocol.lane import LaneState
from tests.browser.console import Console
from tests.browser.test_dashboard import trouble
from tests.exchange.pair import Pair, PairFactory
from tests.peer import status
from tests.peer.mailbox import Mailbox
from tests.statistics.happenings import collect_all
from tests.waiting import wait_until

PARTNER_MENDED = "their gateway is up again"


@pytest.mark.requirement("000-030", "000-033")
def test_suspended_partner_is_resumed_in_two_clicks(
    console: Console, pair: PairFactory, operators: Mailbox
) -> None:
    traffic(pair(acknowledges=True, name="globex"), 12)
    partner = pair(retries=1, name="acme")
    partner.peer.always(status(503, headers={"X-MSH-Error": "down for maintenance"}))
    messages = [partner.submit(f"<Order n='{number}'/>".encode()) for number in (1, 2, 3)]
    before = partner.wait_for_copies(messages[0], 2)
    partner.wait_for_link(LaneState.SUSPENDED)
    wait_until(lambda: _called(operators, partner), what="a mail to the operators")

    page = console.open("Operator")
    _see_the_trouble_on_the_dashboard(page, partner, messages[0])
    console.picture(page, "console-dashboard", whole=True)
    trouble(page, partner).get_by_role("link", name=partner.partner.name).click()
    _see_it_on_the_page_of_the_link(page, messages[0])
    console.picture(page, "console-link")
    console.picture_of_telephone(page, "console-outboundlink-dark-390")

    partner.peer.always(status(204))
    partner.peer.acknowledges = True
    page.get_by_role("link", name="Resume sending").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("Message 1 is sent to")
    expect(dialog).to_contain_text("the same bytes, number and MessageId")
    dialog.get_by_label("Reason").fill(PARTNER_MENDED)
    console.picture(page, "console-dialog")
    dialog.get_by_role("button", name="Resume sending").click()
    expect(page.get_by_text("resumed. Message 1 is sent again")).to_be_visible()

    for message in messages:
        partner.wait_for_state(message)
    copies = partner.wait_for_copies(messages[0], 3)
    assert {copy.body for copy in copies} == {before[0].body}
    assert _order_of_arrival(partner, messages) == [message.message_id for message in messages]
    assert partner.incidents() == []
    act = History.objects.get(partner=partner.partner, event="OperatorResumed")
    assert act.actor == "operator"
    assert act.detail.endswith(f"→ 0; {PARTNER_MENDED}")
    page.goto(console.msh.console)
    expect(trouble(page, partner)).to_have_count(0)


def traffic(partner: Pair, count: int) -> None:
    """Messages of another partner go through, so that the dashboard is not empty."""
    messages = [partner.submit() for _ in range(count)]
    partner.wait_for_state(messages[-1])
    collect_all()


def _called(operators: Mailbox, partner: Pair) -> bool:
    """The mail names the partner, what has happened and what the partner says."""
    mails = [transaction.mail.decode() for transaction in operators.transactions]
    words = (partner.partner.name, "retries spent", "down for maintenance")
    return any(all(word in mail for word in words) for mail in mails)


def _see_the_trouble_on_the_dashboard(page: Page, partner: Pair, first: OutboundMessage) -> None:
    line = trouble(page, partner)
    expect(line).to_contain_text("The partner's MSH is not available")
    expect(line).to_contain_text("down for maintenance")
    expect(line.get_by_role("link", name="message 1")).to_have_attribute("title", first.message_id)
    expect(line.get_by_role("cell", name=re.compile(r"^2( Queue|$)"))).to_be_visible()


def _see_it_on_the_page_of_the_link(page: Page, first: OutboundMessage) -> None:
    expect(page.get_by_text("Message 1 blocks the queue.")).to_be_visible()
    expect(page.get_by_text("2 attempts, 1 of 1 retries used")).to_be_visible()
    expect(page.get_by_text("down for maintenance").first).to_be_visible()
    expect(page.get_by_role("link", name=first.message_id)).to_be_visible()


def _order_of_arrival(partner: Pair, messages: list[OutboundMessage]) -> list[str]:
    """MessageIds as they came to the peer, each where it came first."""
    ours = {message.message_id for message in messages}
    came = [one.message.message_id for one in partner.peer.received.normals()]
    return [message_id for message_id in dict.fromkeys(came) if message_id in ours]
