"""Each action as an operator uses it, by its dialog; and a Viewer, who may not."""

from typing import Any

import pytest
from django.db.models import Model
from playwright.sync_api import Page, expect

from msh.models import InboundLink, OutboundLink, OutboundMessage
from msh.protocol.lane import LaneState
from tests.browser.console import Console
from tests.exchange.pair import Pair, PairFactory

LINK_ACTIONS = [
    *("suspend", "resume", "send-now", "reset-retries", "cancel", "reset-sequence", "rewind"),
    *("resynchronise", "refuse-submissions", "accept-submissions"),
]
LONG = {"timeout": 600, "retries": 3, "retry_interval": 600}
"""Nothing happens by itself while the operator looks."""


def page_of(console: Console, role: str, row: Model, **options: Any) -> Page:
    meta = row._meta
    return console.open(role, f"{meta.app_label}/{meta.model_name}/{row.pk}/change/", **options)


def use(page: Page, action: str, said: str, **fields: str) -> None:
    """Open the dialog of an action, fill it in, send it, and see what was done."""
    page.get_by_role("link", name=action, exact=True).first.click()
    dialog = page.get_by_role("dialog")
    for label, value in {"Reason": "agreed by telephone", **fields}.items():
        if label == "Verdict":
            dialog.locator(f"input[name=verdict][value={value}]").check()
            continue
        field = dialog.get_by_label(label)
        if field.evaluate("element => element.tagName") == "SELECT":
            field.select_option(value)
        else:
            field.fill(value)
    dialog.get_by_role("button", name=action, exact=True).click()
    expect(page.get_by_text(said).first).to_be_visible()


def waiting(pair: PairFactory) -> tuple[Pair, OutboundMessage]:
    """A message that was sent and is not acknowledged."""
    partner = pair(**LONG)
    message = partner.submit()
    partner.wait_for_attempts(message, 1)
    return partner, message


def suspended(pair: PairFactory, queued: int = 1) -> tuple[Pair, OutboundMessage]:
    """The same, suspended, with others behind it."""
    partner, message = waiting(pair)
    for _ in range(queued):
        partner.submit()
    partner.suspend()
    return partner, message


def inbound(partner: Pair) -> InboundLink:
    return InboundLink.objects.get(partner=partner.partner)


def test_dialog_acts_only_on_its_button(console: Console, pair: PairFactory) -> None:
    partner = pair()
    page = page_of(console, "Operator", partner.link)

    page.get_by_role("link", name="Suspend").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_text("No more messages are sent to")).to_be_visible()
    dialog.get_by_role("button", name="Suspend").click()  # without a reason
    expect(dialog.get_by_label("Reason")).to_be_focused()
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    expect(page.get_by_role("link", name="Suspend")).to_be_focused()
    assert partner.link.state == LaneState.IDLE


def test_send_now_and_reset_retries(console: Console, pair: PairFactory) -> None:
    partner, message = waiting(pair)
    page = page_of(console, "Operator", partner.link)

    use(page, "Send now", "sending the message again now")
    first, second = partner.wait_for_copies(message, 2)
    assert first.body == second.body

    OutboundLink.objects.filter(pk=partner.link.pk).update(retries_spent=1)
    page.reload()
    use(page, "Reset retries", "retry counter reset")
    assert partner.link.retries_spent == 0


def test_cancel_in_flight_with_a_verdict_and_queued_without(
    console: Console, pair: PairFactory
) -> None:
    partner, message = suspended(pair, queued=1)
    queued = OutboundMessage.objects.get(link=partner.link, state="queued")

    page = page_of(console, "Supervisor", queued)
    use(page, "Cancel", "cancelled.")
    page = page_of(console, "Supervisor", partner.link)
    use(page, "Cancel message in flight", "message cancelled", Verdict="received")

    assert partner.state_of(message) == partner.state_of(queued) == "cancelled"
    message.refresh_from_db()
    assert message.outcome == "received"


def test_reset_the_sequence(console: Console, pair: PairFactory) -> None:
    partner = pair(acknowledges=True)
    partner.wait_for_state(partner.submit())
    page = page_of(console, "Supervisor", partner.link)

    use(page, "Reset sequence", "the next message gets number 1")

    assert partner.link.next_number == 1


def test_resynchronise_with_what_the_partner_says(console: Console, pair: PairFactory) -> None:
    """Its MSH is another product: the operator types in what was said on the telephone."""
    partner, message = suspended(pair, queued=0)
    page = page_of(console, "Supervisor", partner.link)

    page.get_by_role("link", name="Resynchronise and resume").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("alert")).to_contain_text("did not report the state of its link")
    expect(dialog.get_by_label("Reason")).to_have_count(0)
    dialog.get_by_label("Last accepted number").fill("1")
    dialog.get_by_label("MessageId of that message").fill(message.message_id)
    dialog.get_by_role("button", name="Compare").click()

    expect(page.get_by_text("no loss, no duplicates.")).to_be_visible()
    console.picture(page, "console-resynchronise")
    page.get_by_label("Reason").fill("agreed by telephone")
    page.get_by_role("button", name="Resynchronise and resume").click()
    expect(page.get_by_text("sequence numbers in sync")).to_be_visible()
    partner.wait_for_state(message)


