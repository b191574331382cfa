"""What became of the rows of a job, a choice of them, and the way to it."""

from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from msh.flows.operations import change_link
from msh.flows.operations.many import bulk_jobs
from msh.models import (
    BulkItem,
    BulkJob,
    ConsumerKind,
    Delivery,
    OutboundLink,
    OutboundMessage,
)
from msh.protocol.kinds import IncidentKind
from msh.store.history import Actor
from tests.admin.conftest import messages_of, waiting_world
from tests.admin.many import UNAUTHORIZED, suspended_partners
from tests.delivery.desk import consumer, receive
from tests.flows.world import make_world

pytestmark = pytest.mark.django_db

NEW = reverse("admin:msh_bulkjob_new")
BY_CAUSE = {"action": "resume", "cause": "retries_spent.credentials"}


def keys(page: Any) -> list[int]:
    return [row.key for row in page.context["rows"]]


def start(client: Client, page: Any, chosen: list[int], query: dict[str, str]) -> Any:
    shown = {name: page.context[name] for name in ("seen", "since")}
    form = {**query, **shown, "confirmation": uuid4(), "reason": "new token", "ticked": "yes"}
    return client.post(NEW, {**form, "keys": chosen})


def test_a_group_of_the_dashboard_is_previewed(supervisor: Client) -> None:
    refused = suspended_partners(3, UNAUTHORIZED)
    suspended_partners(4)
    dashboard = supervisor.get(reverse("admin:index")).context
    everybody, group = dashboard["resume_url"], dashboard["suspended"].groups[0]

    assert supervisor.get(everybody).context["counted"] == 7
    assert supervisor.get(group.resume).context["counted"] == 4
    assert sorted(keys(supervisor.get(NEW, BY_CAUSE))) == [one.partner_id for one in refused]
    assert "The partner refuses our credentials" in supervisor.get(NEW, BY_CAUSE).content.decode()


def test_only_the_chosen_rows_are_resumed(supervisor: Client) -> None:
    first, second, _ = suspended_partners(3, UNAUTHORIZED)
    page = supervisor.get(NEW, BY_CAUSE)

    start(supervisor, page, [first.partner_id, second.partner_id], BY_CAUSE)

    items = BulkItem.objects.values_list("key", flat=True)
    assert sorted(items) == [first.partner_id, second.partner_id]


def test_nothing_chosen_starts_nothing(supervisor: Client) -> None:
    suspended_partners(1, UNAUTHORIZED)
    page = supervisor.get(NEW, BY_CAUSE)

    assert "no row is selected" in messages_of(start(supervisor, page, [], BY_CAUSE))
    assert not BulkJob.objects.exists()


def test_a_choice_that_no_longer_matches_starts_nothing(supervisor: Client) -> None:
    (link,) = suspended_partners(1, UNAUTHORIZED)
    page = supervisor.get(NEW, BY_CAUSE)
    links = OutboundLink.objects.filter(pk=link.pk)
    links.update(state="idle", in_flight=None, suspended_since=None)

    assert "0 rows match now" in messages_of(start(supervisor, page, [link.partner_id], BY_CAUSE))


@pytest.mark.parametrize(("period", "counted"), [("3600", 1), ("86400", 2), ("0", 3)])
def test_a_period_is_one_click(supervisor: Client, period: str, counted: int) -> None:
    for hours in (0, 2, 48):
        suspended_partners(1, since=timezone.now() - timedelta(hours=hours))

    page = supervisor.get(NEW, {"action": "resume", "period": period})

    assert page.context["counted"] == counted


def test_a_job_tells_what_became_of_its_rows(supervisor: Client) -> None:
    links = suspended_partners(3, UNAUTHORIZED)
    start(supervisor, supervisor.get(NEW, BY_CAUSE), [one.partner_id for one in links], BY_CAUSE)
    bulk_jobs.run()
    job = BulkJob.objects.get()
    up, again, _ = (OutboundLink.objects.filter(pk=one.pk) for one in links)
    OutboundMessage.objects.filter(link=links[0], state="in_flight").update(
        state="acknowledged", completed_at=timezone.now()
    )
    up.update(state="idle", in_flight=None, due=None, unsent=False)
    again.update(
        state="suspended", due=None, unsent=False, suspended_for=IncidentKind.RETRIES_SPENT,
        suspended_since=job.started_at + timedelta(seconds=24),
    )  # fmt: skip

    page = supervisor.get(reverse("admin:msh_bulkjob_change", args=[job.pk]))

    text = page.content.decode()
    assert "Now: 1 up, 1 sent and not acknowledged yet, 1 suspended again." in text
    assert 'hx-trigger="every 10s"' in text
    (listed,) = supervisor.get(reverse("admin:msh_bulkjob_changelist")).context["cl"].result_list
    assert listed.suspended_again == 1
    (results,) = page.context["tables"]
    assert links[1].partner.name in str(results.rows[0][0])
    assert "suspended again after 24 s" in str(results.rows[0][2])
    assert "The partner refuses our credentials" in str(results.rows[0][2])
    assert "401 Unauthorized" in str(results.rows[0][2])
    BulkJob.objects.update(ended_at=timezone.now() - timedelta(hours=2))
    assert "every 10s" not in supervisor.get(page.request["PATH_INFO"]).content.decode()


def test_deliveries_that_stopped_again_are_told(supervisor: Client) -> None:
    query, now = {"action": "run-again"}, timezone.now()
    (message,) = receive(make_world())
    delivery = Delivery.objects.create(
        consumer=consumer(ConsumerKind.PULL), message=message, state="parked", attempt=1,
        started_at=now, ended_at=now,
    )  # fmt: skip
    start(supervisor, supervisor.get(NEW, {**query, "period": "0"}), [delivery.pk], query)
    bulk_jobs.run()
    page = reverse("admin:msh_bulkjob_change", args=[BulkJob.objects.get().pk])
    told = supervisor.get(page).content.decode()
    assert "Now: 0 ended, 1 still running, 0 stopped again." in told

    Delivery.objects.update(state="blocked", due=None)

    assert "1 stopped again" in supervisor.get(page).content.decode()


def test_the_reason_of_an_operator_is_previewed_and_not_the_last_answer(
    supervisor: Client,
) -> None:
    world = waiting_world()
    change_link.suspend(world.there, Actor("bob", "they move"))

    page = supervisor.get(NEW, {"action": "resume", "period": "0"}).content.decode()

    assert "bob: they move" in page


def test_whom_somebody_else_suspended_was_not_suspended_again(supervisor: Client) -> None:
    """An operator or a maintenance window; they are not up either."""
    links = suspended_partners(3, UNAUTHORIZED)
    start(supervisor, supervisor.get(NEW, BY_CAUSE), [one.partner_id for one in links], BY_CAUSE)
    bulk_jobs.run()
    job = BulkJob.objects.get()
    change_link.suspend(links[0].partner, Actor("bob", "they move"))
    OutboundLink.objects.filter(pk=links[1].pk).update(
        state="suspended", due=None, unsent=False, suspended_for=IncidentKind.RETRIES_SPENT,
        suspended_since=job.started_at - timedelta(seconds=1),
    )  # fmt: skip

    (listed,) = supervisor.get(reverse("admin:msh_bulkjob_changelist")).context["cl"].result_list
    assert listed.suspended_again == 0
    page = supervisor.get(reverse("admin:msh_bulkjob_change", args=[job.pk]))
    text = page.content.decode()
    assert "0 suspended again, 2 suspended for another reason." in text
    assert "Now: 0 up, 1 sent and not acknowledged yet" in text
    assert "suspended again after" not in text
