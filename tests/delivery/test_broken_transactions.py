"""Functions of the application that leave their transaction so that it cannot be committed."""

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.db import DatabaseError, IntegrityError, connection, transaction
from django.utils import timezone
from pytest_django import Settings

from msh import Payload, Reject, reply, send
from msh.flows.operations.change_delivery import decide
from msh.models import (
    ConsumerKind,
    Delivery,
    InboundMessage,
    Incident,
    OutboundMessage,
    PartyEvent,
)
from msh.store.history import Actor
from tests.delivery import application
from tests.delivery.desk import Desk, consumer, delivery_of, receive, state_of
from tests.delivery.test_application import Office
from tests.flows.world import World, make_world
from tests.sessions import lose_the_connection_unnoticed

pytestmark = pytest.mark.django_db(transaction=True)

ORDER = [Payload(b"<order/>")]


def execute(statement: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement)


def swallow_an_orm_error() -> None:
    with suppress(IntegrityError):
        User(username=User.objects.get().username).save()


def ask_for_a_rollback() -> None:
    transaction.set_rollback(True)


def fail_in_a_block_without_savepoint() -> None:
    with suppress(ValueError), transaction.atomic(savepoint=False):
        raise ValueError


def write_a_dangling_key() -> None:
    LogEntry.objects.create(user_id=10**9, action_flag=1, object_repr="x")


def close_the_connection() -> None:
    connection.close()


def swallow_an_error_of_the_server() -> None:
    with suppress(DatabaseError):
        execute("SELECT 1/0")


def outlast_the_idle_timeout() -> None:
    execute("SET LOCAL idle_in_transaction_session_timeout = '10ms'")
    time.sleep(0.1)


def forbid_writes() -> None:
    execute("SET LOCAL transaction_read_only = on")


def exit_the_process() -> None:
    raise SystemExit("usage: stock ARTICLE")


def raise_words_that_no_column_takes() -> None:
    raise ValueError("nul \0 and surrogate \udcdc" + 100_000 * "!")


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise TypeError("no words")


def raise_what_has_no_words() -> None:
    raise Unspeakable


BROKEN: dict[Callable[[], None], str] = {
    swallow_an_orm_error: "TransactionBroken: ",
    ask_for_a_rollback: "TransactionBroken: ",
    fail_in_a_block_without_savepoint: "TransactionBroken: ",
    write_a_dangling_key: "IntegrityError: ",
    close_the_connection: "TransactionBroken: ",
    swallow_an_error_of_the_server: "InternalError: current transaction is aborted",
    outlast_the_idle_timeout: " connection ",  # in the words of the server or of the driver
    forbid_writes: "in a read-only transaction",
    exit_the_process: "SystemExit: usage: stock ARTICLE",
    raise_words_that_no_column_takes: "ValueError: nul ",
    raise_what_has_no_words: "Unspeakable:",
}

SOME = [swallow_an_orm_error, write_a_dangling_key, close_the_connection, exit_the_process]


def after_a_write(act: Callable[[], None]) -> Callable[[InboundMessage], None]:
    def run(message: InboundMessage) -> None:
        User.objects.create(username=message.message_id)
        reply(message, "Confirm", ORDER)
        act()

    return run


