"""Consumers over HTTP: the history is written before and after, in the order of 004-02."""

from collections.abc import Iterator
from email.parser import BytesParser
from email.policy import HTTP as HTTP_POLICY
from urllib.parse import unquote

import pytest

from msh import wire
from msh.flows.delivery import consumer_http
from msh.flows.operations.change_delivery import decide
from msh.flows.send_budget import BYTES_AT_ONCE
from msh.flows.sending.submit import submit
from msh.models import ConsumerKind, Delivery, History, InboundPayload, Incident
from msh.protocol.delivery.events import (
    AttemptFailed,
    AttemptSucceeded,
)
from msh.protocol.message import Payload
from msh.protocol.vocabulary import DeliverySemantics
from msh.store.delivery.deliveries import Consumers
from msh.store.history import Actor
from msh.store.sending.message_sql import LARGE
from tests.delivery import application
from tests.delivery.desk import Desk, consumer, delivery_of, receive, state_of
from tests.flows.world import make_world

pytestmark = pytest.mark.django_db

HTTP = ConsumerKind.HTTP
RESOLVER = "tests.delivery.application.resolve"
LONG_AGO = "2026-01-01T00:00Z"


@pytest.fixture(autouse=True)
def _fresh_application() -> Iterator[None]:
    application.reset()
    yield
    application.reset()


@pytest.mark.requirement("002-01", "002-03", "002-04", "004-05", "004-11")
def test_the_payload_is_posted_once_with_the_message_id_as_key() -> None:
    made = consumer(HTTP)
    made.show("Bearer secret")
    made.save()
    world = make_world()
    (message,) = receive(world)
    desk = Desk()

    desk.poll()

    kept = delivery_of(message)
    assert (kept.state, kept.attempt, kept.ended_at) == ("processing", 1, None)
    job = desk.answer(201, external_id="SO-0815")
    headers = dict(job.headers)
    assert headers["Idempotency-Key"] == headers["X-MSH-Message-Id"] == message.message_id
    assert headers["X-MSH-Partner"] == world.here.name
    assert headers["X-MSH-Action"] == "New"
    assert (job.url, job.content_type, job.body) == (made.url, "application/xml", b"<order/>")
    assert job.authorization == "Bearer secret"
    assert "secret" not in made.secret
    ended = delivery_of(message)
    assert (ended.state, ended.external_id) == ("completed", "SO-0815")
    assert ended.started_at == kept.started_at, "both entries carry the same start"
    assert state_of(message) == ("delivered", "completed")
    assert not desk.poll()


def test_several_payloads_are_a_multipart_body() -> None:
    consumer(HTTP)
    world = make_world()
    payloads = [Payload(b"<a/>", content_id="a@x"), Payload(b"\x00\xff", "image/png", "b@x")]
    submit(world.agreement, "Orders", "New", payloads)
    world.settle()
    desk = Desk()
    desk.poll()
    job = desk.take_job()
    assert job.content_type.startswith("multipart/mixed; boundary=")
    assert b"<a/>" in job.body
    assert b"\x00\xff" in job.body


def test_large_payloads_wait_for_memory_and_small_ones_do_not() -> None:
    consumer(HTTP, attempts=9, retry_interval=0)
    for text in ("x" * LARGE, "y" * LARGE, "small"):
        world = make_world()
        world.submit(text)
        world.settle()
    desk = Desk()

    desk.transmitted.held = BYTES_AT_ONCE - 1
    desk.poll()
    assert sorted(len(job.body) >= LARGE for job in desk.transmitted.jobs) == [False, True]
    (large,) = [job for job in desk.transmitted.jobs if len(job.body) >= LARGE]
    desk.transmitted.jobs = [large]
    desk.answer(503)

    desk.transmitted.held = BYTES_AT_ONCE
    assert not desk.poll(), "neither the new one nor the one that failed"
    desk.transmitted.held = 0
    desk.poll()
    assert {job.body[:1] for job in desk.transmitted.jobs} == {b"x", b"y"}


@pytest.mark.requirement("001-10", "004-06", "004-07", "001-16")
@pytest.mark.parametrize("status", [408, 425, 429, 500, 503, 302, None])
def test_no_answer_and_system_errors_are_tried_again(status: int | None) -> None:
    consumer(HTTP, retry_interval=0)
    first, second = receive(make_world(), 2)
    desk = Desk()
    desk.poll()

    desk.answer(status, "no luck")

    assert state_of(first) == ("accepted", "failed")
    assert ("redirects are not followed" in delivery_of(first).detail) == (status == 302)
    desk.poll()
    again = desk.answer(200)
    assert dict(again.headers)["Idempotency-Key"] == first.message_id
    assert dict(again.headers)["X-MSH-Attempt"] == "2"
    desk.poll()
    assert dict(desk.answer(200).headers)["Idempotency-Key"] == second.message_id


