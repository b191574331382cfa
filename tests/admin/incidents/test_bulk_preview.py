"""The preview of a bulk job: what is selected, ticked and asked before it starts."""

from datetime import datetime, timedelta
from uuid import uuid4

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from django.utils.html import escape

from msh.admin.incidents import bulk_choice
from msh.flows.operations import change_link, maintenance
from msh.flows.operations.many.cancel_queue import cancel_queue
from msh.models import BulkItem, BulkJob, OutboundLink, OutboundMessage, place_of
from msh.protocol.lane import OPERATOR
from msh.store.history import Actor
from partners.models import Partner
from tests.admin.conftest import client_of, messages_of, url
from tests.admin.incidents.bulk import (
    ANN,
    NEW,
    RIGHTS,
    confirm,
    keys,
    of_last_hour,
    preview_url,
    states,
)
from tests.flows.world import World, make_world

pytestmark = pytest.mark.django_db


def plan_window(partner: Partner, starts_at: datetime, ends_at: datetime) -> None:
    maintenance.plan(partner, ANN, starts_at=starts_at, ends_at=ends_at)


def test_a_preview_counts_and_changes_nothing(bulk_user: Client, suspended: list[World]) -> None:
    page = bulk_user.get(preview_url("resume", **of_last_hour()))

    text = page.content.decode()
    assert page.context["counted"] == 3
    assert all(world.there.name in text for world in suspended[:3])
    assert suspended[3].there.name not in text
    assert states(suspended) == ["suspended"] * 4
    assert not BulkJob.objects.exists()


def test_partners_suspended_by_an_operator_are_not_ticked(
    bulk_user: Client, suspended: list[World], monkeypatch: pytest.MonkeyPatch
) -> None:
    held = make_world()
    held.submit()
    held.poll()
    change_link.suspend(held.there, Actor("bob", "STOP: they restore a backup"))

    page = bulk_user.get(preview_url("resume", **of_last_hour()))
    (row,) = [row for row in page.context["rows"] if row.why_not]
    assert (page.context["counted"], row.key) == (4, held.there.pk)
    assert "Suspended by an operator" in page.content.decode()
    assert "bob: STOP: they restore a backup" in page.content.decode()
    assert "The partner refused the message permanently" in page.content.decode()
    by_cause = bulk_user.get(preview_url("resume", cause=OPERATOR)).context["rows"]
    assert [(row.key, row.why_not) for row in by_cause] == [(held.there.pk, "")]

    monkeypatch.setattr(bulk_choice, "LISTED", 1)
    many = bulk_user.get(preview_url("resume", **of_last_hour())).context
    assert (many["counted"], many["left_out"]) == (3, 1)


def test_changed_selection_starts_no_job(bulk_user: Client, suspended: list[World]) -> None:
    """As many, but another partner."""
    where = preview_url("resume", **of_last_hour())
    page = bulk_user.get(where)
    change_link.resume(suspended[0].there, ANN)
    OutboundLink.objects.filter(pk=suspended[3].link.pk).update(suspended_since=timezone.now())

    shown = {name: page.context[name] for name in ("seen", "confirmation")}
    response = bulk_user.post(where, {**shown, "reason": "back"})

    assert "The selection has changed: 3 rows match now. Check it again." in messages_of(response)
    assert response.context["counted"] == 3
    assert not BulkJob.objects.exists()


def test_a_list_leads_to_the_preview_of_what_it_shows(
    supervisor: Client, operator: Client, suspended: list[World]
) -> None:
    filters = {"state__exact": "suspended", "q": suspended[0].there.name}
    listed = supervisor.get(url(OutboundLink, "changelist"), filters)

    (where,) = listed.context["bulk"].values()

    assert escape(where) in listed.content.decode()
    assert keys(supervisor.get(where)) == [suspended[0].there.pk]
    assert not operator.get(url(OutboundLink, "changelist"), filters).context["bulk"]


def test_blank_reason_is_refused_and_the_preview_stays(
    bulk_user: Client, suspended: list[World]
) -> None:
    response = confirm(bulk_user, reason="  ")

    assert "a reason is required" in messages_of(response)
    assert response.context["counted"] == 3


