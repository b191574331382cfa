"""Statements that libpq runs, prepared or not: values, errors, transactions, migrations."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import psycopg
import pytest
from django.db import (
    IntegrityError,
    NotSupportedError,
    OperationalError,
    ProgrammingError,
    connection,
    transaction,
)

from msh.store import prepared
from msh.store.engine import Key, Statement, Write, run, run_all
from msh.store.transactions import short_transaction
from tests.flows.work import Work
from tests.sessions import in_another_session
from tests.sql import execute

pytestmark = pytest.mark.django_db(transaction=True)

PREPARED_AFTER = 6
"""Runs."""


@dataclass(frozen=True)
class Row:
    number: int | None
    text: str
    content: bytes
    at: datetime
    texts: list[str]


@dataclass(frozen=True)
class Named:
    name: str


ECHO = Statement(
    """
    SELECT %(texts)s::text[] AS texts, %(at)s::timestamptz AS at, %(content)s::bytea AS content,
           %(text)s::text AS text, %(number)s::int AS number
    """,
    Row,
)
VALUES = Row(7, "a\nä'\\", bytes(range(256)), datetime(2026, 2, 3, 4, 5, 6, 7, UTC), ["a", '",{'])


def prepared_statements() -> list[str]:
    """Of this session, as PostgreSQL lists them."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT statement FROM pg_prepared_statements ORDER BY prepare_time")
        return [text for (text,) in cursor.fetchall()]


@pytest.fixture(autouse=True)
def _session_of_its_own() -> Iterator[None]:
    connection.close()
    yield
    connection.close()


def run_often(act: Callable[[], Any]) -> Any:
    for _ in range(PREPARED_AFTER):
        found = act()
    return found


@pytest.mark.parametrize("values", [VALUES, Row(None, "", b"", VALUES.at, [])])
def test_values_come_back_as_they_were(values: Row) -> None:
    for _ in range(PREPARED_AFTER + 1):
        assert run(ECHO.of(values)) == ([values],)
    assert len(prepared_statements()) == 1


def test_a_name_may_come_twice_and_a_percent_sign_stands_for_itself() -> None:
    twice = Statement("SELECT %(name)s || '%%' || %(name)s || %(other)s AS name", Named)
    assert run(twice(other="c", name="ab")) == ([Named("ab%abc")],)


def test_statement_is_prepared_when_it_has_been_run_often() -> None:
    for _ in range(PREPARED_AFTER - 1):
        run(ECHO.of(VALUES))
    assert prepared_statements() == []
    run(ECHO.of(VALUES))
    (text,) = prepared_statements()
    assert "$1::text[] AS texts" in text


def test_what_is_planned_for_its_values_is_never_prepared() -> None:
    statement = Statement("SELECT %(name)s::text AS name", Named, planned_anew=True)
    for _ in range(PREPARED_AFTER + 1):
        run(statement(name="x"))
    assert prepared_statements() == []


def test_nothing_is_prepared_for_a_pooler() -> None:
    connection.ensure_connection()
    connection.connection.prepare_threshold = None
    run_often(lambda: run(ECHO.of(VALUES)))
    assert prepared_statements() == []


@pytest.mark.parametrize("often", [0, 1])
def test_where_too_many_are_prepared_all_are_prepared_anew(often: int) -> None:
    connection.ensure_connection()
    connection.connection.prepare_threshold = often
    connection.connection.prepared_max = 2
    names = ("a", "b", "c", "b", "c", "c")
    for name in names:
        statement = Statement(f"SELECT '{name}' AS name", Named)
        for _ in range(often + 1):
            assert run(statement(), statement()) == ([Named(name)], [Named(name)])
    assert sorted(prepared_statements()) == ["SELECT 'b' AS name", "SELECT 'c' AS name"]


def test_one_that_cannot_be_prepared_is_not_taken_for_prepared() -> None:
    read = Statement("SELECT name FROM to_come", Named)
    for _ in range(PREPARED_AFTER + 1):
        with pytest.raises(ProgrammingError):
            run(ECHO.of(VALUES), read())
    execute("CREATE TEMPORARY TABLE to_come AS SELECT 'x' AS name")
    assert run(read()) == ([Named("x")],)


def test_errors_and_rolled_back_transactions() -> None:
    execute("CREATE TEMPORARY TABLE once (number int UNIQUE)")
    write = Write("INSERT INTO once VALUES (%(number)s)")

    def fail() -> None:
        with pytest.raises(IntegrityError) as raised:
            run(write(number=1))
        assert isinstance(raised.value.__cause__, psycopg.errors.UniqueViolation)

    for number in range(1, PREPARED_AFTER + 1):
        run(write(number=number))
    fail()
    with transaction.atomic():
        assert run(write(number=100)) == ([],)
        transaction.set_rollback(True)
    run_often(fail)
    run(write(number=100))
    assert prepared_statements() == ["INSERT INTO once VALUES ($1)"]


