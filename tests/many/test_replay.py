"""What a consumer has completed is delivered to it again: visible, marked, in order, by a job."""

from collections.abc import Sequence

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from msh.flows.delivery.pull import Outcome, settle, take
from msh.flows.operations import change_link
from msh.flows.operations.change_delivery import decide
from msh.flows.operations.many import bulk_jobs
from msh.flows.operations.prune import prune_all
from msh.models import (
    EVER,
    BulkAction,
    BulkItem,
    BulkJob,
    ConsumerKind,
    Delivery,
    History,
    InboundPayload,
)
from msh.store.delivery import replays
from msh.store.history import Actor
from msh.store.operations.operator_actions import Switch
from tests.admin.conftest import address, url, use
from tests.admin.incidents.bulk import confirm, preview_url
from tests.delivery import application
from tests.delivery.desk import Desk, consumer, receive
from tests.delivery.pruning import age
from tests.flows.world import make_world

pytestmark = pytest.mark.django_db

SUE = Actor("sue", "their database was restored")


def completed(count: int = 1, **values: object) -> list[Delivery]:
    """That many messages of a new pair, taken and completed by a pull consumer."""
    made = consumer(ConsumerKind.PULL, retry_interval=0, **values)
    receive(make_world(), count)
    Desk().settle()
    for _ in range(count):
        (one,) = take(made, 1)
        settle(made, one.delivery, one.attempt, Outcome.COMPLETED)
    return list(Delivery.objects.order_by("pk"))


def replay_all(only: Sequence[int] | None = None) -> BulkJob:
    rows = bulk_jobs.rows_of("replay", consumer=Delivery.objects.earliest("pk").consumer_id)
    if only is not None:
        rows = bulk_jobs.only("replay", rows, only)
    return bulk_jobs.start_with("replay", rows, bulk_jobs.seen("replay", rows), SUE, "")


def test_a_replay_is_a_delivery_of_its_own_and_the_first_one_stays() -> None:
    (first,) = completed()
    message = first.message
    before = (message.state, message.delivered_at)
    replay_all()
    bulk_jobs.run()

    (taken,) = take(first.consumer, 10)
    assert (taken.is_replay, taken.message, taken.attempt) == (True, message, 1)
    assert taken.delivery != first.pk
    settle(first.consumer, taken.delivery, 1, Outcome.COMPLETED)

    replay = Delivery.objects.get(pk=taken.delivery)
    assert (replay.state, replay.replay_of, replay.due) == ("completed", first, None)
    first.refresh_from_db()
    message.refresh_from_db()
    assert (first.state, first.attempt) == ("completed", 1)
    assert (message.state, message.delivered_at) == before
    events = History.objects.filter(event__startswith="Replay").order_by("pk")
    assert [(row.event, row.actor) for row in events] == [
        ("ReplayRequested", "sue"), ("ReplayCompleted", "msh"),
    ]  # fmt: skip
    assert take(first.consumer, 10) == []


def test_replays_of_a_pair_follow_each_other_and_new_messages_do_not_wait() -> None:
    first, second = completed(2)
    replay_all()
    bulk_jobs.run()
    (new,) = receive(make_world())
    Desk().settle()
    taken = take(first.consumer, 10)
    assert [one.message for one in taken] == [first.message, new]
    settle(first.consumer, taken[0].delivery, 1, Outcome.FAILED, reason="disk full")
    (again,) = take(first.consumer, 10)
    assert (again.message, again.attempt) == (first.message, 2), "in order, though it has failed"
    settle(first.consumer, again.delivery, 2, Outcome.COMPLETED)
    (last,) = take(first.consumer, 10)
    assert last.message == second.message


def test_a_replay_that_fails_is_parked_and_its_message_stays_delivered() -> None:
    (first,) = completed(attempts=1)
    replay_all()
    bulk_jobs.run()
    (taken,) = take(first.consumer, 1)
    settle(first.consumer, taken.delivery, 1, Outcome.FAILED, reason="disk full")
    replay = Delivery.objects.get(pk=taken.delivery)
    first.message.refresh_from_db()
    assert (replay.state, first.message.state) == ("parked", "delivered")
    assert decide([replay.pk], "run-again", SUE).done == [replay.pk]
    (again,) = take(first.consumer, 1)
    settle(first.consumer, again.delivery, 2, Outcome.REJECTED, reason="known")
    first.message.refresh_from_db()
    assert first.message.state == "delivered"
    assert History.objects.filter(event="ReplayRejected").count() == 1


def test_an_application_can_tell_a_replay() -> None:
    """By HTTP: another Idempotency-Key, and a header; in our process: an attribute."""
    made = consumer(ConsumerKind.HTTP)
    (message,) = receive(make_world())
    desk = Desk()
    desk.poll()
    sent = dict(desk.answer(200).headers)
    assert (sent["Idempotency-Key"], "X-MSH-Replay" in sent) == (message.message_id, False)
    replay_all()
    bulk_jobs.run()
    desk.poll()
    headers = dict(desk.answer(200).headers)
    replay = Delivery.objects.get(replay_of__consumer=made)
    assert headers["X-MSH-Replay"] == str(replay.pk)
    assert headers["Idempotency-Key"] == f"{message.message_id};replay={replay.pk}"
    assert headers["X-MSH-Message-Id"] == message.message_id
    assert replay.state == "completed"


