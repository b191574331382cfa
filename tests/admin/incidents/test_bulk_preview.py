"""The preview of a bulk job: what is selected, ticked and asked before it starts."""

import re
from datetime import datetime, timedelta
from uuid import uuid4

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from msh.admin.incidents import bulk_choice
from msh.flows.operations import change_link
from msh.flows.operations.alerts import maintenance
from msh.flows.operations.many import bulk_jobs
from msh.flows.operations.many.cancel_queue import cancel_queue
from msh.models import BulkItem, BulkJob, OutboundLink, OutboundMessage, place_of
from msh.store.history import Actor
from partners.models import Partner
from tests.admin.conftest import messages_of, waiting_world
from tests.admin.incidents.bulk import ANN, NEW, an_hour_ago, confirm, states, written
from tests.flows.world import World, make_world

pytestmark = pytest.mark.django_db


def plan_window(partner: Partner, starts_at: datetime, ends_at: datetime) -> None:
    maintenance.plan(partner, ANN, starts_at=starts_at, ends_at=ends_at)


def test_a_preview_counts_and_changes_nothing(bulk_user: Client, suspended: list[World]) -> None:
    page = bulk_user.get(NEW, {"action": "resume", "since": written(an_hour_ago())})

    text = page.content.decode()
    assert page.context["counted"] == 3
    assert all(world.there.name in text for world in suspended[:3])
    assert suspended[3].there.name not in text
    assert states(suspended) == ["suspended"] * 4
    assert not BulkJob.objects.exists()


def test_partners_suspended_by_an_operator_can_be_left_out(
    bulk_user: Client, suspended: list[World]
) -> None:
    held = make_world()
    held.submit()
    held.poll()
    change_link.suspend(held.there, Actor("bob", "STOP: they restore a backup"))
    since = an_hour_ago().replace(microsecond=0)
    wanted = {"action": "resume", "since": written(since)}

    page = bulk_user.get(NEW, wanted)
    assert page.context["counted"] == 4
    assert "Suspended by an operator" in page.content.decode()
    assert "bob: STOP: they restore a backup" in page.content.decode()
    assert "The partner refused the message permanently" in page.content.decode()

    page = bulk_user.get(NEW, {**wanted, "spare_held": "on"})
    assert (page.context["counted"], held.there.name in page.content.decode()) == (3, False)
    confirm(bulk_user, seen=page.context["seen"], spare_held="on")
    bulk_jobs.run()
    assert held.link.state == "suspended"
    assert states(suspended[:3]) == ["waiting"] * 3


def test_changed_selection_starts_no_job(bulk_user: Client, suspended: list[World]) -> None:
    """As many, but another partner."""
    seen = bulk_jobs.seen("resume", an_hour_ago())
    change_link.resume(suspended[0].there, ANN)
    OutboundLink.objects.filter(pk=suspended[3].link.pk).update(suspended_since=timezone.now())

    response = confirm(bulk_user, seen=seen)

    assert "The selection has changed: 3 rows match now. Check it again." in messages_of(response)
    assert response.context["counted"] == 3
    assert not BulkJob.objects.exists()


def test_confirmed_preview_starts_its_rows(bulk_user: Client, suspended: list[World]) -> None:
    query = {"action": "resume", "since": written(an_hour_ago())}
    page = bulk_user.get(NEW, query)
    hidden = f'<input type="hidden" name="seen" value="{page.context["seen"]}">'
    assert hidden in page.content.decode()

    shown = {name: page.context[name] for name in ("seen", "confirmation")}
    bulk_user.post(NEW, {**query, **shown, "reason": "back"})

    assert BulkJob.objects.get().total == 3


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

    page = bulk_user.get(NEW, {"action": "resume", "period": "3600"})

    rows = {row.key: row for row in page.context["rows"]}
    assert {key for key, row in rows.items() if not row.why_not} == {free.there.pk}
    text = page.content.decode()
    assert f'value="{free.there.pk}" checked' in text
    assert f'value="{cancelled.there.pk}" checked' not in text
    assert f"Bulk job {job.pk}" in rows[cancelled.there.pk].why_not
    assert "Maintenance until " in rows[maintained.there.pk].why_not
    assert text.count("Not selected:") == 2
    assert "2 queued, the oldest " in rows[free.there.pk].text

    confirm(bulk_user, ticked="yes", keys=[maintained.there.pk])  # as the operator decides
    assert BulkItem.objects.get(job=BulkJob.objects.latest("pk")).key == maintained.there.pk


def test_what_cancels_the_queues_of_all_listed_links_is_read_at_once(
    bulk_user: Client, suspended: list[World]
) -> None:
    def statements_with(cancelled: int) -> int:
        with CaptureQueriesContext(connection) as asked:
            page = bulk_user.get(NEW, {"action": "resume", "period": "3600"})
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
    query = {"action": "resume", "period": "0"}

    page = bulk_user.get(NEW, query)
    assert (page.context["counted"], page.context["left_out"]) == (3, 1)
    shown = {name: page.context[name] for name in ("seen", "confirmation", "since")}
    bulk_user.post(NEW, {"action": "resume", **shown, "reason": "back"})

    chosen = set(BulkItem.objects.values_list("key", flat=True))
    assert chosen == {world.there.pk for world in suspended[1:]}


def test_one_is_tried_first_with_one_click(bulk_user: Client, suspended: list[World]) -> None:
    """The one with the shortest queue, whatever is ticked and without a typed reason."""
    suspended[0].submit()
    suspended[2].submit()
    query = {"action": "resume", "period": "3600"}
    page = bulk_user.get(NEW, query)
    assert page.context["first"].key == suspended[1].there.pk
    assert "formnovalidate" in page.content.decode()

    one = str(page.context["first"].key)
    keys = [world.there.pk for world in suspended[:3]]
    confirm(bulk_user, ticked="yes", keys=keys, one=one, reason="")

    assert BulkItem.objects.get().key == suspended[1].there.pk
    assert BulkJob.objects.get().reason == "One of several is tried first"


def test_fields_that_the_action_does_not_use_are_not_shown(bulk_user: Client) -> None:
    def labels(**query: str) -> set[str]:
        form = bulk_user.get(NEW, query).context["form"]
        return {field.name for field in form.shown()}

    assert labels() == labels(action="resume") == {"action", "since", "spare_held"}
    assert labels(action="run-again") == {"action", "since"}
    assert labels(action="replay") == {"action", "since", "consumer", "partner"}
    assert labels(action="resume", cause="retries_spent", period="0") == set()


def test_another_action_leaves_out_whom_an_operator_suspended(bulk_user: Client) -> None:
    """Chosen in the form of an action that does not ask for it."""
    world = waiting_world()
    change_link.suspend(world.there, Actor("bob", "they move"))
    form = bulk_user.get(NEW, {"action": "run-again", "period": "0"}).content.decode()
    form = form[form.index('<form method="get" class="msh-form"') :].partition("</form>")[0]
    hidden = dict(re.findall(r'<input type="hidden" name="(\w+)" value="(\w+)"', form))

    page = bulk_user.get(NEW, {**hidden, "action": "resume", "period": "0"})

    assert page.context["counted"] == 0
    unticked = bulk_user.get(NEW, {"action": "resume", "period": "0"})
    assert unticked.context["counted"] == 1
    assert not unticked.context["form"].spares_unseen()