@pytest.mark.requirement("001-10", "001-13", "003-03")
@pytest.mark.parametrize(
    ("act", "history"),
    [*((act, True) for act in BROKEN), *((act, False) for act in SOME)],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_a_consumer_whose_transaction_is_broken_has_failed(
    act: Callable[[], None], history: bool
) -> None:
    """Counted, delayed and visible, with its effects undone; then run again, then blocked."""
    consumer(ConsumerKind.IN_PROCESS, history=history, attempts=2)
    (message,) = receive(make_world())
    application.act = after_a_write(act)
    desk = Desk()

    desk.settle()

    assert len(application.taken) == 1
    assert not User.objects.exists()
    assert not OutboundMessage.objects.filter(action="Confirm").exists()
    assert state_of(message) == ("accepted", "failed")
    failed = delivery_of(message)
    assert (failed.attempt, failed.failures) == (1, 1)
    assert failed.due is not None
    assert failed.due > timezone.now() + timedelta(seconds=50)
    assert BROKEN[act] in failed.detail
    assert len(failed.detail) < 5000

    Delivery.objects.update(due=timezone.now())
    desk.settle()

    assert len(application.taken) == 2
    assert state_of(message) == ("accepted", "blocked")
    assert Incident.objects.get().kind == "delivery_failed"

    application.act = None
    decide([failed.pk], "run-again", Actor("ann", "it is fixed"))
    desk.settle()
    assert state_of(message) == ("delivered", "completed")


@pytest.fixture
def commit_fails() -> Iterator[None]:
    """A delivered message is refused by a check that the server makes at COMMIT."""
    execute(
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN RAISE EXCEPTION 'refused at commit'; END $$;"
        "CREATE CONSTRAINT TRIGGER refuse AFTER UPDATE ON msh_inboundmessage"
        " DEFERRABLE INITIALLY DEFERRED FOR EACH ROW"
        " WHEN (NEW.state = 'delivered') EXECUTE FUNCTION refuse()"
    )
    yield
    execute("DROP TRIGGER refuse ON msh_inboundmessage; DROP FUNCTION refuse()")


@pytest.mark.requirement("001-10", "001-13")
@pytest.mark.parametrize("history", [True, False])
@pytest.mark.usefixtures("commit_fails")
def test_an_attempt_that_fails_at_commit_is_counted(history: bool) -> None:
    consumer(ConsumerKind.IN_PROCESS, history=history, attempts=2)
    (message,) = receive(make_world())
    desk = Desk()

    desk.settle()
    Delivery.objects.update(due=timezone.now())
    desk.settle()

    assert len(application.taken) == 2
    assert state_of(message) == ("accepted", "blocked")
    assert "refused at commit" in delivery_of(message).detail


@pytest.mark.parametrize("history", [True, False])
def test_attempt_is_counted_while_the_server_holds_what_its_lost_connection_locked(
    history: bool,
) -> None:
    consumer(ConsumerKind.IN_PROCESS, history=history, attempts=2)
    (message,) = receive(make_world())
    application.act = after_a_write(lose_the_connection_unnoticed)
    desk = Desk()

    desk.settle()

    assert state_of(message) == ("accepted", "failed")
    assert delivery_of(message).detail.startswith("TransactionBroken: ")

    Delivery.objects.update(due=timezone.now())
    desk.settle()

    assert state_of(message) == ("accepted", "blocked")
    assert len(application.taken) == 2


def test_rejection_survives_a_lost_connection() -> None:
    def close_and_reject(message: InboundMessage) -> None:
        connection.close()
        raise Reject("article 4711 is not sold any more")

    consumer(ConsumerKind.IN_PROCESS)
    (message,) = receive(make_world())
    application.act = close_and_reject

    Desk().settle()

    assert state_of(message) == ("rejected", "rejected")
    assert delivery_of(message).detail == "article 4711 is not sold any more"


@pytest.mark.parametrize("history", [True, False])
def test_on_commit_of_a_consumer_runs_once(history: bool) -> None:
    """Also if it raises: the message was delivered."""
    called: list[str] = []

    def later(message: InboundMessage) -> None:
        transaction.on_commit(lambda: called.append(message.message_id))
        if message.pk == first.pk:
            transaction.on_commit(lambda: 1 / 0)

    consumer(ConsumerKind.IN_PROCESS, history=history)
    first, second = receive(make_world(), 2)
    application.act = later

    Desk().settle()

    assert called == [first.message_id, second.message_id]
    assert [state_of(one)[0] for one in (first, second)] == ["delivered", "delivered"]


def test_on_commit_of_a_failed_consumer_does_not_run() -> None:
    called: list[str] = []

    def later(message: InboundMessage) -> None:
        transaction.on_commit(lambda: called.append(message.message_id))
        transaction.set_rollback(True)

    consumer(ConsumerKind.IN_PROCESS)
    (message,) = receive(make_world())
    application.act = later
    Desk().settle()

    assert called == []
    assert state_of(message) == ("accepted", "failed")


acts: list[Callable[[], None]] = []


def handle(event: PartyEvent) -> None:
    User.objects.create(username=event.message.message_id)
    acts[0]()


@pytest.mark.parametrize(
    "act", [*SOME, lose_the_connection_unnoticed], ids=lambda act: act.__name__
)
def test_a_handler_whose_transaction_is_broken_has_failed(
    act: Callable[[], None], settings: Settings
) -> None:
    settings.MSH_FROM_PARTY_HANDLER = f"{__name__}.handle"
    acts[:] = [act]
    world = make_world()
    world.submit()
    world.settle()

    office = Office()
    assert any(not office.poll() for _ in range(10)), "it is called again at once"

    event = PartyEvent.objects.get()
    assert (event.delivered_at, event.tries) == (None, 1)
    assert event.due > timezone.now()
    assert not User.objects.exists()


RESOLVER = "tests.delivery.application.resolve"


def leave_a_transaction_open() -> None:
    transaction.set_autocommit(False)
    execute("SELECT 1")


def terminate_the_session() -> None:
    with suppress(DatabaseError):
        execute("SELECT pg_terminate_backend(pg_backend_pid())")


@pytest.mark.parametrize(
    "act",
    [leave_a_transaction_open, terminate_the_session, close_the_connection, exit_the_process],
    ids=lambda act: act.__name__,
)
def test_a_resolver_that_spoils_its_connection_has_its_answer_kept(
    act: Callable[[], None],
) -> None:
    consumer(ConsumerKind.HTTP, resolver=RESOLVER)
    (message,) = receive(make_world())
    Desk().poll()
    Delivery.objects.update(due="2026-01-01T00:00Z")

    def answer(delivery: Delivery) -> str:
        act()
        return "duplicate"

    application.answer = answer
    Desk().settle()
    connection.close()

    ended = ("accepted", "in_doubt") if act is exit_the_process else ("delivered", "completed")
    assert state_of(message) == ended


def test_nothing_is_sent_in_a_transaction_that_will_be_rolled_back(world: World) -> None:
    """A MessageId would be returned for a message that is not there afterwards."""
    world.submit()

    def send_after_an_error() -> Any:
        with transaction.atomic():
            User.objects.create(username="ann")
            swallow_an_orm_error()
            return send(world.agreement, "Orders", "New", ORDER)

    with pytest.raises(transaction.TransactionManagementError):
        send_after_an_error()
    assert OutboundMessage.objects.count() == 1
