"""While the queue of a link is being cancelled, or may be, nothing advises to resume it."""

from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from msh.admin.links.cancelling import is_cancelling
from msh.flows.errors import SecondPersonNeeded
from msh.flows.operations import change_link, maintenance, watch
from msh.flows.operations.many.cancel_queue import cancel_queue
from msh.four_eyes.flows import requests
from msh.models import ActRequest, BulkJob, MaintenanceWindow, OutboundLink, OutboundMessage
from msh.store.history import Actor
from msh.store.operations.bulk_jobs import with_cancelling
from tests.admin.conftest import address, url
from tests.flows.world import World, make_world

pytestmark = pytest.mark.django_db

OLE = Actor("ole", "wrong prices")


def suspended_with_a_queue() -> World:
    world = make_world()
    change_link.suspend(world.there, OLE)
    world.submit()
    world.submit()
    OutboundLink.objects.filter(pk=world.link.pk).update(
        suspended_for="retries_spent", late_ack=True
    )
    return world


def cancel(world: World) -> BulkJob:
    return cancel_queue(world.link, OLE, OutboundMessage.objects.latest("pk").pk, uuid4())


def test_alone_or_in_a_list_a_link_gives_the_same_answer() -> None:
    world, other = suspended_with_a_queue(), suspended_with_a_queue()
    cancel_queue(
        world.link, OLE, OutboundMessage.objects.filter(link=world.link).latest("pk").pk, uuid4()
    )
    listed = with_cancelling(OutboundLink.objects.order_by("pk"))
    alone = OutboundLink.objects.order_by("pk")
    answers = {link.pk: is_cancelling(link) for link in listed}
    assert answers == {link.pk: is_cancelling(link) for link in alone}
    assert (answers[world.link.pk], answers[other.link.pk]) == (True, False)


def filled(page: Any) -> list[str]:
    return [offer.action.title for offer in page.context["offers"] if offer.recommended]


def pages_of(client: Client, world: World) -> list[Any]:
    """Of the link, and of the partner."""
    partner = reverse("partner_page", args=[world.there.pk])
    return [client.get(url(OutboundLink, "change", world.link.pk)), client.get(partner)]


def test_a_queue_that_a_job_is_cancelling_is_not_safe_to_resume(operator: Client) -> None:
    world = suspended_with_a_queue()
    for page in pages_of(operator, world):
        assert "safe to resume" in page.content.decode()
        assert filled(page) == ["Resume sending"]

    job = cancel(world)

    for page in pages_of(operator, world):
        html = page.content.decode()
        assert "safe to resume" not in html
        assert f"Bulk job {job.pk}</bdi></a> is cancelling the queue: 2 of 2 messages" in html
        assert url(BulkJob, "change", job.pk) in html
        assert filled(page) == []
    for name in ("admin:index", "admin:msh_outboundlink_changelist"):
        assert "safe to resume" not in operator.get(reverse(name)).content.decode()

    BulkJob.objects.update(state="done", ended_at=timezone.now())
    assert [filled(page) for page in pages_of(operator, world)] == [["Resume sending"]] * 2


def test_nor_is_one_that_a_second_person_has_yet_to_decide_on(
    operator: Client, settings: Any
) -> None:
    settings.MSH_SECOND_PERSON = ["bulk_cancel"]
    world, other = suspended_with_a_queue(), suspended_with_a_queue()
    with pytest.raises(SecondPersonNeeded) as needed:
        cancel(world)
    asked = requests.ask(needed.value)

    for page in pages_of(operator, world):
        html = page.content.decode()
        assert "safe to resume" not in html
        assert f"Request {asked.pk}</bdi></a> waits for a second person." in html
        assert url(ActRequest, "change", asked.pk) in html
        assert filled(page) == []
    assert [filled(page) for page in pages_of(operator, other)] == [["Resume sending"]] * 2

    ActRequest.objects.update(until=timezone.now())
    assert [filled(page) for page in pages_of(operator, world)] == [["Resume sending"]] * 2


def test_the_end_of_a_window_is_not_advised_either(world: World, operator: Client) -> None:
    now = timezone.now()
    maintenance.plan(world.there, OLE, starts_at=now, ends_at=now + timedelta(hours=1))
    watch.follow_maintenance()
    world.submit()
    page = operator.get(url(OutboundLink, "change", world.link.pk)).content.decode()
    assert "sending resumes" in page

    cancel(world)

    page = operator.get(url(OutboundLink, "change", world.link.pk)).content.decode()
    assert "is cancelling the queue" in page
    assert "sending resumes" not in page
    dialog = operator.get(address("end", MaintenanceWindow.objects.get())).content.decode()
    assert "Not resumed: its queue is being cancelled" in dialog