def test_session_that_was_ended() -> None:
    run_often(lambda: run(ECHO.of(VALUES)))
    other = psycopg.connect(**connection.get_connection_params())
    with other, connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        other.execute("SELECT pg_terminate_backend(%s, 5000)", cursor.fetchone())
    other.close()
    with pytest.raises(OperationalError):
        run(ECHO.of(VALUES))
    assert not connection.is_usable()
    connection.close()
    assert run(ECHO.of(VALUES)) == ([VALUES],)


def test_a_transaction_begins_with_its_first_statement() -> None:
    run_often(lambda: run(ECHO.of(VALUES)))
    with transaction.atomic():
        run(ECHO.of(VALUES))
        status = connection.connection.info.transaction_status
        assert status is psycopg.pq.TransactionStatus.INTRANS
        run(ECHO.of(VALUES))


def test_a_transaction_has_the_isolation_that_is_configured() -> None:
    connection.ensure_connection()
    connection.connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
    show = Statement("SELECT current_setting('transaction_isolation') AS name", Named)
    with transaction.atomic():
        assert run(show()) == ([Named("repeatable read")],)


OTHER = Statement("SELECT %(number)s::bigint AS id", Key)
ANSWERED = ([VALUES], [Key(1)], [VALUES])


def run_three() -> tuple[list[Any], ...]:
    return run(ECHO.of(VALUES), OTHER(number=1), ECHO.of(VALUES))


def test_several_are_run_together_before_and_after_they_are_prepared() -> None:
    assert [run_three() for _ in range(PREPARED_AFTER + 1)] == [ANSWERED] * (PREPARED_AFTER + 1)
    assert len(prepared_statements()) == 2


def test_nothing_is_executed_after_an_error() -> None:
    execute("CREATE TEMPORARY TABLE twice (number int UNIQUE)")
    write = Write("INSERT INTO twice VALUES (%(number)s)")
    for number in range(PREPARED_AFTER):
        run_all([write(number=2 * number), write(number=2 * number + 1)])

    with pytest.raises(IntegrityError, match=r"number.=.1."), short_transaction():
        run_all([write(number=100), write(number=1), write(number=101)], last=True)

    with connection.cursor() as cursor:
        cursor.execute("SELECT max(number) FROM twice")
        assert cursor.fetchone() == (2 * PREPARED_AFTER - 1,)


def test_a_short_transaction_with_nothing_to_do_asks_nothing() -> None:
    work = Work()
    connection.ensure_connection()
    with work.of("nothing"), short_transaction():
        run_all([], last=True)
    assert not any(work.total().values())


def test_more_is_sent_and_answered_than_sockets_hold() -> None:
    large = Row(7, "", bytes(256 * 1024), VALUES.at, [])

    answers = run(*[ECHO.of(large)] * 40)

    assert answers == ([large],) * 40


def test_session_that_ends_in_a_pipeline() -> None:
    run_often(run_three)
    end = Statement("SELECT pg_terminate_backend(pg_backend_pid())::int AS id", Key)

    with pytest.raises(OperationalError):
        run(ECHO.of(VALUES), end(), ECHO.of(VALUES))

    assert not connection.is_usable()
    connection.close()
    assert run_three() == ANSWERED


@pytest.mark.parametrize("statements", [1, 2])
def test_column_that_a_migration_has_widened(statements: int) -> None:
    """Its prepared statement is of no use any more."""
    read = Statement("SELECT name FROM widened", Named)

    def widen(length: int) -> None:
        in_another_session(
            lambda: execute(f"ALTER TABLE widened ALTER name TYPE varchar({length})")
        )

    execute("CREATE TABLE widened (name varchar(5))")
    try:
        run_often(lambda: run(*[read()] * statements))
        widen(6)
        assert run(*[read()] * statements) == ([],) * statements
        with transaction.atomic():
            assert run(read()) == ([],)
        run_often(lambda: run(read()))
        widen(7)
        assert run(read()) == ([],)
        run_often(lambda: run(read()))
        widen(8)
        with pytest.raises(NotSupportedError), transaction.atomic():
            run(read())
        with transaction.atomic():
            assert run(read()) == ([],)
    finally:
        execute("DROP TABLE widened")


def test_statement_that_is_not_supported_is_an_error() -> None:
    """It has the SQLSTATE of one that is to be prepared anew."""
    with pytest.raises(NotSupportedError):
        run(Statement("SELECT id FROM elsewhere.public.msh_event", Key)())


def test_sessions_that_are_closed_are_not_kept() -> None:
    for _ in range(3):
        connection.close()
        run(ECHO.of(VALUES))
    assert [one for one in prepared._prepared if one.closed] == []
