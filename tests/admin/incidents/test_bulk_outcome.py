"""What became of the rows of a job, a choice of them, and the way to it."""

from datetime import timedelta

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
from tests.admin.conftest import client_of, messages_of, url, waiting_world
from tests.admin.incidents.bulk import confirm, keys, preview_url
from tests.admin.many import UNAUTHORIZED, suspended_partners
from tests.delivery.desk import consumer, receive
from tests.flows.world import make_world

pytestmark = pytest.mark.django_db

BY_CAUSE = {"cause": "retries_spent.credentials"}


def test_a_group_of_the_dashboard_is_previewed(supervisor: Client) -> None:
    refused = suspended_partners(3, UNAUTHORIZED)
    suspended_partners(4)
    dashboard = supervisor.get(reverse("admin:index")).context
    everybody, group = dashboard["resume_url"], dashboard["suspended"].groups[0]

    assert supervisor.get(everybody).context["counted"] == 7
    assert supervisor.get(group.resume).context["counted"] == 4
    page = supervisor.get(preview_url("resume", **BY_CAUSE))
    assert sorted(keys(page)) == [one.partner_id for one in refused]
    assert "The partner refuses our credentials" in page.content.decode()
    listed = supervisor.get(url(OutboundLink, "changelist"), BY_CAUSE).context["cl"].result_list
    assert {link.pk for link in listed} == {one.pk for one in refused}


def test_only_the_chosen_rows_are_resumed(supervisor: Client) -> None:
    first, second, _ = suspended_partners(3, UNAUTHORIZED)

    confirm(supervisor, "resume", BY_CAUSE, keys=[first.partner_id, second.partner_id])

    items = BulkItem.objects.values_list("key", flat=True)
    assert sorted(items) == [first.partner_id, second.partner_id]


def test_nothing_chosen_starts_nothing(supervisor: Client) -> None:
    suspended_partners(1, UNAUTHORIZED)

    response = confirm(supervisor, "resume", BY_CAUSE, keys=[])

    assert "no row is selected" in messages_of(response)
    assert not BulkJob.objects.exists()


def test_a_choice_that_no_longer_matches_starts_nothing(supervisor: Client) -> None:
    (link,) = suspended_partners(1, UNAUTHORIZED)
    shown = supervisor.get(preview_url("resume", **BY_CAUSE)).context["confirmation"]
    links = OutboundLink.objects.filter(pk=link.pk)
    links.update(state="idle", in_flight=None, suspended_since=None)

    once = {"seen": "x", "confirmation": shown, "ticked": "yes", "keys": [link.partner_id]}
    response = supervisor.post(preview_url("resume", **BY_CAUSE), {**once, "reason": "new token"})

    assert "0 rows match now" in messages_of(response)


def test_a_job_tells_what_became_of_its_rows(supervisor: Client) -> None:
    links = suspended_partners(3, UNAUTHORIZED)
    confirm(supervisor, "resume", BY_CAUSE)
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
    now = timezone.now()
    (message,) = receive(make_world())
    Delivery.objects.create(
        consumer=consumer(ConsumerKind.PULL), message=message, state="parked", attempt=1,
        started_at=now, ended_at=now,
    )  # fmt: skip
    confirm(supervisor, "run-again", {})
    bulk_jobs.run()
    page = reverse("admin:msh_bulkjob_change", args=[BulkJob.objects.get().pk])
    told = supervisor.get(page).content.decode()
    assert "Now: 0 ended, 1 still running, 0 stopped again." in told

    Delivery.objects.update(state="blocked", due=None)

    after = supervisor.get(page)
    assert "Now: 1 of 1 is stopped again." in after.content.decode()
    (results,) = after.context["tables"]
    assert f"from {message.link.partner.name} to " in str(results.rows[0][0])
    (again,) = after.context["jumps"]
    assert (again.title, again.recommended) == ("Try this one again …", False)
    assert keys(supervisor.get(again.url)) == [Delivery.objects.get().pk]


def test_a_job_that_was_in_vain_is_not_green_and_leads_to_the_next_try(
    supervisor: Client,
) -> None:
    """F28 of the review of the console: six green DONE while all six were suspended again."""
    links = suspended_partners(3, UNAUTHORIZED)
    confirm(supervisor, "resume", BY_CAUSE)
    bulk_jobs.run()
    job = BulkJob.objects.get()
    OutboundLink.objects.update(
        state="suspended", due=None, unsent=False, suspended_for=IncidentKind.RETRIES_SPENT,
        suspended_since=job.started_at + timedelta(seconds=24),
    )  # fmt: skip
    suspended_partners(1, UNAUTHORIZED)

    page = supervisor.get(reverse("admin:msh_bulkjob_change", args=[job.pk]))

    assert "Now: 3 of 3 are suspended again." in page.content.decode()
    assert [part["title"] for part in page.context["outcome"].parts] == ["failed again"]
    assert "bg-green" not in page.context["status"]
    (results,) = page.context["tables"]
    assert all("bg-green" not in str(row[1]) for row in results.rows)
    (again,) = page.context["jumps"]
    assert again.title == "Try these 3 again …"
    assert sorted(keys(supervisor.get(again.url))) == sorted(one.partner_id for one in links)


def test_who_may_not_start_a_job_is_not_led_to_one(supervisor: Client) -> None:
    suspended_partners(1, UNAUTHORIZED)
    confirm(supervisor, "resume", BY_CAUSE)
    bulk_jobs.run()
    job = BulkJob.objects.get()
    OutboundLink.objects.update(
        state="suspended", due=None, unsent=False, suspended_for=IncidentKind.RETRIES_SPENT,
        suspended_since=job.started_at + timedelta(seconds=24),
    )  # fmt: skip
    viewer = client_of("vera", "view_bulkjob")
    page = viewer.get(reverse("admin:msh_bulkjob_change", args=[job.pk]))
    assert page.context["jumps"] == []


def test_the_reason_of_an_operator_is_previewed_and_not_the_last_answer(
    supervisor: Client,
) -> None:
    world = waiting_world()
    change_link.suspend(world.there, Actor("bob", "they move"))

    page = supervisor.get(preview_url("resume")).content.decode()

    assert "bob: they move" in page


def test_whom_somebody_else_suspended_was_not_suspended_again(supervisor: Client) -> None:
    """An operator or a maintenance window; they are not up either."""
    links = suspended_partners(3, UNAUTHORIZED)
    confirm(supervisor, "resume", BY_CAUSE)
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
