"""Finding a message and what it holds, correcting it, and using one action on many rows."""

from datetime import timedelta

from django.utils import timezone
from playwright.sync_api import Page, expect

from msh.flows.operations.inspection.raw_message import payload_of
from msh.models import BulkJob, OutboundMessage
from msh.protocol.lane import LaneState
from msh.protocol.message import Payload
from tests.browser.axe import violations
from tests.browser.console import Console
from tests.browser.test_actions import page_of, suspended
from tests.exchange.pair import WAITS, PairFactory
from tests.waiting import wait_until

SCRIPT = b"<html><script>document.title = 'run'; parent.document.title = 'run'</script></html>"


def test_a_message_is_found_and_its_payload_shown_and_never_run(
    console: Console, pair: PairFactory
) -> None:
    partner = pair()
    name = "page\u202elmth.html"
    payload = Payload(SCRIPT, content_type="text/html", label="page.html")
    message = partner.submit(payloads=[payload], conversation_id="a talk")
    message.payloads.update(label=name)

    page = console.open("Operator", "msh/outboundmessage/")
    page.get_by_placeholder("Complete MessageId, ConversationId or business key").fill("a talk")
    page.keyboard.press("Enter")
    page.get_by_role("link", name=message.message_id).click()
    expect(page.get_by_text("page\\u202elmth.html")).to_be_visible()
    expect(page.get_by_text("Submitted by the application")).to_be_visible()
    payloads = page.get_by_role("group", name="Payloads")
    payloads.get_by_role("link", name="view").click()
    expect(page.get_by_label("Content", exact=True)).to_contain_text(
        "<script>document.title = 'run'"
    )
    console.picture(page, "console-payload")
    with page.expect_download() as downloading:
        page.get_by_role("link", name="Download exact bytes").click()

    assert downloading.value.path().read_bytes() == SCRIPT
    assert downloading.value.suggested_filename == "page_lmth.html"
    assert page.title() != "run"


def test_a_corrected_copy_takes_the_place_of_a_queued_message(
    console: Console, pair: PairFactory
) -> None:
    partner, _ = suspended(pair, queued=1)
    queued = OutboundMessage.objects.get(link=partner.link, state="queued")
    page = page_of(console, "Supervisor", queued)

    page.get_by_role("link", name="Cancel and submit corrected copy").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Reason").fill("wrong price")
    dialog.get_by_label("Replacement for payload 1").set_input_files(
        {"name": "order.xml", "mimeType": "text/xml", "buffer": b"<Order price='1'/>"}
    )
    console.picture(page, "console-correct")
    dialog.get_by_role("button", name="Cancel and submit corrected copy").click()

    expect(page.get_by_text("cancelled, corrected copy")).to_be_visible()
    copy = OutboundMessage.objects.get(corrects=queued)
    assert payload_of(copy, 1).content == b"<Order price='1'/>"
    assert (copy.service_interface, copy.action) == (queued.service_interface, queued.action)
    page.get_by_role("link", name=copy.message_id).click()
    expect(page.get_by_role("link", name=queued.message_id)).to_be_visible()


def test_all_suspended_since_are_resumed_at_once(console: Console, pair: PairFactory) -> None:
    since = timezone.now() - timedelta(minutes=1)
    partners = [suspended(pair, queued=0)[0] for _ in range(2)]
    page = console.open("Supervisor", f"msh/outboundlink/?since={since:%Y-%m-%dT%H:%M:%S}Z")

    page.get_by_role("link", name="Resume partners").click()
    expect(page.get_by_role("heading", name="Resume partners:")).to_be_visible()
    for one in partners:
        row = page.get_by_role("listitem").filter(has_text=one.partner.name)
        expect(row).to_contain_text("Suspended by an operator since")
        expect(row.get_by_role("checkbox")).not_to_be_checked()
        row.get_by_role("checkbox").check()
    console.picture(page, "console-bulk")
    earlier = list(BulkJob.objects.values_list("pk", flat=True))
    jobs = BulkJob.objects.exclude(pk__in=earlier)
    assert not jobs.exists()
    page.get_by_label("Reason").fill("their network is back")
    page.get_by_role("button", name="Resume partners (").click()

    expect(page.get_by_text("rows queued")).to_be_visible()
    wait_until(lambda: jobs.get().state == "done", seconds=WAITS)
    page.reload()
    for one in partners:
        row = page.get_by_role("row").filter(has_text=one.partner.name)
        expect(row).to_contain_text("done")
        assert one.link.state == LaneState.WAITING


def test_a_running_job_is_cancelled_at_leisure(console: Console) -> None:
    """The page is brought up to date under the open dialog, which stays as it is. The job has no
    row that a worker could begin."""
    job = BulkJob.objects.create(
        action="resume", since=timezone.now(), started_at=timezone.now(), actor="ann",
        reason="back", total=9, done=1,
    )  # fmt: skip
    page = page_of(console, "Supervisor", job)
    expect(page.get_by_text("1 of 9 finished")).to_be_visible()
    assert violations("bulk job", page) == []

    page.get_by_role("link", name="Cancel job").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Reason").fill("the wrong ")
    BulkJob.objects.filter(pk=job.pk).update(done=2)
    expect(page.get_by_text("2 of 9 finished")).to_be_attached()
    expect(dialog.get_by_label("Reason")).to_be_focused()
    page.keyboard.type("partners")
    dialog.get_by_role("button", name="Cancel job").click()

    expect(page.get_by_text("Job cancelled")).to_be_visible()
    job.refresh_from_db()
    assert (job.state, job.cancel_reason) == ("cancelled", "the wrong partners")


def test_a_job_that_ends_shows_its_results(console: Console) -> None:
    job = BulkJob.objects.create(
        action="resume", since=timezone.now(), started_at=timezone.now(), actor="ann",
        reason="back", total=1,
    )  # fmt: skip
    page = page_of(console, "Supervisor", job)
    expect(page.get_by_text("0 of 1 finished")).to_be_visible()

    job.items.create(key=1, label="acme", done=False, detail="it is not suspended")
    BulkJob.objects.filter(pk=job.pk).update(refused=1, state="done", ended_at=timezone.now())

    expect(page.get_by_role("cell", name="it is not suspended")).to_be_visible()
    expect(page.get_by_role("link", name="Cancel job")).to_have_count(0)


def test_the_horizon_follows_what_is_typed(console: Console, pair: PairFactory) -> None:
    partner = pair(timeout=10, retries=4, retry_interval=5)
    page: Page = page_of(console, "Administrator", partner.partner)

    horizon = page.locator("output[data-horizon]").first
    expect(horizon).to_have_text("30 s")
    page.locator("[name=agreements-0-retries]").fill("10")
    expect(horizon).to_have_text("60 s")
