"""How POSTs to HTTP consumers ended is written, whatever happens to one of them or the store."""

import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import OperationalError, connection
from pytest_django import Settings

from msh.flows import application_loop, worker_loop
from msh.flows.delivery import consumer_http
from msh.flows.delivery.delivery_loop import DeliveryLoop
from msh.flows.sending import notification_loop
from msh.models import ConsumerKind, Delivery, InboundMessage, Incident, PartyEvent
from msh.protocol.attempt import AttemptOutcome, AttemptResult
from msh.protocol.delivery.events import DeliveryEvent, DeliveryPolled, OutcomeLost
from msh.store.delivery.deliveries import HeldDelivery
from msh.transport.carrier import Finished
from tests.delivery import application
from tests.delivery.desk import Desk, consumer, delivery_of, receive, state_of
from tests.delivery.test_application import Office
from tests.flows.byhand import run_until_quiet
from tests.flows.world import make_world
from tests.peer import Answer, Peer, status
from tests.waiting import wait_until

HTTP = ConsumerKind.HTTP
DONE = AttemptResult(AttemptOutcome.TRANSMITTED, 200, "200 OK")


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    application.reset()
    monkeypatch.setattr(worker_loop, "PAUSE", 0.02)
    monkeypatch.setattr(application_loop, "RETRY_IN", 0.02, raising=False)
    yield
    application.reset()


def read_only(on: bool) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT set_config('default_transaction_read_only', %s, false)", [str(on)])


class Store(Desk):
    """Takes no writes until the loop has looked often."""

    polls = 0

    def poll(self) -> bool:
        self.polls += 1
        if self.polls == 10:
            read_only(False)
        return super().poll()


@pytest.mark.django_db(transaction=True)
@pytest.mark.requirement("004-02")
def test_outcome_is_kept_while_the_database_is_read_only() -> None:
    consumer(HTTP)
    (message,) = receive(make_world())
    desk = Store()
    desk.poll()
    job = desk.take_job()

    read_only(True)
    desk._events.put(Finished(job, DONE))
    run_until_quiet(desk)
    read_only(False)
    run_until_quiet(desk)

    assert state_of(message) == ("delivered", "completed")
    assert delivery_of(message).attempt == 1
    assert not desk.is_busy()


@pytest.mark.django_db(transaction=True)
def test_an_outcome_is_written_though_every_poll_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    consumer(HTTP)
    (message,) = receive(make_world())
    desk = Desk()
    desk.poll()
    job = desk.take_job()

    def fail(*_: Any) -> None:
        raise TypeError("cannot be read")

    monkeypatch.setattr("msh.store.delivery.polling.find_due", fail)
    desk._events.put(Finished(job, DONE))
    run_until_quiet(desk)

    assert state_of(message) == ("delivered", "completed")


@pytest.fixture
def peer() -> Iterator[Peer]:
    with Peer() as peer:
        yield peer


@pytest.mark.django_db(transaction=True)
@pytest.mark.requirement("004-11")
def test_strange_external_ids_stop_nothing(peer: Peer) -> None:
    """Latin-1 is read as that, controls are shown, what is too long for an id is left out."""
    consumer(HTTP, url=peer.address)
    answers = {
        "Auftrag-\xdc": "Auftrag-Ü",
        "Auftrag-\xc3\x9c": "Auftrag-Ü",
        "\x80\x01|": "??|",
        "x" * 1001: "",
    }
    peer.script(*(status(200, headers={"X-MSH-External-Id": value}) for value in answers))
    messages = receive(make_world(), len(answers))

    run_until_quiet(DeliveryLoop())

    assert [state_of(one) for one in messages] == [("delivered", "completed")] * len(answers)
    assert [delivery_of(one).external_id for one in messages] == list(answers.values())


@pytest.mark.django_db(transaction=True)
def test_strange_words_of_a_refusal_stop_nothing(peer: Peer) -> None:
    consumer(HTTP, url=peer.address)
    strange = "\xdc\x01 " + 1_000 * "no "
    peer.script(Answer(422, strange, {"X-MSH-Error": strange}), Answer(422, strange, {}, b"\0\xff"))
    messages = receive(make_world(), 2)

    run_until_quiet(DeliveryLoop())

    assert [state_of(one) for one in messages] == [("rejected", "rejected")] * 2
    assert all(one.detail.isascii() for one in Delivery.objects.all())


