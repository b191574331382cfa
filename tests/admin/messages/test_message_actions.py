"""Cancel a queued message; cancel and submit a corrected copy: linked, never edited in place."""

from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.urls import reverse
from pytest_django import Settings

from msh.flows.operations.inspection.raw_message import payload_of
from msh.models import History, OutboundMessage, OutboundPayload
from partners.models import Partner
from tests.admin.conftest import address, messages_of, page_of, suspended_world, use
from tests.flows.world import LOST, World

pytestmark = pytest.mark.django_db


def correct(client: Client, message: OutboundMessage, content: bytes = b"", **fields: Any) -> Any:
    data = {
        "reason": "wrong price",
        "version": message.state,
        "service_interface": message.service_interface,
        "action": message.action,
        **fields,
    }
    if content:
        data["payload_1"] = SimpleUploadedFile("corrected.xml", content)
    return client.post(address("correct", message), data)


def queued_world() -> tuple[World, OutboundMessage]:
    world = suspended_world(queued=2)
    return world, OutboundMessage.objects.filter(state="queued").order_by("pk")[0]


def copy_of(message: OutboundMessage) -> OutboundMessage:
    return OutboundMessage.objects.get(corrects=message)


def test_a_queued_message_is_cancelled_and_its_copy_queued(supervisor: Client) -> None:
    _, message = queued_world()

    response = correct(supervisor, message, b"<order price='1'/>")

    copy = copy_of(message)
    assert f"corrected copy {copy} queued." in messages_of(response)
    message.refresh_from_db()
    assert (message.state, message.outcome) == ("cancelled", "not_received")
    assert payload_of(message, 1).content == b"<order/>"
    assert payload_of(copy, 1).content == b"<order price='1'/>"
    assert payload_of(copy, 1).name == "order.xml"
    same = ("conversation_id", "service_interface", "action", "semantics", "agreement_id")
    assert all(getattr(copy, name) == getattr(message, name) for name in same)
    assert copy.message_id != message.message_id
    assert copy.state == "queued"


def test_both_messages_record_who_corrected_and_why(supervisor: Client) -> None:
    _, message = queued_world()
    correct(supervisor, message, b"<new/>")
    copy = copy_of(message)

    rows = History.objects.filter(actor="sue", event__in=["CopySubmitted", "SubmittedInstead"])
    assert {(row.message_id, row.detail) for row in rows} == {
        (message.message_id, f"{copy.message_id} was submitted instead; wrong price"),
        (copy.message_id, f"instead of {message.message_id}; wrong price"),
    }
    for one, other in ((message, copy), (copy, message)):
        page = reverse("admin:msh_outboundmessage_change", args=[one.pk])
        link = reverse("admin:msh_outboundmessage_change", args=[other.pk])
        assert f'href="{link}"' in supervisor.get(page).content.decode()


def test_correcting_a_message_in_flight_needs_a_verdict(world: World, supervisor: Client) -> None:
    message, job = world.start()
    world.end(job, LOST)
    message.refresh_from_db()

    refused = correct(supervisor, message, b"<new/>")
    assert "verdict" in refused.context["form"].errors
    correct(supervisor, message, b"<new/>", verdict="not_received")

    message.refresh_from_db()
    assert (message.state, message.outcome) == ("cancelled", "not_received")
    (job,) = world.poll()
    assert b"<new/>" in job.body
    assert world.link.in_flight == copy_of(message)
    assert world.link.next_number == 2  # its number is used again


def test_a_cancelled_message_is_corrected_once(supervisor: Client) -> None:
    _, message = queued_world()
    correct(supervisor, message, b"<new/>")
    message.refresh_from_db()

    again = correct(supervisor, message, b"<newer/>")

    assert f"message {copy_of(message)} was already submitted instead" in messages_of(again)
    assert OutboundMessage.objects.filter(corrects=message).count() == 1


def test_action_of_a_message_can_be_corrected(supervisor: Client) -> None:
    _, message = queued_world()

    correct(supervisor, message, action="Change")

    assert (copy_of(message).action, message.action) == ("Change", "New")
    assert payload_of(copy_of(message), 1).content == b"<order/>"


def test_refused_copy_changes_nothing(supervisor: Client, settings: Settings) -> None:
    _, message = queued_world()
    count = OutboundMessage.objects.count()

    nothing = correct(supervisor, message)
    assert "Nothing was corrected" in messages_of(nothing)
    settings.MSH_MESSAGE_LIMIT = 10
    large = correct(supervisor, message, b"x" * 11)
    assert "larger than the limit of a message" in str(large.context["form"].errors)
    settings.MSH_MESSAGE_LIMIT = 1000
    Partner.objects.update(accepts=False)
    closed = correct(supervisor, message, b"<new/>")
    assert "are refused until an operator" in messages_of(closed)

    message.refresh_from_db()
    assert message.state == "queued"
    assert OutboundMessage.objects.count() == count


def test_a_refused_copy_leaves_the_message_in_flight(world: World, supervisor: Client) -> None:
    message, job = world.start()
    world.end(job, LOST)
    message.refresh_from_db()
    Partner.objects.update(accepts=False)

    response = correct(supervisor, message, b"<new/>", verdict="not_received")

    assert "are refused until an operator" in messages_of(response)
    message.refresh_from_db()
    assert message.state == "in_flight"


def test_outdated_dialog_does_nothing(supervisor: Client) -> None:
    _, message = queued_world()

    response = correct(supervisor, message, b"<new/>", version="in_flight")

    assert "changed in the meantime" in messages_of(response)
    assert not OutboundMessage.objects.filter(corrects=message).exists()


def test_acknowledged_message_cannot_be_corrected(world: World, supervisor: Client) -> None:
    message = world.submit()
    world.settle()
    message.refresh_from_db()

    page = reverse("admin:msh_outboundmessage_change", args=[message.pk])
    assert address("correct", message) not in supervisor.get(page).content.decode()
    assert "Not possible now" in supervisor.get(address("correct", message)).content.decode()
    correct(supervisor, message, b"<new/>")
    assert OutboundMessage.objects.count() == 1


def test_removed_payloads_cannot_be_kept(supervisor: Client) -> None:
    _, message = queued_world()
    OutboundPayload.objects.filter(message=message).delete()

    assert "payloads were removed" in messages_of(correct(supervisor, message, action="Change"))


def test_a_queued_message_is_cancelled_on_its_page(supervisor: Client) -> None:
    world = suspended_world(queued=1)
    queued = OutboundMessage.objects.get(state="queued")
    flying = OutboundMessage.objects.get(state="in_flight")

    assert address("cancel", queued) in page_of(supervisor, queued)
    assert address("cancel", flying) not in page_of(supervisor, flying)
    use(supervisor, "cancel", queued)
    assert "is in flight" in messages_of(use(supervisor, "cancel", flying))

    states = OutboundMessage.objects.order_by("pk").values_list("state", flat=True)
    assert list(states) == ["in_flight", "cancelled"]
    assert world.link.in_flight == flying
