"""Consumers over HTTP: the history is written before and after, in the order of 004-02, so that
an attempt whose worker died is known, and the resolver or an operator decides what became of it."""

import pytest

from msh.flows.delivery import consumer_http
from msh.flows.operations.change_delivery import decide
from msh.models import ConsumerKind, Delivery, History, Incident
from msh.protocol.delivery.events import AttemptFailed, AttemptSucceeded
from msh.protocol.vocabulary import DeliverySemantics
from msh.store.delivery.deliveries import Consumers
from msh.store.history import Actor
from tests.delivery import application
from tests.delivery.desk import Desk, consumer, delivery_of, receive, state_of
from tests.flows.world import make_world

pytestmark = pytest.mark.django_db

HTTP = ConsumerKind.HTTP
RESOLVER = "tests.delivery.application.resolve"
LONG_AGO = "2026-01-01T00:00Z"


def crash_while_processing(**values: object) -> tuple[Desk, Delivery]:
    """The worker died during attempt 1, and its lease is over."""
    consumer(HTTP, **values)
    (message, _) = receive(make_world(), 2)
    desk = Desk()
    desk.poll()
    desk.take_job()
    Delivery.objects.update(due=LONG_AGO)
    desk = Desk()  # another worker
    return desk, delivery_of(message)


@pytest.mark.requirement("002-08", "002-09", "004-10")
@pytest.mark.parametrize(
    ("on_failure", "message_state"), [("block", "accepted"), ("park", "parked")]
)
def test_an_unknown_outcome_without_a_resolver_is_in_doubt(
    on_failure: str, message_state: str
) -> None:
    desk, kept = crash_while_processing(on_failure=on_failure)

    desk.settle()

    assert state_of(kept.message) == (message_state, "in_doubt")
    assert Incident.objects.get().kind == "delivery_in_doubt"
    assert len(desk.transmitted.jobs) == (1 if on_failure == "park" else 0), "the next of the pair"
    assert History.objects.filter(to_state="in_doubt").count() == 1


@pytest.mark.requirement("002-08")
def test_the_resolver_is_asked_and_believed() -> None:
    desk, kept = crash_while_processing(resolver=RESOLVER)
    application.answer = lambda delivery: "duplicate"

    desk.poll()

    assert application.resolved == [kept.message.message_id]
    assert state_of(kept.message) == ("delivered", "completed")


def test_a_resolver_that_says_new_has_it_run_again() -> None:
    """The lost attempt was the only one, and counts for nothing."""
    desk, kept = crash_while_processing(resolver=RESOLVER, attempts=1)
    application.answer = lambda delivery: "new"
    desk.poll()
    desk.poll()
    job = desk.answer(200)
    assert dict(job.headers)["X-MSH-Attempt"] == "2"
    assert state_of(kept.message) == ("delivered", "completed")


@pytest.mark.requirement("002-08", "002-09")
@pytest.mark.parametrize("answer", ["perhaps", None])
def test_a_resolver_that_raises_or_babbles_means_in_doubt(answer: str | None) -> None:
    desk, kept = crash_while_processing(resolver=RESOLVER)

    def babble(delivery: Delivery) -> str:
        if answer is None:
            raise TimeoutError("no connection")
        return answer

    application.answer = babble
    desk.poll()

    assert state_of(kept.message)[1] == "in_doubt"
    assert "resolver raised" in delivery_of(kept.message).detail


@pytest.mark.requirement("002-02")
def test_without_a_history_an_unknown_outcome_is_run_again() -> None:
    desk, kept = crash_while_processing(history=False)
    desk.settle()
    assert dict(desk.answer(200).headers)["Idempotency-Key"] == kept.message.message_id


@pytest.mark.requirement("004-03")
def test_best_effort_is_not_checked() -> None:
    consumer(HTTP)
    world = make_world()
    world.submit(semantics=DeliverySemantics.BEST_EFFORT)
    world.settle()
    desk = Desk()
    desk.poll()
    desk.take_job()
    Delivery.objects.update(due=LONG_AGO)
    desk = Desk()
    desk.settle()
    assert len(desk.transmitted.jobs) == 1
    assert not Incident.objects.exists()


@pytest.mark.requirement("002-07", "002-10", "004-02", "004-04", "004-08", "004-09")
def test_a_death_after_the_history_and_before_the_rest_posts_nothing_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The map says completed, the message is still in the order of its pair: it just leaves."""
    consumer(HTTP)
    (message,) = receive(make_world())
    desk = Desk()
    desk.poll()
    monkeypatch.setattr(consumer_http, "leave", lambda *_: None)  # dies here
    desk.answer(200, external_id="SO-1")
    assert state_of(message) == ("accepted", "completed")

    other = Desk()
    other.settle()

    assert other.transmitted.jobs == []
    assert state_of(message) == ("delivered", "completed")
    noted = History.objects.filter(message_id=message.message_id, code="duplicate")
    assert noted.count() == 1


def test_a_late_answer_of_the_doubtful_attempt_ends_the_doubt() -> None:
    desk, kept = crash_while_processing()
    desk.settle()
    posted = consumer_http.Posted(kept.pk, 1)
    consumer_http.end(posted, AttemptSucceeded(1), Consumers())

    assert state_of(kept.message) == ("delivered", "completed")
    assert Incident.objects.get().resolved_at is not None


def test_an_old_worker_that_wakes_up_changes_nothing() -> None:
    desk, kept = crash_while_processing(history=False, retry_interval=0)
    desk.settle()
    for event in (AttemptSucceeded(1), AttemptFailed(1, "late")):
        consumer_http.end(consumer_http.Posted(kept.pk, 1), event, Consumers())

    kept.refresh_from_db()
    assert (kept.state, kept.attempt) == ("processing", 2)
    assert History.objects.filter(detail__contains="of an earlier attempt").count() == 2


@pytest.mark.requirement("002-09")
@pytest.mark.parametrize(
    ("verb", "states"),
    [
        ("mark-completed", ("delivered", "completed")),
        ("reject", ("rejected", "rejected")),
        ("run-again", ("accepted", "processing")),
        ("ask-resolver", ("delivered", "completed")),
    ],
)
def test_an_operator_ends_the_doubt(verb: str, states: tuple[str, str]) -> None:
    resolver = RESOLVER if verb == "ask-resolver" else ""
    desk, kept = crash_while_processing(resolver=resolver)
    desk.settle()
    assert state_of(kept.message)[1] == "in_doubt"
    application.answer = lambda delivery: "duplicate"

    decided = decide([kept.pk], verb, Actor("ann", "I looked into their system"))

    desk.settle()
    assert decided.refused == []
    assert state_of(kept.message) == states
    acts = History.objects.filter(message_id=kept.message.message_id, actor="ann")
    assert "I looked into their system" in acts.get(subject="message").detail
    assert Incident.objects.get().resolved_at is not None


def test_bulk_decisions_are_refused_one_by_one() -> None:
    desk, kept = crash_while_processing(on_failure="park")
    desk.settle()
    desk.answer(200)
    done = Delivery.objects.exclude(pk=kept.pk).get()

    decided = decide([kept.pk, done.pk, 10**6], "mark-completed", Actor("ann", "seen"))

    assert decided.done == [kept.pk]
    assert decided.refused == [
        f"delivery {done.pk}: mark-completed is not possible: {done.message} is completed",
        "delivery 1000000: the delivery does not exist",
    ]
    refused = decide([kept.pk], "ask-resolver", Actor("ann", "x")).refused
    assert "has no resolver" in refused[0]
