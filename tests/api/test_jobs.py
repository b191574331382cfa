"""`jobs`, `replays`, `maintenance`: by the flows and permissions of the console."""

from datetime import timedelta
from uuid import uuid4

import pytest
import time_machine
from django.utils import timezone

from msh.flows.operations import maintenance
from msh.flows.operations.many import bulk_jobs
from msh.models import (
    BulkJob,
    Delivery,
    MaintenanceWindow,
    OutboundLink,
    OutboundMessage,
)
from tests.admin.conftest import suspended_world, waiting_world
from tests.api.conftest import Tokens
from tests.api.test_access import assert_problem
from tests.many.test_replay import completed

pytestmark = pytest.mark.django_db

WHY = {"reason": "their data centre moves"}
PLAN = ("view_outboundlink", "suspend_outboundlink", "resume_outboundlink")
WINDOWS = (*PLAN, "view_maintenancewindow")
QUEUE = ("view_outboundmessage", "view_outboundlink", "cancel_outboundlink", "bulk_bulkjob")
START_REPLAY = ("view_delivery", "replay_delivery", "bulk_bulkjob")
REPLAY = (*START_REPLAY, "view_bulkjob")


def test_a_window_is_planned_listed_and_ended(token: Tokens) -> None:
    world = waiting_world()
    operator = token("operate", may=WINDOWS)
    path = f"links/{world.link.pk}/plan-maintenance"
    soon, later = (timezone.now() + timedelta(hours=n) for n in (1, 3))
    times = {"starts_at": soon.isoformat(), "ends_at": later.isoformat()}

    planned = operator.post(path, {**WHY, **times})

    assert planned.status == 201
    window = MaintenanceWindow.objects.get()
    assert planned.json == {
        "id": window.pk, "partner": world.there.name, "state": "planned",
        "starts_at": operator.get("maintenance").json["results"][0]["starts_at"],
        "ends_at": planned.json["ends_at"], "reason": planned.json["reason"],
        "planned_by": operator.name, "planned_at": planned.json["planned_at"],
        "resume_suspended": False, "ended_at": None, "ended_by": "", "outcome": "",
    }  # fmt: skip
    assert (window.starts_at, window.ends_at) == (soon, later)
    assert_problem(operator.post(path, {**WHY, **times}), 409, "has a window from")
    assert operator.get("maintenance", partner="nobody").json["results"] == []
    (listed,) = operator.get("maintenance", state="planned").json["results"]
    assert listed["id"] == window.pk
    ended = operator.post(f"maintenance/{window.pk}/end", WHY)
    assert (ended.json["state"], ended.json["ended_by"]) == ("cancelled", operator.name)
    assert_problem(operator.post(f"maintenance/{window.pk}/end", WHY), 409, "already ended")


def test_a_window_without_a_beginning_begins_now(token: Tokens) -> None:
    world = waiting_world()
    operator = token("operate", may=PLAN)
    until = timezone.now() + timedelta(hours=1)
    path = f"links/{world.link.pk}/plan-maintenance"
    with time_machine.travel(timezone.now() + timedelta(hours=2)):
        planned = operator.post(path, {**WHY, "ends_at": until.isoformat()})
    assert planned.status == 201, "by the clock of the database, not of this host"
    (key,) = maintenance.due()
    maintenance.follow(key)
    assert OutboundLink.objects.get().state == "suspended"
    assert_problem(
        operator.post(path, {**WHY, "ends_at": "1999-01-01T00:00:00Z"}), 409, "in the future"
    )
    assert_problem(operator.post(path, WHY), 422, "ends_at")


