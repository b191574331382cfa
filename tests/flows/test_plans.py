"""The planner's hands are tied for the hot path only, in sessions of their own here."""

import io
import re
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection, transaction
from pytest_django import Settings

from msh import tasks
from msh.endpoint import EndpointApplication
from msh.flows import application
from msh.flows.application_loop import _call
from msh.flows.worker_loop import WorkerLoop
from msh.store import plans
from msh.store.engine import Statement
from msh.store.receiving import accept, pairs
from msh.store.receiving.accept import Acceptance
from msh.store.sending import fast_path, link_sql, message_sql, party_events, signals

pytestmark = pytest.mark.django_db

HOT = ("off", "force_generic_plan")
FREE = ("on", "auto")

InSession = Callable[..., Any]


@pytest.fixture
def session() -> Iterator[InSession]:
    """Calls a function in a thread that has a connection of its own, always the same."""
    with ThreadPoolExecutor(1) as thread:
        yield lambda function, *arguments: thread.submit(function, *arguments).result()
        thread.submit(lambda: connection.close()).result()  # noqa: PLW0108  that thread's own


def planner() -> tuple[str, str]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT current_setting('enable_seqscan')")
        (seqscan,) = cursor.fetchone()
        cursor.execute("SELECT current_setting('plan_cache_mode')")
        (cache,) = cursor.fetchone()
    return seqscan, cache


def count_statements(function: Callable[[], object]) -> int:
    counted = []
    with connection.execute_wrapper(
        lambda execute, *words: counted.append(words) or execute(*words)  # type: ignore[func-returns-value]
    ):
        function()
    return len(counted)


def test_session_begins_free(session: InSession) -> None:
    """That of a command, of an application that sends, of a report."""
    assert session(planner) == FREE


@pytest.mark.parametrize(
    "task", [tasks.transmit, tasks.deliver, tasks.forward, tasks.notify, tasks.watch]
)
def test_worker_of_the_hot_path(
    session: InSession, task: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(WorkerLoop, "run", lambda _: None)  # does not end by itself
    session(task)
    assert session(planner) == HOT


@pytest.mark.parametrize("task", [tasks.notify_operators, tasks.sweep])
def test_task_that_reads_much_is_free_after_one_of_the_hot_path(
    session: InSession, task: Any
) -> None:
    session(plans.plan_for_hot_path)
    session(task)
    assert session(planner) == FREE


@pytest.mark.parametrize(
    ("method", "path", "expected"),
    [
        ("POST", "/ebxml/", HOT),
        ("GET", "/ebxml/link-status/", HOT),
        ("POST", "/api/v1/messages", HOT),
        ("GET", "/api/v1/messages", FREE),
        ("GET", "/admin/", FREE),
        ("POST", "/admin/login/", FREE),
    ],
)
def test_web_thread_that_has_served_the_other_kind(
    session: InSession, method: str, path: str, expected: tuple[str, str]
) -> None:
    before = plans.plan_freely if expected == HOT else plans.plan_for_hot_path
    session(planner)
    session(before)
    served: Any = EndpointApplication(lambda environ, start_response: ())
    environ = {"REQUEST_METHOD": method, "PATH_INFO": path, "wsgi.input": io.BytesIO()}
    environ |= {"SERVER_NAME": "msh.example", "SERVER_PORT": "80", "REMOTE_ADDR": "192.0.2.1"}
    session(served, environ, lambda status, headers: None)
    assert session(planner) == expected


def limit() -> str:
    with connection.cursor() as cursor:
        cursor.execute("SHOW statement_timeout")
        (found,) = cursor.fetchone()
    return str(found)


def test_only_who_waits_for_a_page_ends_statements(session: InSession, settings: Settings) -> None:
    settings.MSH_READ_TIMEOUT = 2.5
    before = session(limit)
    for others in (plans.plan_for_hot_path, plans.plan_freely):
        session(plans.plan_to_read)
        assert (session(limit), session(planner)) == ("2500ms", FREE)
        session(others)
        assert session(limit) == before


def test_it_costs_one_statement_in_the_life_of_a_connection(session: InSession) -> None:
    session(planner)
    assert session(count_statements, plans.plan_for_hot_path) == 1
    assert session(count_statements, plans.plan_for_hot_path) == 0


def test_new_connection_of_a_thread_is_as_the_one_before(session: InSession) -> None:
    """The database was started again in the middle of a loop."""
    session(plans.plan_for_hot_path)
    session(planner)
    session(lambda: connection.close())  # noqa: PLW0108  that thread's own
    assert session(planner) == HOT


def test_dead_connection_raises_no_error(session: InSession) -> None:
    def dies() -> None:
        connection.ensure_connection()
        connection.connection.close()
        plans.plan_for_hot_path()
        connection.close()

    session(dies)
    assert session(planner) == HOT


def test_function_of_the_application_is_free_and_we_are_not(session: InSession) -> None:
    seen = []

    def consumer() -> None:
        with transaction.atomic():
            application.allow_idle(timedelta(seconds=40))
            seen.append(planner())
            application.require_commit()
            seen.append(planner())
        with transaction.atomic():
            seen.append(planner())

    for _ in range(8):  # more often than what it takes for a statement to be prepared
        session(_call, Future(), consumer)
    assert seen == 8 * [FREE, HOT, HOT]


def test_in_a_transaction_nothing_changes() -> None:
    """It would end with the transaction, and be believed to hold."""
    plans.plan_for_hot_path()
    assert planner() == FREE


LARGE = {
    *("msh_outboundmessage", "msh_outboundpayload", "msh_attempt", "msh_history"),
    *("msh_inboundmessage", "msh_inboundpayload", "msh_signal", "msh_delivery", "msh_partyevent"),
}
HOT_PATH = (link_sql, pairs, accept, message_sql, signals, fast_path, party_events)
STATEMENTS = {
    f"{module.__name__}.{name} {number}": statement.sql
    for module in HOT_PATH
    for name, value in vars(module).items()
    for number, statement in enumerate(value if isinstance(value, Acceptance) else (value,))
    if isinstance(statement, Statement) and "msh_" in statement.sql
}


def tables_read_whole() -> set[str]:
    """Of LARGE, by any statement of the hot path, as a session plans it that keeps its plan."""
    found = set()
    with connection.cursor() as cursor:
        for name, statement in STATEMENTS.items():
            cursor.execute(f"EXPLAIN (GENERIC_PLAN, FORMAT JSON) {_numbered(statement)}")
            (explained,) = cursor.fetchone()
            found |= {f"{name} reads {table}" for table in _read_whole(explained[0]["Plan"])}
    return found


def _numbered(statement: str) -> str:
    """With the parameters of the server: $1, $2 …"""
    names = list(dict.fromkeys(re.findall(r"%\((\w+)\)[sb]", statement)))
    return re.sub(r"%\((\w+)\)[sb]", lambda found: f"${names.index(found[1]) + 1}", statement)


def _read_whole(plan: dict[str, Any]) -> set[str]:
    below = (_read_whole(child) for child in plan.get("Plans", ()))
    here = {plan["Relation Name"]} if plan["Node Type"] == "Seq Scan" else set()
    return (here & LARGE).union(*below)


def test_hot_path_planned_on_empty_tables_scans_no_large_one(
    session: InSession,
) -> None:
    session(plans.plan_for_hot_path)
    assert session(tables_read_whole) == set()
    session(plans.plan_freely)
    assert session(tables_read_whole) != set(), "or else nobody has to tell the planner"
