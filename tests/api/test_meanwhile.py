"""What is asked for ends, or is removed by retention, between two statements of a request."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection, transaction
from django.test import Client
from django.urls import reverse

from msh.models import OutboundMessage, Scope
from tests.api.application import Application
from tests.delivery.desk import receive
from tests.flows.flying import make_sky
from tests.flows.world import make_world
from tests.sql import execute, wrap_execute

pytestmark = pytest.mark.django_db

Act = Callable[[], object]


@contextmanager
def before_statement(number: int, act: Act, patch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """`act` happens before this statement; how many statements there were."""
    count = [0]

    def note() -> None:
        count[0] += 1
        if count[0] == number:
            act()

    def of_the_orm(run: Any, *asked: Any) -> Any:
        note()
        return run(*asked)

    def of_the_store(run: Any, calls: Any) -> Any:
        note()
        return run(calls)

    with patch.context() as patched:
        wrap_execute(patched, of_the_store)
        with connection.execute_wrapper(of_the_orm):
            yield count


def statuses(get: Callable[[], int], act: Act, patch: pytest.MonkeyPatch) -> set[int]:
    """What is answered if `act` happens before each of the statements in turn."""
    found: set[int] = set()
    number = 1
    while True:
        with transaction.atomic():
            done: list[bool] = []

            def once(done: list[bool] = done) -> None:
                if not done:
                    done.append(True)
                    act()

            with before_statement(number, once, patch) as count:
                found.add(get())
            transaction.set_rollback(True)
        if count[0] < number:
            return found
        number += 1


def remove(*tables: str) -> Act:
    """As retention does, whatever refers to it."""

    def act() -> None:
        execute("SET CONSTRAINTS ALL DEFERRED")
        execute("SET LOCAL session_replication_role = replica")
        for table in tables:
            execute(f"DELETE FROM {table}")
        execute("SET LOCAL session_replication_role = origin")

    return act


def acknowledge() -> None:
    execute("DELETE FROM msh_flight")
    execute("UPDATE msh_outboundlink SET in_flight_id = NULL, state = 'idle', due = NULL")
    execute(
        "UPDATE msh_outboundmessage SET state = 'acknowledged', completed_at = now(),"
        " outcome = 'received'"
    )


GONE = remove(
    "msh_attempt", "msh_flight", "msh_outboundpayload", "msh_history", "msh_outboundmessage"
)
RECEIVED_GONE = remove("msh_delivery", "msh_inboundpayload", "msh_inboundmessage")


def submitted(kind: str) -> OutboundMessage:
    if kind == "lane":
        world = make_world()
        message = world.submit()
        world.poll()
        return message
    sky = make_sky()
    message = sky.submit()
    sky.poll()
    return message


@pytest.fixture
def operator(token: Callable[..., Application]) -> Application:
    """May read everything."""
    made = token(*(scope.value for scope in Scope))
    User.objects.filter(username=made.name).update(is_superuser=True)
    execute("SET LOCAL idle_in_transaction_session_timeout = 0")  # a page takes its time
    return made


def require_an_answer(
    asked: Mapping[str, Callable[[], int]], act: Act, patch: pytest.MonkeyPatch
) -> None:
    """What has ended is there still; what is removed is found, or not."""
    found = {what: statuses(get, act, patch) for what, get in asked.items()}
    others = set() if act is acknowledge else {404}
    assert {what: got for what, got in found.items() if got - {200} - others} == {}
    assert [what for what, got in found.items() if 200 not in got] == []


@pytest.mark.parametrize("kind", ["lane", "flight"])
@pytest.mark.parametrize("act", [acknowledge, GONE], ids=["ends", "is removed"])
def test_a_message(
    kind: str, act: Act, operator: Application, monkeypatch: pytest.MonkeyPatch
) -> None:
    message = submitted(kind)
    path = f"messages/{message.message_id}"
    asked = {
        "document": lambda: operator.get(path).status,
        "history": lambda: operator.get(f"{path}/history").status,
        "payload": lambda: operator.get(f"{path}/payloads/1").status,
    }
    require_an_answer(asked, act, monkeypatch)


def test_the_page_of_a_message_that_ends(
    administrator: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    execute("SET LOCAL idle_in_transaction_session_timeout = 0")  # a page takes its time
    message = submitted("flight")
    page = reverse("admin:msh_outboundmessage_change", args=[message.pk])
    require_an_answer(
        {"page": lambda: administrator.get(page).status_code}, acknowledge, monkeypatch
    )


def test_a_received_message(operator: Application, monkeypatch: pytest.MonkeyPatch) -> None:
    (message,) = receive(make_world())
    asked = {
        "feed": lambda: operator.get("inbound").status,
        "payload": lambda: operator.get(f"inbound/{message.pk}/payloads/1").status,
    }
    require_an_answer(asked, RECEIVED_GONE, monkeypatch)
