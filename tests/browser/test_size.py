"""The console over a slow line, and on a telephone: what a visit transfers, what a page needs of
width."""

from typing import Any

import pytest
from playwright.sync_api import Browser, Page, ViewportSize, expect

from tests.browser.console import SCHEMES, Console, show_in
from tests.browser.test_access import other_pages
from tests.browser.test_actions import suspended
from tests.exchange.pair import PairFactory

FIRST, LATER = 300 * 1024, 60 * 1024  # bytes
TELEPHONE: ViewportSize = {"width": 390, "height": 844}

# Each element that is cut off, or that makes the page wider than the window: what is in a container
# that scrolls by itself does neither.
_TOO_WIDE = """() => {
    const width = document.documentElement.clientWidth;
    const fits = element => {
        for (let at = element.parentElement; at; at = at.parentElement) {
            const style = getComputedStyle(at);
            const box = at.getBoundingClientRect();
            if (["auto", "scroll"].includes(style.overflowX) && box.right <= width + 1
                && at !== document.documentElement && at !== document.body) return true;
            if (style.textOverflow === "ellipsis" && style.overflowX === "hidden") return true;
            if (style.position === "fixed" && style.visibility === "hidden") return true;
        }
        return false;
    };
    const found = [...document.body.querySelectorAll("*")].filter(element => {
        const box = element.getBoundingClientRect();
        return box.width > 1 && box.height > 1 && box.right > width + 1 && box.left < width * 3
            && element.checkVisibility({visibilityProperty: true, opacityProperty: true})
            && !fits(element);
    }).map(element => `${element.tagName} .${element.getAttribute("class")} to `
        + `${Math.round(element.getBoundingClientRect().right)} of ${width}: `
        + element.textContent.trim().replace(/\\s+/g, " ").slice(0, 60));
    if (document.documentElement.scrollWidth > width + 1)
        found.unshift(`the document is ${document.documentElement.scrollWidth} wide`);
    return found.slice(0, 5);
}"""


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


WIDE = "<p style='width: 800px'>wide</p>"


@pytest.mark.parametrize(
    ("content", "is_found"),
    [
        (WIDE, True),
        (f"<div style='overflow: hidden'>{WIDE}</div>", True),
        (f"<div style='overflow-x: auto'>{WIDE}</div>", False),
        ("<p>narrow</p>", False),
    ],
)
def test_what_is_too_wide_is_found(browser: Browser, content: str, is_found: bool) -> None:
    page = browser.new_page(viewport=TELEPHONE)
    page.set_content(content)
    assert bool(page.evaluate(_TOO_WIDE)) is is_found
    page.close()


def test_no_page_is_wider_than_a_telephone(console: Console, pair: PairFactory) -> None:
    partner, message = suspended(pair)
    page = console.open("Administrator", viewport=TELEPHONE)
    rows = (message, partner.agreement, partner.partner, partner.link)
    pages = {
        "dashboard": console.msh.console,
        **{
            str(row._meta.verbose_name): console.at(
                f"{row._meta.app_label}_{row._meta.model_name}_change", row.pk
            )
            for row in rows
        },
        **other_pages(console, partner, message),
        **{f"list of {name}": console.at(f"{name}_changelist") for name in OTHER_LISTS},
    }
    found: list[Any] = []
    for name, address in pages.items():
        page.goto(address)
        for scheme in SCHEMES:
            show_in(scheme, page)
            found += [f"{name}, {scheme}: {one}" for one in page.evaluate(_TOO_WIDE)]

    assert not found, "\n".join(found)


OTHER_LISTS = (
    *("msh_inboundlink", "msh_inboundmessage", "msh_signal", "msh_bulkjob", "msh_operatornotice"),
    *("msh_maintenancewindow", "msh_consumer", "msh_alertrecipient", "msh_apitoken", "auth_user"),
    *("auth_group", "msh_outboundconversation", "msh_inboundconversation"),
    *("django_celery_beat_periodictask", "django_celery_beat_crontabschedule"),
)
