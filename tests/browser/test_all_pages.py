"""What holds for every page, whatever the partner is called: axe-core objects to nothing, in both
schemes, and it is as wide as its window, at a desk and on a telephone."""

from datetime import datetime, timedelta
from itertools import product

import pytest
from django.utils import timezone
from playwright.sync_api import Browser, Page, expect

from msh.models import (
    EVER,
    ActRequest,
    BulkItem,
    BulkJob,
    Consumer,
    Delivery,
    InboundMessage,
    Incident,
    OutboundMessage,
    SavedFilter,
)
from msh.statistics.models import (
    AcknowledgementTime,
    Statistics,
    StatisticsProgress,
    Suspension,
    Unit,
)
from msh.statistics.store.collect import look
from partners.models import Agreement, Partner
from tests.browser.axe import COLOURS, violations
from tests.browser.console import DESK, SCHEMES, TELEPHONE, Console, show_in, user_with
from tests.browser.test_actions import suspended
from tests.certificates import Authority
from tests.exchange.pair import Pair, PairFactory

LONG_NAME, LONG_ID = "n" * 62, "i" * 200
PARTS = 4
"""Tests that share the pages: all of them take minutes."""

# Each element that is cut off, or that makes the page wider than the window: what is in a container
# that scrolls by itself does neither.
TOO_WIDE = """() => {
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


@pytest.mark.parametrize("part", range(PARTS))
def test_each_page_is_accessible_and_as_wide_as_its_window(
    console: Console, pair: PairFactory, part: int
) -> None:
    """F15 of the review of the console: landmarks and links that axe-core objected to."""
    partner, message = suspended(pair)
    pages = {
        **pages_of_partner(console, partner, message),
        **other_pages(console, partner, message),
    }
    lengthen_names(partner, part)
    page = console.open("Administrator", viewport=TELEPHONE)
    found: list[str] = []
    for name, address in list(pages.items())[part::PARTS]:
        page.goto(address)
        found += too_wide_in_both(name, page)
        page.set_viewport_size(DESK)
        found += [f"{name}, at a desk: {one}" for one in page.evaluate(TOO_WIDE)]
        found += violations_of_both(name, page)
        page.set_viewport_size(TELEPHONE)
    for name, address in list(of_other_parts(console).items())[part::PARTS]:
        page.goto(address)
        found += too_wide_in_both(name, page)

    assert not found, "\n".join(found)


def test_a_dialog_is_accessible(console: Console, pair: PairFactory) -> None:
    partner, _ = suspended(pair)
    page = console.open("Administrator", viewport=DESK)
    page.goto(console.at("msh_outboundlink_change", partner.link.pk))
    page.get_by_role("link", name="Cancel message in flight").click()
    expect(page.get_by_role("dialog").get_by_role("radio").first).to_be_focused()
    found = violations_of_both("dialog", page)

    assert not found, "\n".join(found)


def too_wide_in_both(name: str, page: Page) -> list[str]:
    """What is cut off, or widens the page; it is shown in the light scheme afterwards."""
    found = []
    for scheme in reversed(SCHEMES):
        show_in(scheme, page)
        found += [f"{name}, {scheme}: {one}" for one in page.evaluate(TOO_WIDE)]
    return found


def violations_of_both(name: str, page: Page) -> list[str]:
    """Of the light scheme; and of the dark one what depends on colours."""
    found = violations(name, page)
    show_in("dark", page)
    return found + violations(f"{name}, dark", page, COLOURS)


def lengthen_names(partner: Pair, part: int) -> None:
    """As long as they may be, and nowhere to break."""
    Partner.objects.filter(pk=partner.partner.pk).update(name=f"{LONG_NAME}{part}")
    for model in (OutboundMessage, InboundMessage):
        for row in model.objects.filter(link__partner=partner.partner):
            model.objects.filter(pk=row.pk).update(message_id=f"{LONG_ID}{row.pk}")


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
    assert bool(page.evaluate(TOO_WIDE)) is is_found
    page.close()


# --- which pages there are ----------------------------------------------------------------------


def pages_of_partner(console: Console, partner: Pair, message: OutboundMessage) -> dict[str, str]:
    rows = {
        "message": message,
        "agreement": partner.agreement,
        "agreements form": partner.partner,
        "link": partner.link,
    }
    return {
        "dashboard": console.msh.console,
        **{
            name: console.at(f"{row._meta.app_label}_{row._meta.model_name}_change", row.pk)
            for name, row in rows.items()
        },
    }


def other_pages(console: Console, partner: Pair, message: OutboundMessage) -> dict[str, str]:
    """Addresses of one page of each other kind: what is to be decided, forms, contents, lists."""
    now = timezone.now()
    save_filters()
    look()
    count_something(partner.agreement, now)
    return {
        **pages_of_rows(console, partner, now),
        **pages_of_requests(console, partner, now),
        "payload": console.at("msh_outboundmessage_payload", message.pk, 1),
        "resume": console.at("msh_outboundlink_resume", partner.link.pk),
        "cancel queue": console.at("msh_outboundlink_cancel_queue", partner.link.pk),
        "filtered list": console.at("msh_outboundmessage_changelist") + "?state=in_flight",
        "user": console.at("auth_user_change", user_with("Administrator").pk),
        "new machine": console.at("auth_user_add") + "?kind=machine",
        "machine users": console.at("auth_user_changelist") + "?kind=machine",
        **{name: console.at(view) for name, view in VIEWS.items()},
        **{f"list of {name}": console.at(f"{name}_changelist") for name in LISTS},
        **pages_outside_the_admin(console, partner, now),
    }


VIEWS = {
    "plan of maintenance": "msh_maintenancewindow_plan",
    "recipient": "msh_alertrecipient_add",
    "consumer": "msh_consumer_add",
    "role": "auth_group_add",
    "new user": "auth_user_add",
    "new bulk job": "msh_bulkjob_new",
    "business key": "msh_keyrule_add",
    "import": "partners_agreement_import",
    "import cpa": "partners_agreement_cpa",
    "new channel": "partners_channel_add",
    "tokens": "msh_apitoken_changelist",
    "new token": "msh_apitoken_add",
}
LISTS = (
    *("msh_keyrule", "msh_outboundlink", "msh_outboundmessage", "msh_delivery", "msh_incident"),
    *("msh_history", "msh_settingchange", "msh_actrequest"),
    *("partners_partner", "partners_agreement", "partners_route"),
)
SAME_AS_THOSE = (
    *("msh_inboundlink", "msh_inboundmessage", "msh_signal", "msh_bulkjob", "msh_operatornotice"),
    *("msh_maintenancewindow", "msh_consumer", "msh_alertrecipient", "msh_apitoken", "auth_user"),
    *("auth_group", "msh_outboundconversation", "msh_inboundconversation"),
    *("django_celery_beat_periodictask", "django_celery_beat_crontabschedule"),
    "partners_channel",
)
"""Lists made of the same parts: only their width differs."""


def pages_of_rows(console: Console, partner: Pair, now: datetime) -> dict[str, str]:
    partner.receive()
    received = InboundMessage.objects.get(link__partner=partner.partner)
    consumer = Consumer.objects.create(
        name=partner.partner.name, partner=partner.partner, kind="pull", enabled=False
    )
    delivery = Delivery.objects.create(
        consumer=consumer, message=received, state="blocked", attempt=1, started_at=now, detail="no"
    )
    incident = Incident.objects.create(
        partner=partner.partner, direction="in", kind="delivery_failed", opened_at=now, last_at=now
    )
    return {
        "inbound link": console.at("msh_inboundlink_change", received.link_id),
        "inbound message": console.at("msh_inboundmessage_change", received.pk),
        "header": console.at("msh_inboundmessage_header", received.pk),
        "delivery": console.at("msh_delivery_change", delivery.pk),
        "incident": console.at("msh_incident_change", incident.pk),
        "consumer": console.at("msh_consumer_change", consumer.pk),
        "bulk job": console.at("msh_bulkjob_change", bulk_job_in_vain(delivery, now).pk),
    }


def bulk_job_in_vain(delivery: Delivery, now: datetime) -> BulkJob:
    job: BulkJob = BulkJob.objects.create(
        action="run-again", since=EVER, actor="ann", reason="repaired", state="done",
        started_at=now, ended_at=now, total=2, done=1, refused=1,
    )  # fmt: skip
    for key, done in ((delivery.pk, True), (0, False)):
        BulkItem.objects.create(job=job, key=key, label=str(delivery), done=done)
    return job


def pages_of_requests(console: Console, partner: Pair, now: datetime) -> dict[str, str]:
    asked = ActRequest.objects.create(
        verb="reset",
        act="reset_sequence",
        parameters={"partner": partner.partner.pk},
        facts="the next number is 5",
        text="the next message gets number 1 instead of 5.",
        partner=partner.partner,
        direction="out",
        asked_by="operator",
        reason="agreed with the partner",
        until=now + timedelta(hours=1),
    )
    return {
        "request": console.at("msh_actrequest_change", asked.pk),
        "confirm": console.at("msh_actrequest_confirm", asked.pk),
        "asked": console.msh.console,
    }


def pages_outside_the_admin(console: Console, partner: Pair, now: datetime) -> dict[str, str]:
    key = partner.partner.pk
    authority = Authority("n" * 64, days=(-1, 400))
    Partner.objects.filter(pk=key).update(ca_certificates=authority.pem)
    paths = {
        "partner": f"partner/{key}/",
        "search": "search-all/?q=nothing",
        "sessions": "sessions/",
        "certificates": "certificates/",
        "wall": "wall/",
        "time zone": "time-zone/",
        "statistics": "statistics/",
        "statistics of a partner": f"statistics/?partner={key}&period=90d",
        "report": f"statistics/{key}/{now.year}/{now.month}/",
        "not found": "no/such/page/",
    }
    return {name: console.msh.console + path for name, path in paths.items()}


def of_other_parts(console: Console) -> dict[str, str]:
    """Pages that are Django's, and lists made of the same parts as those above."""
    return {
        **{f"list of {name}": console.at(f"{name}_changelist") for name in SAME_AS_THOSE},
    }


def save_filters() -> None:
    """One of the user's own, and one that is shared."""
    for name, shared in (("late orders", True), ("mine", False)):
        SavedFilter.objects.update_or_create(
            owner=user_with("Administrator"), of_list="msh_outboundmessage", name=name,
            defaults={"query": f"state={'queued' if shared else 'failed'}", "shared": shared},
        )  # fmt: skip


def count_something(agreement: Agreement, now: datetime) -> None:
    """The statistics have a day, an hour and a suspension of the agreement's partner."""
    StatisticsProgress.objects.update_or_create(pk=1, defaults={"up_to": now})
    partner = agreement.partner
    Suspension.objects.get_or_create(partner=partner, defaults={"began_at": now})
    counts = {"acknowledged": 3, "received": 2, "retries": 1, "in_doubt": 1}
    for unit, of in product(Unit, ((partner, agreement), (None, None))):
        slot, _ = Statistics.objects.get_or_create(
            unit=unit,
            begins=now.replace(hour=0),
            partner=of[0],
            agreement=of[1],
            defaults=counts,
        )
        AcknowledgementTime.objects.get_or_create(slot=slot, bucket=30, defaults={"number": 3})