@pytest.mark.requirement("001-04", "001-09")
@pytest.mark.parametrize("status", [400, 404, 409, 422])
def test_any_other_4xx_is_a_rejection(status: int) -> None:
    consumer(HTTP)
    first, second = receive(make_world(), 2)
    desk = Desk()
    desk.poll()

    desk.answer(status, f"{status}: no such customer")

    assert state_of(first) == ("rejected", "rejected")
    assert Incident.objects.get().kind == "delivery_rejected"
    desk.poll()
    assert dict(desk.answer(200).headers)["Idempotency-Key"] == second.message_id


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
    noted = History.objects.filter(message_id=message.message_id, detail__startswith="duplicate")
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


@pytest.mark.requirement("002-11")
@pytest.mark.parametrize(
    ("value", "sent"),
    [
        ("a b+c", "a b+c"),
        ("50% off", "50% off"),
        ("Größe 5%", "Gr%C3%B6%C3%9Fe 5%25"),
        ("a\r\nSet-Cookie: b", "a%0D%0ASet-Cookie: b"),
    ],
)
def test_header_values_cannot_break_out(value: str, sent: str) -> None:
    assert wire.percent_encoded(value) == sent


@pytest.mark.requirement("002-11", "004-11")
def test_the_longest_id_travels_whole() -> None:
    consumer(HTTP)
    world = make_world()
    message = world.submit(message_id="\N{SNOWMAN}" * 255)
    world.settle()
    desk = Desk()
    desk.poll()
    job = desk.answer(200, external_id="x" * 300)
    assert unquote(dict(job.headers)["Idempotency-Key"]) == message.message_id
    assert Delivery.objects.get().external_id == "x" * 300


ODD = 'application/pdf; name="Bestell\u00fcbersicht.pdf"'
ODD_IN_ASCII = "application/pdf; name*=UTF-8''Bestell%C3%BCbersicht.pdf"


def test_payloads_with_odd_names_are_posted_in_ascii_names() -> None:
    """The partner's message was accepted with them, so it has to reach the consumer."""
    consumer(HTTP)
    world = make_world()
    payloads = [Payload(b"<a/>", content_id="a@x"), Payload(b"\x00\xff", "image/png", "b@x")]
    submit(world.agreement, "Orders", "New", payloads)
    world.settle()
    InboundPayload.objects.filter(position=1).update(
        content_type=ODD, content_id="gr\u00fc\u00df <1>"
    )
    InboundPayload.objects.filter(position=2).update(content_type="nonsense", content_id="x" * 900)
    desk = Desk()
    desk.poll()

    job = desk.take_job()

    head = f"Content-Type: {job.content_type}\r\n\r\n".encode()
    one, two = BytesParser(policy=HTTP_POLICY).parsebytes(head + job.body).iter_parts()
    assert one["Content-Type"].params["name"] == "Bestell\u00fcbersicht.pdf"
    assert one["Content-ID"] == "<gr%C3%BC%C3%9F%20%3C1%3E>"
    assert unquote(one["X-MSH-Content-Type"]) == ODD
    assert one.get_payload(decode=True) == b"<a/>"
    assert two["Content-Type"] == "application/octet-stream"
    assert two["X-MSH-Content-Type"] == "nonsense"
    assert two["Content-ID"] == f"<{'x' * 900}>"
    assert b"\x00\xff" in job.body


def test_one_payload_with_an_odd_type_is_posted_under_an_ascii_one() -> None:
    consumer(HTTP)
    receive(make_world())
    InboundPayload.objects.update(content_type=ODD)
    desk = Desk()
    desk.poll()

    job = desk.take_job()

    assert (job.content_type, job.body) == (ODD_IN_ASCII, b"<order/>")
    assert unquote(dict(job.headers)["X-MSH-Content-Type"]) == ODD


def test_poll_claims_no_more_than_there_is_room_for() -> None:
    consumer(HTTP)
    worlds = [make_world() for _ in range(3)]
    for world in worlds:
        receive(world)
    desk = Desk()
    desk.transmitted.places = 2
    desk.settle()
    assert (len(desk.transmitted.jobs), Delivery.objects.count()) == (2, 2)
