"""The link to a partner whose messages fly: window, gate, what is under way, held and queued."""

from datetime import timedelta

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from django.utils.html import strip_tags

from msh.models import InboundLink, OutboundLink, OutboundMessage
from msh.store.operations.operator_actions import open_links
from partners.models import Agreement
from tests.admin.conftest import (
    address,
    messages_of,
    offered,
    page_of,
    suspended_world,
    table_of,
    url,
    use,
)
from tests.flows.flying import BUSY, SILENT, Sky, make_sky, sky_of_five, start_window

pytestmark = pytest.mark.django_db

LIST = reverse("admin:msh_outboundlink_changelist")
NUMBERS = {"cancel", "reset_sequence", "resynchronise", "rewind", "set_last_number"}


@pytest.fixture
def sky() -> Sky:
    """With a message acknowledged, in flight, held, queued and failed."""
    return sky_of_five(retries=3, window=7)


@pytest.mark.requirement("EB-085")
def test_page_shows_the_window_and_what_is_in_it(viewer: Client, sky: Sky) -> None:
    _, in_flight, held, queued, _ = OutboundMessage.objects.order_by("pk")
    Agreement.objects.create(
        partner=sky.partner,
        dialect="ebms2",
        tpa_id="wide",
        our_party="a",
        their_party="b",
        window=9,
    )
    page = page_of(viewer, sky.link)
    assert (
        "1 of at most 7 messages are under way, 1 held for an operator; 1 message has failed."
        in page
    )
    assert "1 of 7 places in use" in page
    for title, message, said in (
        ("Under way", in_flight, "1 attempt, 0 of 3 retries used"),
        ("Held", held, "Suspended by an operator"),
        ("Queue", queued, "urn:orders"),
    ):
        (row,) = table_of(viewer, sky.link, title).rows
        cells = " ".join(map(str, row))
        assert url(OutboundMessage, "change", message.pk) in cells
        assert said in cells
    terms = table_of(viewer, sky.link, "Agreements").rows[0]
    assert terms[2:8] == ("OnceAndOnlyOnce", 3, "60 s", "none", 7, "message has failed")


def test_page_shows_nothing_of_numbers(supervisor: Client, sky: Sky) -> None:
    page = page_of(supervisor, sky.link)
    assert "number 1" not in page
    assert "Counters" not in page
    offers = {"suspend", "refuse_submissions", "cancel_queue", "plan_maintenance"}
    assert set(offered(supervisor, sky.link)) == offers
    open_links(sky.partner)
    into = InboundLink.objects.get(partner=sky.partner)
    assert offered(supervisor, into) == ["hold_deliveries"]
    for action in ("reset_sequence", "rewind", "set_last_number"):
        dialog = supervisor.get(address(action, sky.link)).content.decode()
        assert "have no sequence numbers" in dialog
    assert NUMBERS & set(offered(supervisor, suspended_world().link))


def test_state_says_what_is_waited_for(supervisor: Client) -> None:
    sky = make_sky()

    def state() -> str:
        page = supervisor.get(url(OutboundLink, "change", sky.link.pk))
        return strip_tags(page.context["badge"]).strip()

    message = sky.submit()
    sky.submit()
    assert state() == "idle"
    first, second = sky.poll()
    sky.end(first)
    assert state() == "sending", "the other copy is not answered"
    sky.end(second)
    assert state() == "waiting for Acknowledgements"
    assert sky.answer(message)
    use(supervisor, "suspend", sky.link)
    done = messages_of(use(supervisor, "resume", sky.link))
    assert done.endswith("at once as the agreements allow.")


@pytest.mark.requirement("EB-091")
def test_page_shows_the_gate(supervisor: Client) -> None:
    sky = make_sky(probe_interval=30)
    for _ in range(12):
        sky.submit()
    jobs = sky.poll()
    sky.end(jobs[0], BUSY)
    for job in jobs[1:3]:
        sky.end(job, SILENT)
    page = page_of(supervisor, sky.link)
    assert "2 in a row; after 8 the partner is suspended" in page
    assert "none is due; every 30 s while the partner cannot be reached" in page
    assert "Cannot connect to 127.0.0.1:9: Connection refused" in page
    for job in jobs[3:]:
        sky.end(job, SILENT)
    while sky.link.state != "suspended":
        more = sky.poll()
        for job in more:
            sky.end(job, SILENT)
        if not more:
            sky.let_pass(61)  # the first of them is to be older than RetryInterval
    page = page_of(supervisor, sky.link)
    assert "The next probe is due at" in page
    assert "No connection to the partner" in page
    says = str(supervisor.get(address("resume", sky.link)).context["consequence"])
    assert "at most 16 at once" in says
    done = messages_of(use(supervisor, "resume", sky.link))
    assert "Messages are sent again, as many at once as the agreements allow." in done


def test_while_a_maintenance_window_runs_no_probe_is_announced(viewer: Client) -> None:
    there, here = make_sky(probe_interval=30), make_sky(probe_interval=30)
    for sky in (there, here):
        sky.submit()
    due = timezone.now() + timedelta(seconds=30)
    OutboundLink.objects.filter(pk__in=[there.link.pk, here.link.pk]).update(
        state="suspended", suspended_for="unreachable", suspended_since=due, probe_due=due
    )
    window = start_window(there.partner)

    page = page_of(viewer, there.link)
    listed = strip_tags(viewer.get(LIST).content.decode())

    assert "No probe is sent while the maintenance window runs. 0 of at most" in page
    assert "<dd>none while the maintenance window runs</dd>" in page
    assert "The next probe is due at" in page_of(viewer, here.link)
    assert listed.count("No probe is sent while") == listed.count("The next probe is due at") == 1
    window.state = "ended"
    window.save(update_fields=["state"])
    assert "The next probe is due at" in page_of(viewer, there.link)


@pytest.mark.requirement("EB-092")
def test_dialog_of_suspend_is_about_many_messages(supervisor: Client, sky: Sky) -> None:
    says = str(supervisor.get(address("suspend", sky.link)).context["consequence"])
    assert "Messages that are under way are not sent again, and keep their retries" in says
    use(supervisor, "suspend", sky.link)
    assert "No probe is due. 1 of at most 7 messages" in page_of(supervisor, sky.link)


def test_queue_that_nothing_polls_names_worker_and_beat(viewer: Client) -> None:
    sky = make_sky()
    message = sky.submit()
    assert "Nothing polls this link" not in page_of(viewer, sky.link)
    hour_ago = message.submitted_at - timedelta(hours=1)
    OutboundMessage.objects.update(submitted_at=hour_ago)
    assert "Nothing polls this link" in page_of(viewer, sky.link)
    sky.agreement.window = 1
    sky.agreement.save(update_fields=["window"])
    sky.submit()
    sky.poll()
    OutboundMessage.objects.update(submitted_at=hour_ago)
    assert "Nothing polls this link" not in page_of(viewer, sky.link), "the window is full"


def test_list_counts_what_is_queued_under_way_and_held(viewer: Client, sky: Sky) -> None:
    listed = viewer.get(LIST)
    (link,) = listed.context["cl"].result_list
    assert (link.queued, link.under_way, link.held) == (1, 1, 1)
    assert "1 under way" in listed.content.decode()