def test_a_queue_is_counted_and_cancelled_as_a_job(
    token: Tokens, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = suspended_world(queued=2)
    operator = token("operate", may=(*QUEUE, "view_bulkjob"))
    path = f"links/{world.link.pk}"
    queue = operator.get(f"{path}/queue").json
    assert (queue["count"], queue["last"]) == (2, OutboundMessage.objects.latest("pk").pk)
    with monkeypatch.context() as patched:
        patched.setattr(bulk_jobs, "LIMIT", 1)
        taken = operator.get(f"{path}/queue").json
    first = OutboundMessage.objects.queued().earliest("pk").pk
    assert (taken["count"], taken["later"], taken["last"]) == (1, 1, first), "of one job"
    world.submit()
    body = {**WHY, "last": queue["last"], "confirmation": str(uuid4())}

    begun = operator.post(f"{path}/cancel-queue", body)

    assert (begun.status, begun.json["total"], begun.json["state"]) == (201, 2, "running")
    assert operator.post(f"{path}/cancel-queue", body).json["id"] == begun.json["id"]
    bulk_jobs.run()
    done = operator.get(f"jobs/{begun.json['id']}").json
    assert (done["state"], done["done"], done["refused"]) == ("done", 2, 0)
    rows = operator.get(f"jobs/{begun.json['id']}/rows").json["results"]
    assert [row["done"] for row in rows] == [True, True]
    assert OutboundMessage.objects.queued().count() == 1, "what came later stays"
    assert operator.get("jobs", state="running").json["results"] == []
    assert [one["id"] for one in operator.get("jobs").json["results"]] == [done["id"]]


@pytest.mark.parametrize("confirmation", [True, False, 1, 0, 7.0, ["a"], {"a": 1}, "true", ""])
def test_a_confirmation_is_a_uuid_and_nothing_else(token: Tokens, confirmation: object) -> None:
    """`true` would be the same confirmation for each queue that is cancelled."""
    world = suspended_world(queued=2)
    operator = token("operate", may=(*QUEUE, "view_bulkjob"))
    body = {**WHY, "confirmation": confirmation}

    assert_problem(operator.post(f"links/{world.link.pk}/cancel-queue", body), 422)

    assert not BulkJob.objects.exists()


def test_an_empty_queue_begins_no_job(token: Tokens) -> None:
    world = waiting_world()
    operator = token("operate", may=QUEUE)
    assert operator.get(f"links/{world.link.pk}/queue").json["last"] == 0
    assert_problem(operator.post(f"links/{world.link.pk}/cancel-queue", WHY), 409, "Nothing is")


def test_one_delivery_is_replayed(token: Tokens) -> None:
    (first,) = completed()
    operator = token("operate", may=REPLAY)
    begun = operator.post(f"deliveries/{first.pk}/replay", WHY)
    assert (begun.status, begun.json["action"], begun.json["total"]) == (201, "replay", 1)
    bulk_jobs.run()
    replay = Delivery.objects.exclude(pk=first.pk).get()
    assert replay.replay_of == first
    assert_problem(operator.post(f"deliveries/{replay.pk}/replay", WHY), 409, "itself a replay")
    assert_problem(operator.post("deliveries/999999/replay", WHY), 404)


def test_all_that_a_consumer_has_completed_is_replayed(token: Tokens) -> None:
    first, _ = completed(2)
    operator = token("operate", may=REPLAY)
    chosen = {"consumer": first.consumer.name, "since": "2020-01-01T00:00:00Z"}
    counted = operator.get("replays", **chosen).json
    assert counted["count"] == 2
    wrong = operator.post("replays", {**WHY, **chosen, "if_seen": "others"})
    assert_problem(wrong, 409, "The selection has changed")
    begun = operator.post("replays", {**WHY, **chosen, "if_seen": counted["seen"]})
    assert (begun.status, begun.json["total"]) == (201, 2)
    cancelled = operator.post(f"jobs/{begun.json['id']}/cancel", WHY)
    assert (cancelled.json["state"], cancelled.json["cancelled_by"]) == (
        *("cancelled", operator.name),
    )
    assert_problem(operator.post(f"jobs/{begun.json['id']}/cancel", WHY), 409, "already ended")
    nobody = {**WHY, "consumer": first.consumer.name, "since": "2999-01-01T00:00:00Z"}
    assert_problem(operator.post("replays", nobody), 409, "no row matches")
    assert_problem(operator.get("replays", consumer="nobody"), 404, "No consumer")
    unknown = {**WHY, **chosen, "partner": "nobody"}
    assert_problem(operator.post("replays", unknown), 404, "No partner")


CALLS = [
    ("get", "maintenance", ("view_maintenancewindow",)),
    ("get", "links/{link}/queue", ("view_outboundlink",)),
    ("get", "replays", START_REPLAY),
    ("post", "replays", START_REPLAY),
    ("get", "jobs", ("view_bulkjob",)),
    ("get", "jobs/{job}", ("view_bulkjob",)),
    ("get", "jobs/{job}/rows", ("view_bulkjob",)),
]


@pytest.mark.parametrize(("method", "path", "needed"), CALLS)
def test_each_needs_the_permissions_of_the_console(
    token: Tokens, method: str, path: str, needed: tuple[str, ...]
) -> None:
    address = path.format(link=1, job=1)
    for without in needed:
        caller = token("operate", may=tuple(name for name in needed if name != without))
        answer = caller.get(address) if method == "get" else caller.post(address, WHY)
        assert_problem(answer, 403, "needs the permissions")
