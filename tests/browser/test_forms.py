"""What is sent once is sent once, and what was typed is kept."""

from django.contrib.auth.models import Group
from playwright.sync_api import Route, expect

from msh.admin.setup.partner import AUTHENTICATION
from msh.alerts.models import AlertRecipient
from msh.models import Consumer
from partners.models import Partner
from tests.browser.console import DESK, TELEPHONE, Console, user_with
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


# Each form has its reason and its buttons in sight, at the lower edge of the window.
_WHOLE = """() => {
    const box = one => one.getBoundingClientRect();
    const bar = document.getElementById("submit-row");
    const reason = bar.querySelector(".msh-save-reason");
    const [label, field] = [reason.querySelector("label"), reason.querySelector("textarea")];
    const missing = document.getElementById("reason-missing");
    const inside = one => box(one).top >= box(bar).top - 1 && box(one).bottom <= box(bar).bottom + 1
        && box(one).bottom <= window.innerHeight + 1 && box(one).right <= window.innerWidth + 1;
    const found = [];
    for (const one of [label, field, ...(missing.hidden ? [] : [missing])])
        if (!inside(one))
            found.push([one.tagName, box(one), "in", box(bar)].map(JSON.stringify).join(" "));
    if (box(label).bottom > box(field).top + 1) found.push("the label is in the field");
    if (!missing.hidden && box(missing).top < box(field).bottom - 1)
        found.push("the words cover the field");
    for (const button of bar.querySelectorAll("button, a"))
        if (!inside(button)) found.push(button.textContent.trim());
    return found;
}"""


def forms_with_a_reason(console: Console) -> dict[str, str]:
    """Of rows that are there, which have one button more."""
    partner = Partner.objects.create(name="in-form", uri="http://in-form.example/")
    consumer = Consumer.objects.create(name="in-form", kind="pull", partner=partner)
    recipient = AlertRecipient.objects.create(name="in-form", channel="email", addresses="a@b.c")
    role, _ = Group.objects.get_or_create(name="in-form")
    rows = {
        "partner and agreement": partner,
        "consumer": consumer,
        "recipient": recipient,
        "role": role,
        "user": user_with("Administrator"),
    }
    return {
        **{
            name: console.at(f"{row._meta.app_label}_{row._meta.model_name}_change", row.pk)
            for name, row in rows.items()
        },
        "new token": console.at("msh_apitoken_add"),
        "new machine": console.at("auth_user_add") + "?kind=machine",
    }


def test_the_reason_of_each_form_is_whole(console: Console) -> None:
    """F15: half of the label was above the bar, and the field was cut by the window's edge. The
    words of a browser covered the label."""
    page = console.open("Administrator")
    found = []
    for name, address in forms_with_a_reason(console).items():
        page.goto(address)
        for size in (DESK, TELEPHONE):
            page.set_viewport_size(size)
            page.locator("#submit-row").scroll_into_view_if_needed()
            page.evaluate("window.scrollTo(0, document.body.scrollHeight)")
            found += [f"{name}: {one}" for one in page.evaluate(_WHOLE)]
            page.get_by_role("button", name="Save", exact=True).click()
            expect(page.get_by_label("Reason")).to_be_focused()
            expect(page.get_by_text("Not saved: enter a reason.")).to_be_visible()
            found += [f"{name}, without: {one}" for one in page.evaluate(_WHOLE)]
        page.set_viewport_size(DESK)
        console.picture(page, f"form {name}")
        expect(page.get_by_role("button", name="Save and add another")).to_have_count(0)
    assert not found, "\n".join(found)
