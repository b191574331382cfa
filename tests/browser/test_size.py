"""The console over a slow line: what a visit transfers."""

import pytest
from playwright.sync_api import Page, expect

from tests.browser.console import Console
from tests.browser.test_actions import suspended
from tests.exchange.pair import PairFactory

FIRST, LATER = 300 * 1024, 60 * 1024  # bytes


def transferred(page: Page, address: str) -> int:
    """Bytes over the wire of a visit, headers too, until nothing more is asked for."""
    network = page.context.new_cdp_session(page)
    network.send("Network.enable")
    sizes: list[float] = []
    network.on("Network.loadingFinished", lambda event: sizes.append(event["encodedDataLength"]))
    page.goto(address, wait_until="networkidle")
    network.detach()
    return round(sum(sizes))


@pytest.mark.parametrize("what", ["dashboard", "link"])
def test_a_visit_transfers_little(console: Console, pair: PairFactory, what: str) -> None:
    """F14 of the review of the console: 1.4 to 2.2 MB, nothing compressed, nothing kept."""
    partner, _ = suspended(pair)
    link = console.at("msh_outboundlink_change", partner.link.pk)
    address = {"dashboard": console.msh.console, "link": link}[what]
    page = console.open("Supervisor", "../health/live")  # has no files of the console

    first = transferred(page, address)
    expect(page.get_by_role("main")).to_be_visible()
    later = transferred(page, address)

    assert 0 < later <= LATER
    assert later < first <= FIRST, "what is not compressed, not kept, or not needed?"