def test_rewind_for_a_partner_that_was_restored(console: Console, pair: PairFactory) -> None:
    partner = pair(acknowledges=True)
    first, second = partner.submit(), partner.submit()
    partner.wait_for_state(second)
    partner.suspend()
    page = page_of(console, "Supervisor", partner.link)
    page.goto(f"{page.url.removesuffix('change/')}rewind/?last=1&last_id={first.message_id}")

    page.get_by_label("Reason").fill("their backup of this morning")
    page.get_by_role("button", name="Rewind and resume").click()

    expect(page.get_by_text("lost messages are sent again")).to_be_visible()
    again, earlier = partner.wait_for_copies(second, 2)
    assert again.body == earlier.body


def test_hold_and_release_resets_and_expect_a_number(console: Console, pair: PairFactory) -> None:
    partner = pair()
    partner.receive()
    page = page_of(console, "Supervisor", inbound(partner))

    use(page, "Hold resets", "are held")
    use(page, "Allow reset", "message with number 1 is accepted as a reset")
    assert inbound(partner).reset_allowed
    page.get_by_role("link", name="Set expected number").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Number").fill("7")
    dialog.get_by_role("button", name="Show numbers given up").click()
    expect(page.get_by_text("Given up as lost: 2 to 6 (5 numbers).")).to_be_visible()
    page.get_by_label("Reason").fill("agreed by telephone")
    page.get_by_role("button", name="Set expected number").click()
    expect(page.get_by_text("Number 7 is expected next")).to_be_visible()
    assert inbound(partner).last_number == 6


def test_two_switches(console: Console, pair: PairFactory) -> None:
    partner = pair()
    page = page_of(console, "Supervisor", partner.link)
    use(page, "Refuse submissions", "submissions are refused")
    expect(page.get_by_text("Submissions are refused by an operator.")).to_be_visible()
    use(page, "Accept submissions", "submissions are accepted")

    page = page_of(console, "Supervisor", inbound(partner))
    use(page, "Hold deliveries", "deliveries are held")
    expect(page.get_by_text("Deliveries are held:")).to_be_visible()
    use(page, "Resume deliveries", "deliveries are resumed")


def test_viewer_sees_everything_and_no_action(console: Console, pair: PairFactory) -> None:
    partner, _ = suspended(pair)
    queued = OutboundMessage.objects.get(link=partner.link, state="queued")

    for row in (partner.link, inbound(partner), queued):
        page = page_of(console, "Viewer", row)
        expect(page.locator("[data-dialog]")).to_have_count(0)
    page = console.open("Viewer")
    expect(page.get_by_role("heading", name="Suspended partners")).to_be_visible()
    expect(page.locator("[data-dialog]")).to_have_count(0)


def test_viewer_who_posts_gets_403(console: Console, pair: PairFactory) -> None:
    partner, _ = suspended(pair, queued=0)
    page = page_of(console, "Viewer", partner.link)
    before = partner.link.state, partner.link.in_flight_id, partner.link.next_number

    answers = page.evaluate(
        """async ([page, actions]) => {
            const token = document.querySelector("[name=csrfmiddlewaretoken]").value;
            const fields = new URLSearchParams({csrfmiddlewaretoken: token, reason: "please"});
            const post = (action) => fetch(`${page}${action}/`, {method: "POST", body: fields});
            return (await Promise.all(actions.map(post))).map((answer) => answer.status);
        }""",
        [page.url.removesuffix("change/"), LINK_ACTIONS],
    )

    assert dict(zip(LINK_ACTIONS, answers, strict=True)) == dict.fromkeys(LINK_ACTIONS, 403)
    assert (partner.link.state, partner.link.in_flight_id, partner.link.next_number) == before


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_no_page_is_wider_than_the_screen(
    console: Console, pair: PairFactory, width: int, scheme: str
) -> None:
    partner, message = suspended(pair)
    options: dict[str, Any] = {"viewport": {"width": width, "height": 844}, "color_scheme": scheme}
    page = console.open("Supervisor", **options)

    for row in (partner.link, inbound(partner), message):
        meta = row._meta
        page.goto(console.at(f"{meta.app_label}_{meta.model_name}_change", row.pk))
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        console.picture(page, f"console-{meta.model_name}-{scheme}-{width}")
    for model in ("outboundlink", "outboundmessage", "delivery", "incident"):
        page.goto(console.at(f"msh_{model}_changelist"))
        assert page.evaluate("document.documentElement.scrollWidth") <= width, model
    page.goto(console.msh.console)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    console.picture(page, f"console-dashboard-{scheme}-{width}")
