"""A request that is repeated with its `confirmation` gets its job, whatever has happened since."""

import re
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.core.management import CommandError, call_command
from django.test import Client
from django.utils import timezone
from pytest_django import Settings

from msh import roles
from msh.flows.operations.many import bulk_jobs
from msh.four_eyes.flows import requests
from msh.models import ActRequest, BulkJob, Delivery, Incident
from msh.store.history import Actor
from tests.admin.conftest import (
    address,
    client_with_role,
    messages_of,
    suspended_world,
    use,
)
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


@pytest.mark.parametrize("how", ["refused", "withdrawn", "lapsed"])
def test_a_request_that_has_ended_is_answered_with_its_end(
    token: Tokens, settings: Settings, how: str
) -> None:
    """Who repeats it learns who refused it, when and why, and asks for it anew only on purpose."""
    settings.MSH_SECOND_PERSON, settings.MSH_ACT_ALONE = ["bulk_cancel"], True
    path = f"links/{suspended_world(queued=2).link.pk}/cancel-queue"
    operator = token("operate", may=(*QUEUE, "act_alone_actrequest"))
    once = body()
    operator.post(path, once)
    request = ActRequest.objects.get()
    if how == "refused":
        use(client_with_role("lee", roles.SUPERVISOR), "refuse", request, "they need the prices")
        said = rf"Request {request.pk} was refused by lee on 20\S+ \S+ UTC: they need the prices"
    elif how == "withdrawn":
        requests.withdraw(request.pk, Actor(request.asked_by, "not now"))
        said = rf"Request {request.pk} was withdrawn on 20\S+ \S+ UTC: not now"
    else:
        ActRequest.objects.update(until=timezone.now() - timedelta(minutes=1))
        said = rf"Request {request.pk} lapsed on 20\S+ \S+ UTC: nobody decided on it"

    for again in (once, {**once, "alone": "nobody answers"}):
        answer = operator.post(path, again)
        assert_problem(answer, 409)
        assert re.fullmatch(
            f"{said}. Nothing was done. To ask again, open the dialog again, or send another"
            " confirmation.",
            answer.json["detail"],
        )
    assert (ActRequest.objects.count(), BulkJob.objects.count()) == (1, 0)
    anew = operator.post(path, body())
    assert (anew.status, ActRequest.objects.count()) == (202, 2)
    told = f"Request {request.pk} for the same action was refused by lee on 20"
    assert (told in anew.json["text"]) is (how == "refused")


def test_the_console_says_who_refused_what_is_submitted_again(settings: Settings) -> None:
    settings.MSH_SECOND_PERSON = ["bulk_cancel"]
    world = suspended_world(queued=1)
    sue, lee = (client_with_role(name, roles.SUPERVISOR) for name in ("sue", "lee"))
    page = address("cancel_queue", world.link)
    hidden = {one.name: one.value() for one in sue.get(page).context["form"].hidden_fields()}
    form = {**hidden, "reason": "wrong prices"}
    sue.post(page, form)
    request = ActRequest.objects.get()
    use(lee, "refuse", request, "they need the prices")

    again = sue.post(page, form, follow=True)

    assert f"Request {request.pk} was refused by lee on " in messages_of(again)
    assert ActRequest.objects.count() == 1


def test_a_command_says_that_the_same_was_refused(settings: Settings) -> None:
    """It has no confirmation: each run is a request of its own, if none is open."""
    settings.MSH_SECOND_PERSON = ["bulk_cancel"]
    world, other = suspended_world(queued=1), suspended_world(queued=1)

    def run(partner: str) -> str:
        with pytest.raises(CommandError) as refused:
            call_command("cancel-queue", partner, "--reason", "wrong prices")
        return str(refused.value)

    first = run(world.there.name)
    assert "for the same" not in first
    request = ActRequest.objects.get()
    use(client_with_role("lee", roles.SUPERVISOR), "refuse", request, "they need the prices")

    assert f"Request {request.pk} for the same action was refused by lee on " in run(
        world.there.name
    )
    assert "for the same" not in run(other.there.name)