def test_a_row_that_should_stay_suspended_is_not_ticked(
    bulk_user: Client, suspended: list[World]
) -> None:
    cancelled, maintained, free, _ = suspended
    last = OutboundMessage.objects.filter(link=cancelled.link.pk).latest("pk").pk
    job = cancel_queue(cancelled.link, ANN, last, uuid4())
    now = timezone.now()
    plan_window(maintained.there, now - timedelta(minutes=1), now + timedelta(hours=1))

    page = bulk_user.get(preview_url("resume", **of_last_hour()))

    rows = {row.key: row for row in page.context["rows"]}
    assert {key for key, row in rows.items() if not row.why_not} == {free.there.pk}
    text = page.content.decode()
    assert f'value="{free.there.pk}" checked' in text
    assert f'value="{cancelled.there.pk}" checked' not in text
    assert f"Bulk job {job.pk}" in rows[cancelled.there.pk].why_not
    assert "Maintenance until " in rows[maintained.there.pk].why_not
    assert text.count("Not selected:") == 2
    assert "2 queued, the oldest " in rows[free.there.pk].text

    confirm(bulk_user, keys=[maintained.there.pk])  # as the operator decides
    assert BulkItem.objects.get(job=BulkJob.objects.latest("pk")).key == maintained.there.pk


def test_what_cancels_the_queues_of_all_listed_links_is_read_at_once(
    bulk_user: Client, suspended: list[World]
) -> None:
    def statements_with(cancelled: int) -> int:
        with CaptureQueriesContext(connection) as asked:
            page = bulk_user.get(preview_url("resume", **of_last_hour()))
        why_not = {row.key: row.why_not for row in page.context["rows"] if row.why_not}
        assert why_not.keys() == {world.there.pk for world in suspended[:cancelled]}
        for world in suspended[:cancelled]:
            job = BulkJob.objects.get(about=place_of(world.link))
            assert f"Bulk job {job.pk}" in why_not[world.there.pk]
        return len(asked)

    statements_with(0)
    counts = []
    for number, world in enumerate(suspended[:3], start=1):
        last = OutboundMessage.objects.filter(link=world.link.pk).latest("pk").pk
        cancel_queue(world.link, ANN, last, uuid4())
        counts.append(statements_with(number))
    assert len(set(counts)) == 1


def test_of_too_many_to_tick_those_that_should_stay_suspended_are_left_out(
    bulk_user: Client, suspended: list[World], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk_choice, "LISTED", 1)
    now = timezone.now()
    plan_window(suspended[0].there, now - timedelta(minutes=1), now + timedelta(hours=1))

    page = bulk_user.get(preview_url("resume"))
    assert (page.context["counted"], page.context["left_out"]) == (3, 1)
    shown = {name: page.context[name] for name in ("seen", "confirmation")}
    bulk_user.post(preview_url("resume"), {**shown, "reason": "back"})

    chosen = set(BulkItem.objects.values_list("key", flat=True))
    assert chosen == {world.there.pk for world in suspended[1:]}


def test_one_is_tried_first_with_one_click(bulk_user: Client, suspended: list[World]) -> None:
    """The one with the shortest queue, whatever is ticked and without a typed reason."""
    suspended[0].submit()
    suspended[2].submit()
    page = bulk_user.get(preview_url("resume", **of_last_hour()))
    assert page.context["first"].key == suspended[1].there.pk
    assert "formnovalidate" in page.content.decode()

    one = str(page.context["first"].key)
    confirm(bulk_user, one=one, reason="")

    assert BulkItem.objects.get().key == suspended[1].there.pk
    assert BulkJob.objects.get().reason == "One of several is tried first"


def test_without_an_action_the_page_names_those_that_are_permitted(supervisor: Client) -> None:
    few = client_of("otto", *RIGHTS).get(NEW)
    assert [name for name, *_ in few.context["ways"]] == ["Resume partners"]
    page = supervisor.get(NEW)
    assert len(page.context["ways"]) == 5
    for _, where, listed in page.context["ways"]:
        assert supervisor.get(where).context["counted"] == 0
        assert supervisor.get(listed).status_code == 200
