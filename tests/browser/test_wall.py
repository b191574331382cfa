"""The wall needs no hand: it stays true by itself, says when it cannot, and turns its pages."""

import re
from datetime import UTC, datetime, timedelta

import pytest
from django.contrib.sessions.models import Session
from playwright.sync_api import Page, ViewportSize, expect

from msh.protocol.kinds import IncidentKind
from msh.store import incidents
from tests.browser.axe import COLOURS, violations
from tests.browser.console import SCHEMES, Console, session_of, show_in, user_with
from tests.exchange.pair import Pair, PairFactory

SCREEN: ViewportSize = {"width": 1920, "height": 1080}
REFRESH = 10_000  # milliseconds
SEVERAL = (
    *(IncidentKind.BACKLOG, IncidentKind.NO_CONSUMER, IncidentKind.SEQUENCE_GAP),
    *(IncidentKind.SEQUENCE_CONFLICT, IncidentKind.RESET_HELD, IncidentKind.MESSAGE_ID_REUSED),
)

SHOWN = """() => {
    const list = document.getElementById("wall-rows");
    const rows = [...list.children].filter((row) => !row.hidden);
    const bottom = (one) => one.getBoundingClientRect().bottom;
    return [bottom(list), rows.map((row) => ({bottom: bottom(row), text: row.innerText}))];
}"""
"""Where the list ends, and where each of the rows that it shows."""


def hung_up(console: Console) -> Page:
    """The wall in a browser whose clock the test moves on."""
    page = console.open("Viewer", "wall/", viewport=SCREEN)
    page.clock.install()
    page.reload()
    return page


def trouble(partner: Pair, kind: IncidentKind = IncidentKind.BACKLOG) -> None:
    incidents.open_now(partner.partner.pk, "in", kind, "m-1", "so many wait")


def test_the_wall_shows_what_happens(console: Console, pair: PairFactory) -> None:
    page = hung_up(console)
    partner = pair()
    trouble(partner)
    expect(page.get_by_text(partner.partner.name)).to_be_hidden()
    page.clock.fast_forward(REFRESH)
    expect(page.locator("#wall-rows").get_by_text(partner.partner.name)).to_have_count(1)
    expect(page).to_have_title(re.compile(r"^\(\d+\) Wall \| MSH console$"))
    expect(page.locator("#nav-sidebar")).to_have_count(0)


def test_the_wall_says_since_when_it_is_not_live_and_goes_on(
    console: Console, pair: PairFactory
) -> None:
    page = hung_up(console)
    warning = page.locator("[data-stale]")
    expect(warning).to_be_hidden()

    page.context.set_offline(True)
    page.clock.fast_forward(REFRESH)
    expect(warning).to_have_text(
        re.compile(r"^Connection lost; .* Not live since \d\d:\d\d:\d\d\. Retrying")
    )

    page.context.set_offline(False)
    page.route("**/wall/", lambda route: route.fulfill(status=502, body="starting"))
    page.clock.fast_forward(REFRESH)
    expect(warning).to_contain_text("The MSH answers 502")

    page.unroute("**/wall/")
    trouble(partner := pair())
    page.clock.fast_forward(REFRESH)
    expect(warning).to_be_hidden()
    expect(page.locator("#wall-rows").get_by_text(partner.partner.name)).to_have_count(1)


def test_the_wall_says_that_its_session_ended_and_goes_on(console: Console) -> None:
    page = hung_up(console)
    warning = page.locator("[data-stale]")
    Session.objects.all().delete()
    page.clock.fast_forward(REFRESH)
    expect(warning).to_have_text(
        re.compile(r"^The session has ended: log in again\. Not live since \d\d:\d\d:\d\d")
    )
    expect(page.locator("#wall")).to_be_visible()

    (cookie,) = [one for one in page.context.cookies() if "session" in one.get("name", "")]
    cookie["value"] = session_of(user_with("Viewer"))
    page.context.add_cookies([cookie])  # type: ignore[list-item]
    page.clock.fast_forward(REFRESH)
    expect(warning).to_be_hidden()


def test_the_wall_turns_its_pages(console: Console, pair: PairFactory) -> None:
    """What does not fit is shown after a while, and each row once in a round."""
    partner = pair()
    for kind in SEVERAL:
        trouble(partner, kind)
    page = hung_up(console)
    # Each refresh answers the same: other tests' incidents open and end in the middle of a round.
    answer = page.request.get(page.url)
    page.route("**/wall/", lambda route: route.fulfill(response=answer))
    page.reload()
    page.clock.pause_at(datetime.now(UTC) + timedelta(hours=1))
    page.set_viewport_size({"width": 1920, "height": 620})
    rows, said = page.locator("#wall-rows > li"), page.locator("#wall-page")
    expect(said).to_have_text(re.compile(r"page \d of \d"))
    count, pages = rows.count(), int((said.text_content() or "").split()[-1])
    assert pages > 1
    seen: list[str] = []
    for _ in range(pages):
        # In one step of the browser: between two the list may be replaced by a refresh.
        bottom, shown = page.evaluate(SHOWN)
        assert all(one["bottom"] <= bottom + 1 for one in shown)
        seen += [one["text"] for one in shown]
        before = said.text_content() or ""
        page.clock.run_for(REFRESH)
        expect(said).not_to_have_text(before)
    assert len(seen) == count


@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_wall_can_be_read_from_a_distance(
    console: Console, pair: PairFactory, scheme: str
) -> None:
    trouble(pair())
    page = console.open("Viewer", f"wall/?theme={scheme}", viewport=SCREEN)
    expect(page.locator("html")).to_have_class(re.compile("dark" if scheme == "dark" else "light"))
    console.picture(page, f"console-wall-{scheme}")
    size = page.locator("#wall-rows strong").first.evaluate(
        "one => parseFloat(getComputedStyle(one).fontSize)"
    )
    assert size >= 28
    assert page.evaluate("document.documentElement.scrollHeight <= window.innerHeight")
    show_in("dark" if scheme == "dark" else "light", page)
    found = violations("wall", page)
    assert not found + violations("wall", page, COLOURS), "\n".join(found)