def three_posts(desk: Desk, **values: Any) -> list[InboundMessage]:
    """A POST to one consumer under way for each of three partners."""
    consumer(HTTP, **values)
    messages = [receive(make_world())[0] for _ in range(3)]
    desk.poll()
    return messages


def answer_all(desk: Desk) -> None:
    jobs, desk.transmitted.jobs = desk.transmitted.jobs, []
    for job in jobs:
        desk._events.put(Finished(job, DONE))


def fail_for(
    monkeypatch: pytest.MonkeyPatch, message: InboundMessage, *, also_lost: bool = False
) -> None:
    """No outcome of this message can be written, for a reason of its own."""
    written, key = consumer_http.end, delivery_of(message).pk

    def end(posted: Any, event: DeliveryEvent, *others: Any, **named: Any) -> None:
        if posted.delivery == key and (also_lost or not isinstance(event, OutcomeLost)):
            raise TypeError("no column for this")
        written(posted, event, *others, **named)

    monkeypatch.setattr(consumer_http, "end", end)


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("history", "after"),
    [(True, ("accepted", "in_doubt")), (False, ("accepted", "blocked"))],
)
def test_an_outcome_that_cannot_be_written_stops_no_other(
    monkeypatch: pytest.MonkeyPatch, history: bool, after: tuple[str, str]
) -> None:
    desk = Desk()
    first, bad, last = three_posts(desk, history=history, attempts=1)
    fail_for(monkeypatch, bad)

    answer_all(desk)
    run_until_quiet(desk)

    assert [state_of(one)[0] for one in (first, last)] == ["delivered", "delivered"]
    assert state_of(bad) == after
    incident = Incident.objects.get()
    assert incident.message_id == bad.message_id
    assert "cannot be recorded: TypeError: no column for this" in incident.detail
    assert not desk.is_busy()


