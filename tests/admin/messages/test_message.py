"""The page of a message: its timeline, duplicates, the state of its link."""

from datetime import timedelta

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from msh.flows.operations.inspection.trace import trace_of
from msh.models import (
    Attempt,
    InboundLink,
    InboundMessage,
    Incident,
    OutboundLink,
    OutboundMessage,
)
from msh.protocol.attempt import AttemptOutcome, AttemptResult
from msh.store.operations.operator_actions import open_links
from tests.admin.conftest import busy_world, suspended_world, url
from tests.flows.byhand import TRANSMITTED
from tests.flows.world import LOST, World

pytestmark = pytest.mark.django_db


def test_waiting_message_shows_that_its_link_is_suspended(administrator: Client) -> None:
    busy_world()
    done, flying, queued = OutboundMessage.objects.order_by("pk")

    def hinted(message: OutboundMessage) -> bool:
        page = administrator.get(url(OutboundMessage, "change", message.pk)).content.decode()
        return "link suspended" in page

    assert (hinted(done), hinted(flying), hinted(queued)) == (False, True, True)


def test_page_of_a_message_has_the_explanation(administrator: Client) -> None:
    world = suspended_world(queued=1)
    queued = OutboundMessage.objects.get(state="queued")
    page = administrator.get(url(OutboundMessage, "change", queued.pk)).content.decode()
    assert "The link has been suspended since" in page
    assert f"at message {world.link.in_flight} (number 1)" in page
    assert "&lt;b&gt;thanks" in page
    assert "<b>thanks" not in page


def test_http_status_is_shown_once(administrator: Client) -> None:
    busy_world()
    flying = OutboundMessage.objects.get(state="in_flight")

    page = administrator.get(url(OutboundMessage, "change", flying.pk)).content.decode()

    assert "415 Unsupported Media Type" in page
    assert "415 415" not in page


def test_copy_stands_before_the_acknowledgement_that_overtook_its_record(
    world: World,
    administrator: Client,
) -> None:
    message, job = world.start()
    world.end(job, TRANSMITTED)
    now = timezone.now()
    Attempt.objects.update(claimed_at=now, ended_at=now + timedelta(milliseconds=30))
    OutboundMessage.objects.update(
        state="acknowledged", completed_at=now + timedelta(milliseconds=5)
    )
    assert _attempts_told(administrator, message) == ["Copy 1 sent; no Acknowledgement yet"]
    (moment,) = [one for one in trace_of(message.message_id) if one.event == "Attempt 1"]
    assert moment.at == now


def test_attempt_whose_end_was_not_recorded_is_not_under_way(
    world: World, administrator: Client
) -> None:
    message = world.submit()
    world.poll()
    assert _attempts_told(administrator, message) == ["Copy 1 being sent"]

    first = Attempt.objects.get()
    first.pk, first.number = None, 2
    first.save()
    told = _attempts_told(administrator, message)

    lost = "Copy 1 may have been sent; its end was not recorded"
    assert sorted(told) == [lost, "Copy 2 being sent"]


def _attempts_told(client: Client, message: OutboundMessage) -> list[str]:
    page = client.get(url(OutboundMessage, "change", message.pk))
    sentences = [str(row[1]) for row in page.context["tables"][0].rows]
    return [sentence for sentence in sentences if sentence.startswith("Copy")]


def test_timeline_of_a_message_is_in_order(world: World, administrator: Client) -> None:
    message, job = world.start()
    world.end(job, LOST)

    page = administrator.get(url(OutboundMessage, "change", message.pk))

    (timeline, payloads, attempts) = page.context["tables"]
    assert [row[1] for row in timeline.rows] == [
        "Submitted by the application",
        "Taken from the queue and given its number",
        "Copy 1 failed",
    ]
    assert "Cannot connect to 127.0.0.1:9: Connection refused" in timeline.rows[-1][-1]
    assert [row[0] for row in payloads.rows] == [1]
    assert [(row[0], row[5]) for row in attempts.rows] == [(1, "no")]
    sha256 = bytes(OutboundMessage.objects.get().body_sha256 or b"").hex()
    assert sha256 in page.content.decode()


@pytest.mark.requirement("000-012")
def test_duplicates_are_counted(world: World, reader: Client) -> None:
    _, job = world.start()
    world.hand_over(job)
    world.hand_over(job)

    received = InboundMessage.objects.get()
    change = reader.get(reverse("admin:msh_inboundmessage_change", args=[received.pk]))

    assert received.duplicates == 1
    events = [row[1] for table in change.context["tables"] for row in table.rows]
    assert "Received again; the duplicate was discarded" in events


def test_direction_marks_from_partners_are_escaped(administrator: Client) -> None:
    """Names in the header and descriptions of Errors, on the pages of links and in dialogs."""
    turned = "gpj\u202eexe"
    world = suspended_world(queued=0)
    world.submit()
    OutboundMessage.objects.filter(state="in_flight").update(action=turned)
    waiting = OutboundMessage.objects.filter(state="queued")
    waiting.update(service_interface=turned, message_id=f"id-{turned}")
    OutboundLink.objects.update(suspended_detail=f"ERROR: {turned}")
    open_links(world.here)
    inbound = InboundLink.objects.get(partner=world.here)
    now = timezone.now()
    Incident.objects.create(
        partner=world.here, direction="in", kind="sequence_gap", detail=turned,
        opened_at=now, last_at=now,
    )  # fmt: skip
    queued = OutboundMessage.objects.get(state="queued")
    pages = {
        "link": reverse("admin:msh_outboundlink_change", args=[world.link.pk]),
        "links": reverse("admin:msh_outboundlink_changelist"),
        "inbound link": reverse("admin:msh_inboundlink_change", args=[inbound.pk]),
        "dialog": reverse("admin:msh_outboundmessage_cancel", args=[queued.pk]),
    }

    texts = {name: administrator.get(where).content.decode() for name, where in pages.items()}

    assert [name for name, text in texts.items() if "\u202e" in text] == []
    assert [name for name, text in texts.items() if "gpj\\u202eexe" not in text] == []


@pytest.mark.parametrize(
    ("result", "told"),
    [
        (AttemptResult(AttemptOutcome.FAILED, 503, "503 busy"), "Copy 1 answered with an error"),
        (AttemptResult(AttemptOutcome.FAILED, 500, "SOAP Fault Server: no"), "Copy 1 answered"),
        (LOST, "Copy 1 failed"),
    ],
)
def test_a_copy_that_was_answered_is_not_called_unsent(
    world: World, administrator: Client, result: AttemptResult, told: str
) -> None:
    message, job = world.start()
    world.end(job, result)
    (sentence,) = _attempts_told(administrator, message)
    assert sentence.startswith(told)
