"""What is asked for ends, or is removed by retention, between two statements of a request."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count as count_up
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection, transaction
from django.test import Client
from django.urls import reverse

from msh.flows.operations.many.cancel_queue import cancel_queue
from msh.models import OutboundConversation, OutboundMessage, Scope
from msh.store.history import Actor
from tests.admin.conftest import suspended_world
from tests.api.application import Application
from tests.delivery.desk import receive
from tests.flows.flying import REFUSED, make_sky
from tests.flows.world import make_world
from tests.many.test_replay import completed
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


def statuses(
    get: Callable[[], int], act: Act, patch: pytest.MonkeyPatch, *, few: bool = False
) -> set[int]:
    """What is answered if `act` happens before each of the statements in turn, or before a `few` of
    them."""
    found: set[int] = set()
    numbers: Iterable[int] = count_up(1)
    if few:
        with transaction.atomic(), before_statement(0, act, patch) as count:
            found.add(get())
            transaction.set_rollback(True)
        numbers = [2, count[0] // 2, count[0], count[0] + 1]
    for number in numbers:
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
            break
    return found


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


SENT = ("msh_attempt", "msh_flight", "msh_outboundpayload", "msh_history", "msh_outboundmessage")
RECEIVED = ("msh_delivery", "msh_inboundpayload", "msh_inboundmessage")
GONE, RECEIVED_GONE = remove(*SENT), remove(*RECEIVED)


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


WHY = {"reason": "agreed by phone"}
Asked = tuple[Sequence[str], Sequence[str], Sequence[str]]
"""Tables whose rows are removed; paths of documents, and of actions, in the API."""


def _links() -> Asked:
    link = suspended_world().link
    return ["msh_incident"], ["links", "incidents", f"links/{link.pk}/queue"], []


def _delivery() -> Asked:
    (delivery,) = completed()
    return RECEIVED, ["inbound"], [f"deliveries/{delivery.pk}/replay"]


def _job() -> Asked:
    link = suspended_world().link
    job = cancel_queue(link, Actor("vera", "closed"), last=OutboundMessage.objects.latest("pk").pk)
    documents = ["jobs", f"jobs/{job.pk}", f"jobs/{job.pk}/rows"]
    return ["msh_bulkitem", "msh_bulkjob"], documents, [f"jobs/{job.pk}/cancel"]


def _conversation() -> Asked:
    sky = make_sky(ordered=True)
    sky.submit(conversation_id="talk")
    (job,) = sky.poll()
    sky.end(job, REFUSED)
    row = OutboundConversation.objects.get()
    removed = [*SENT, "msh_outboundconversation"]
    return removed, ["conversations/out"], [f"conversations/out/{row.pk}/restart"]


@pytest.mark.parametrize("asked", [_links, _delivery, _job, _conversation])
def test_what_is_removed_is_found_or_not(
    asked: Callable[[], Asked], operator: Application, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the second statement, one in the middle, or the last."""
    tables, documents, acts = asked()
    gone = remove(*tables)
    gets = {path: lambda path=path: operator.get(path).status for path in documents}
    posts = {path: lambda path=path: operator.post(path, WHY).status for path in acts}
    for path, ask in {**gets, **posts}.items():
        found = statuses(ask, gone, monkeypatch, few=True)
        assert found <= {200, 201, 404, 409}, path