def test_a_function_in_our_process_can_tell_a_replay(monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[int | None] = []
    monkeypatch.setattr(application, "consume", lambda message: called.append(message.replay))
    consumer(ConsumerKind.IN_PROCESS)
    receive(make_world())
    Desk().settle()
    replay_all()
    bulk_jobs.run()
    Desk().settle()
    assert called == [None, Delivery.objects.get(replay_of__isnull=False).pk]


def test_a_job_waits_while_its_consumer_has_enough_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = completed(2)
    monkeypatch.setattr(replays, "OPEN_AT_ONCE", 1)
    job = replay_all()
    assert bulk_jobs.run() == 1
    assert "Waiting: 100 replays" in BulkItem.objects.get(done=None).detail
    (taken,) = take(first.consumer, 10)
    settle(first.consumer, taken.delivery, 1, Outcome.COMPLETED)
    assert bulk_jobs.run() == 1
    job.refresh_from_db()
    assert (job.state, job.done) == ("done", 2)
    assert [one.message for one in take(first.consumer, 10)] == [second.message]


def test_replays_of_a_partner_that_is_held_leave_room_for_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """They cannot run; and no more of them are made, each of which a poll would look at."""
    first, second = completed(2)
    monkeypatch.setattr(replays, "OPEN_AT_ONCE", 1)
    replay_all(only=[first.pk])
    assert bulk_jobs.run() == 1
    held = first.message.link.partner
    change_link.switch(held, Switch.DELIVERS, on=False, actor=SUE)
    (other,) = receive(make_world())
    Desk().settle()
    (one,) = take(first.consumer, 1)
    settle(first.consumer, one.delivery, one.attempt, Outcome.COMPLETED)
    replay_all(only=[second.pk, Delivery.objects.get(message=other).pk])

    assert bulk_jobs.run() == 2

    refused = BulkItem.objects.get(key=second.pk)
    assert refused.detail.startswith(f"Deliveries of messages from {held.name} are held")
    assert [one.message for one in take(first.consumer, 10)] == [other]
    change_link.switch(held, Switch.DELIVERS, on=True, actor=SUE)
    assert [one.message for one in take(first.consumer, 10)] == [first.message]


def test_what_is_replayed_keeps_its_payload_and_what_has_none_is_refused() -> None:
    first, second = completed(2)
    replay_all(only=[first.pk])
    bulk_jobs.run()
    age()
    prune_all()
    assert InboundPayload.objects.get().message == first.message
    replay_all(only=[second.pk])
    bulk_jobs.run()
    assert "removed by retention" in BulkItem.objects.get(key=second.pk).detail


def test_the_console_replays_one_or_all_since(supervisor: Client, operator: Client) -> None:
    first, _ = completed(2)
    assert operator.get(address("replay", first)).status_code == 403
    use(supervisor, "replay", first)
    bulk_jobs.run()
    replay = Delivery.objects.get(replay_of=first)
    page = supervisor.get(url(Delivery, "change", replay.pk)).content.decode()
    assert "to be replayed" in page
    assert f"delivery {first.pk}" in page
    assert (
        f"delivery {replay.pk}"
        in supervisor.get(url(Delivery, "change", first.pk)).content.decode()
    )

    since = timezone.localtime(first.message.received_at).strftime("%Y-%m-%dT%H:%M:%S")
    filters = {
        "since": since,
        "message__link__partner__id__exact": first.message.link.partner_id,
        "consumer__id__exact": first.consumer_id,
    }
    assert supervisor.get(preview_url("replay", **filters)).context["counted"] == 2
    job = confirm(supervisor, "replay", filters, reason="restored")
    assert job.status_code == 302
    bulk_jobs.run()
    assert Delivery.objects.filter(replay_of__isnull=False).count() == 3
    outcome = supervisor.get(job.headers["Location"]).content.decode()
    assert "2 still running" in outcome


def test_the_rows_of_a_job_are_chosen_once_and_without_their_headers() -> None:
    """100,000 of them with their headers would be gigabytes."""
    first, second = completed(2)
    limits: bulk_jobs.Limits = {"consumer": first.consumer_id}
    with CaptureQueriesContext(connection) as queries:
        job = bulk_jobs.start(BulkAction.REPLAY, EVER, None, SUE, **limits)
    reads = [one["sql"] for one in queries if 'FROM "msh_delivery"' in one["sql"]]
    assert len(reads) == 1
    assert reads[0].partition(" FROM ")[0].count('"."') == 5, "number, label"
    labels = BulkItem.objects.filter(job=job).order_by("pk").values_list("label", flat=True)
    assert list(labels) == [label_of(first), label_of(second)]


def label_of(delivery: Delivery) -> str:
    """Its name with the partner's."""
    partner = delivery.message.link.partner.name
    return str(delivery).replace(" to ", f" from {partner} to ")


def test_a_replay_that_runs_again_is_named_as_one() -> None:
    (first,) = completed()
    replay_all()
    bulk_jobs.run()
    replay = Delivery.objects.get(replay_of=first)
    Delivery.objects.filter(pk=replay.pk).update(state="parked", ended_at=timezone.now())
    job = bulk_jobs.start(BulkAction.RUN_AGAIN, EVER, None, SUE)
    assert BulkItem.objects.get(job=job).label == label_of(replay)
