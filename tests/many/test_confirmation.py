"""A request that is repeated with its `confirmation` gets its job, whatever has happened since."""

from typing import Any
from uuid import uuid4

import pytest
from django.test import Client
from pytest_django import Settings

from msh import roles
from msh.flows.operations import bulk_jobs
from msh.models import ActRequest, BulkJob, Delivery, Incident
from tests.admin.conftest import client_with_role, suspended_world, use
from tests.api.conftest import Tokens
from tests.api.test_access import assert_problem
from tests.api.test_jobs import QUEUE, REPLAY
from tests.many.test_replay import completed

pytestmark = pytest.mark.django_db


def body(**values: object) -> dict[str, Any]:
    return {"reason": "wrong prices", "confirmation": str(uuid4()), **values}


def test_a_queue_that_is_cancelled_meanwhile_is_answered_with_its_job(token: Tokens) -> None:
    path = f"links/{suspended_world(queued=2).link.pk}/cancel-queue"
    operator = token("operate", may=QUEUE)
    once = body()
    begun = operator.post(path, once)
    assert bulk_jobs.run() == 2
    again = operator.post(path, once)
    assert (again.status, again.json["id"], again.json["done"]) == (201, begun.json["id"], 2)
    assert_problem(operator.post(path, body()), 409, "Nothing is queued")


def test_a_confirmation_of_something_else_is_refused(token: Tokens) -> None:
    first, second = (suspended_world(queued=1).link.pk for _ in range(2))
    operator = token("operate", may=tuple({*QUEUE, *REPLAY}))
    once = body()
    job = operator.post(f"links/{first}/cancel-queue", once).json["id"]
    one, _ = completed(2)
    chosen = {"consumer": one.consumer.name}
    why = f"This confirmation has begun bulk job {job}, which is about something else"
    assert_problem(operator.post(f"links/{second}/cancel-queue", once), 409, why)
    assert_problem(operator.post("replays", {**once, **chosen}), 409, why)
    twice = body()
    replays = operator.post("replays", {**twice, **chosen}).json["id"]
    assert operator.post("replays", {**twice, **chosen}).json["id"] == replays
    later = {**twice, **chosen, "since": "2020-01-01T00:00:00Z"}
    assert_problem(operator.post("replays", later), 409, "about something else")
    partner = one.message.link.partner.name
    assert_problem(operator.post("replays", {**twice, **chosen, "partner": partner}), 409)
    assert BulkJob.objects.count() == 2


def test_what_is_replayed_is_answered_with_its_job_although_nothing_matches_any_more(
    token: Tokens,
) -> None:
    (one,) = completed()
    operator = token("operate", may=REPLAY)
    once = body(consumer=one.consumer.name)
    begun = operator.post("replays", once)
    Delivery.objects.filter(pk=one.pk).update(state="rejected")
    again = operator.post("replays", once)
    assert (again.status, again.json["id"]) == (201, begun.json["id"])


def test_one_delivery_is_replayed_once(token: Tokens) -> None:
    one, other = completed(2)
    operator = token("operate", may=REPLAY)
    once = body()
    begun = operator.post(f"deliveries/{one.pk}/replay", once)
    assert (begun.status, bulk_jobs.run()) == (201, 1)
    again = operator.post(f"deliveries/{one.pk}/replay", once)
    assert (again.status, again.json["id"]) == (201, begun.json["id"])
    assert Delivery.objects.filter(replay_of=one).count() == 1
    assert_problem(operator.post(f"deliveries/{other.pk}/replay", once), 409, "something else")


def test_a_second_person_is_asked_once_and_the_job_is_the_answer_then(
    token: Tokens, settings: Settings
) -> None:
    settings.MSH_SECOND_PERSON = ["bulk_cancel"]
    world, other = suspended_world(queued=2), suspended_world(queued=1)
    path = f"links/{world.link.pk}/cancel-queue"
    operator = token("operate", may=QUEUE)
    once = body()
    asked = operator.post(path, once)
    world.submit()
    again = operator.post(path, once)
    assert (again.status, again.json) == (202, asked.json), "also if the queue ends elsewhere now"
    assert_problem(operator.post(f"links/{other.link.pk}/cancel-queue", once), 409, "belongs to")
    (request,) = ActRequest.objects.all()
    lee = client_with_role("lee", roles.SUPERVISOR)
    use(lee, "confirm", request, "seen it too")
    bulk_jobs.run()
    job = BulkJob.objects.get()
    assert (job.total, job.done) == (2, 2)
    done = operator.post(path, once)
    assert (done.status, done.json["id"]) == (201, job.pk)
    assert ActRequest.objects.count() == 1


def test_a_request_is_the_answer_although_its_queue_was_sent_meanwhile(
    token: Tokens, settings: Settings, supervisor: Client
) -> None:
    settings.MSH_SECOND_PERSON = ["bulk_cancel"]
    world = suspended_world(queued=1)
    operator = token("operate", may=QUEUE)
    once = body()
    asked = operator.post(f"links/{world.link.pk}/cancel-queue", once)
    use(supervisor, "resume", world.link)
    world.settle()
    again = operator.post(f"links/{world.link.pk}/cancel-queue", once)
    assert (again.status, again.json["request"]) == (202, asked.json["request"])
    use(supervisor, "confirm", ActRequest.objects.get(), "seen it too")
    assert not BulkJob.objects.exists(), "nothing is queued any more"


def test_who_goes_ahead_alone_is_called_out_once(token: Tokens, settings: Settings) -> None:
    settings.MSH_SECOND_PERSON, settings.MSH_ACT_ALONE = ["bulk_cancel"], True
    path = f"links/{suspended_world(queued=1).link.pk}/cancel-queue"
    operator = token("operate", may=(*QUEUE, "act_alone_actrequest"))
    once = body(alone="nobody answers")
    begun = operator.post(path, once)
    again = operator.post(path, once)
    assert (again.status, again.json["id"]) == (201, begun.json["id"])
    assert Incident.objects.filter(kind="went_ahead_alone").count() == 1
    assert ActRequest.objects.count() == 1