@pytest.mark.django_db
def test_an_outcome_that_cannot_even_be_given_up_ends_with_its_lease(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    desk = Desk()
    first, bad, last = three_posts(desk)
    fail_for(monkeypatch, bad, also_lost=True)

    answer_all(desk)
    run_until_quiet(desk)

    assert [state_of(one)[0] for one in (first, last)] == ["delivered", "delivered"]
    assert not desk.is_busy()
    monkeypatch.undo()
    Delivery.objects.filter(state="processing").update(due="2026-01-01T00:00Z")
    desk.settle()
    assert state_of(bad) == ("accepted", "in_doubt")


@pytest.mark.django_db
def test_a_row_that_somebody_holds_delays_its_own_outcome_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    desk = Desk()
    first, held, last = three_posts(desk)
    written, key = consumer_http.end, delivery_of(held).pk
    refused: list[tuple[str, str]] = []

    class LockNotAvailable(Exception):
        sqlstate = "55P03"

    def end(posted: Any, *others: Any, **named: Any) -> None:
        if posted.delivery == key and len(refused) < 5:
            refused.append(state_of(last))
            raise OperationalError from LockNotAvailable()
        written(posted, *others, **named)

    monkeypatch.setattr(consumer_http, "end", end)
    answer_all(desk)
    run_until_quiet(desk)

    assert refused[1] == ("delivered", "completed"), "before the second try of the one that is held"
    assert [state_of(one)[0] for one in (first, held, last)] == ["delivered"] * 3


@pytest.mark.django_db
def test_a_delivery_that_cannot_begin_stops_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    consumer(HTTP)
    messages = [receive(make_world())[0] for _ in range(3)]
    bad = messages[1]
    stepped = HeldDelivery.step

    def step(handover: Any, event: DeliveryEvent, *others: Any, **named: Any) -> Any:
        if handover.message_key == bad.pk and isinstance(event, DeliveryPolled):
            raise TypeError("unexpected key in its terms")
        return stepped(handover, event, *others, **named)

    monkeypatch.setattr(HeldDelivery, "step", step)
    desk = Desk()

    desk.settle()

    assert [state_of(one)[1] for one in messages] == ["processing", "", "processing"]
    incident = Incident.objects.get()
    assert (incident.count, incident.partner_id) == (1, bad.link.partner_id)
    assert "TypeError: unexpected key in its terms" in incident.detail

    monkeypatch.undo()
    desk._resting.clear()
    desk.settle()
    assert state_of(bad)[1] == "processing"


@pytest.mark.django_db
def test_job_that_cannot_be_built_is_a_failed_attempt(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    consumer(HTTP)
    messages = [receive(make_world())[0] for _ in range(3)]
    made, bad = consumer_http._job, messages[1]

    def job(handover: Any, posted: Any) -> Any:
        if handover.message_key == bad.pk:
            raise TypeError("odd payload")
        return made(handover, posted)

    monkeypatch.setattr(consumer_http, "_job", job)
    Desk().settle()

    assert [state_of(one)[1] for one in messages] == ["processing", "failed", "processing"]
    assert delivery_of(bad).detail == "TypeError: odd payload"


def test_a_call_that_failed_unexpectedly_is_left_alone_for_a_while() -> None:
    """Else it would be made again at once, some 50 times a second."""

    class Restless(DeliveryLoop):
        calls_made = 0

        def poll(self) -> bool:
            if self.calls or "key" in self.resting:
                return False
            self.calls_made += 1
            self.call("key", int, "no number")
            return True

    loop = Restless()
    run_until_quiet(loop)
    assert loop.calls_made == 1
    loop._resting["key"] = time.monotonic()
    run_until_quiet(loop)
    assert loop.calls_made == 2


def two_events() -> tuple[PartyEvent, PartyEvent]:
    world = make_world()
    world.submit()
    world.submit()
    world.settle()
    first, second = PartyEvent.objects.order_by("pk")
    return first, second


def undelivered() -> list[int]:
    return list(PartyEvent.objects.filter(delivered_at=None).values_list("pk", flat=True))


@pytest.mark.django_db
def test_an_event_whose_post_cannot_be_recorded_stops_no_other(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is told again when its lease is over."""
    settings.MSH_FROM_PARTY_HANDLER = "http://127.0.0.1:9/events"
    bad, _ = two_events()
    recorded = notification_loop._record

    def record(ended: Any, result: AttemptResult) -> None:
        if ended.key == bad.pk:
            raise TypeError("no column for this")
        recorded(ended, result)

    monkeypatch.setattr(notification_loop, "_record", record)
    office = Office()
    office.poll()
    for job in office.transmitted.jobs:
        office._events.put(Finished(job, DONE))
    office.transmitted.jobs.clear()
    run_until_quiet(office)

    assert undelivered() == [bad.pk]
    assert not office.is_busy()
    PartyEvent.objects.update(due="2026-01-01T00:00Z")
    assert office.poll()


def refuse(event: PartyEvent) -> None:
    raise ConnectionError("the stock system is down")


@pytest.mark.django_db
def test_event_that_can_neither_be_sent_nor_postponed_blocks_no_other(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.MSH_FROM_PARTY_HANDLER = f"{__name__}.refuse"
    bad, other = two_events()
    failed = notification_loop._postpone

    def put_off(event: PartyEvent, why: str) -> None:
        if event.pk == bad.pk:
            raise TypeError("no column for this")
        failed(event, why)

    monkeypatch.setattr(notification_loop, "_postpone", put_off)
    Office().poll()

    other.refresh_from_db()
    assert other.tries == 1


def test_a_call_for_which_no_thread_starts_is_made_later(monkeypatch: pytest.MonkeyPatch) -> None:
    class Calling(DeliveryLoop):
        calls_made = 0

        def poll(self) -> bool:
            if self.calls or self.calls_made:
                return False
            self.call("key", self.made)
            return True

        def made(self) -> None:
            self.calls_made += 1

    loop = Calling()
    start = threading.Thread.start
    refused: list[threading.Thread] = []

    def refuse_first(thread: threading.Thread) -> None:
        if thread.name.startswith("msh-deliver") and not refused:
            refused.append(thread)
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", refuse_first)
    loop._try_poll()
    assert (loop.calls, len(refused)) == (set(), 1)
    loop._try_poll()
    wait_until(lambda: len(loop._events), what="the end of the call")
    assert loop.calls_made == 1
