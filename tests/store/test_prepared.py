"""Statements are run without psycopg's cursors, and nobody can tell."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import psycopg
import pytest
from django.db import (
    IntegrityError,
    NotSupportedError,
    OperationalError,
    connection,
    transaction,
)

from msh.store import prepared
from msh.store.engine import Key, Statement, Write, run, run_all
from msh.store.transactions import short_transaction
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


@pytest.fixture
def cursors(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The cursors that the store has made."""
    made: list[object] = []

    class Noted(psycopg.Cursor[Any]):
        def __init__(self, *given: Any, **named: Any) -> None:
            super().__init__(*given, **named)
            made.append(self)

    monkeypatch.setattr(psycopg, "Cursor", Noted)
    return made


def run_often(act: Callable[[], Any]) -> Any:
    for _ in range(PREPARED_AFTER):
        found = act()
    return found


@pytest.mark.parametrize("values", [VALUES, Row(None, "", b"", VALUES.at, [])])
def test_values_come_back_as_they_were(cursors: list[object], values: Row) -> None:
    assert run_often(lambda: run(ECHO.of(values))) == ([values],)
    cursors.clear()
    assert run(ECHO.of(values)) == ([values],)
    assert cursors == []


def test_errors_and_rolled_back_transactions(cursors: list[object]) -> None:
    execute("CREATE TEMPORARY TABLE once (number int UNIQUE)")
    write = Write("INSERT INTO once VALUES (%(number)s)")

    def fail() -> None:
        with pytest.raises(IntegrityError) as raised:
            run(write(number=1))
        assert isinstance(raised.value.__cause__, psycopg.errors.UniqueViolation)

    for number in range(1, PREPARED_AFTER + 1):
        run(write(number=number))
    cursors.clear()
    fail()
    assert cursors == []
    with transaction.atomic():
        assert run(write(number=100)) == ([],)
        transaction.set_rollback(True)
    run_often(fail)  # after a ROLLBACK psycopg has dropped all that was prepared
    run(write(number=100))


def test_session_that_was_ended(cursors: list[object]) -> None:
    run_often(lambda: run(ECHO.of(VALUES)))
    other = psycopg.connect(**connection.get_connection_params())
    with other, connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        other.execute("SELECT pg_terminate_backend(%s, 5000)", cursor.fetchone())
    other.close()
    cursors.clear()
    with pytest.raises(OperationalError):
        run(ECHO.of(VALUES))
    assert cursors == []
    assert not connection.is_usable()
    connection.close()
    assert run(ECHO.of(VALUES)) == ([VALUES],)


def test_a_transaction_begins_with_its_first_statement(cursors: list[object]) -> None:
    run_often(lambda: run(ECHO.of(VALUES)))
    cursors.clear()
    with transaction.atomic():
        run(ECHO.of(VALUES))
        status = connection.connection.info.transaction_status
        assert status is psycopg.pq.TransactionStatus.INTRANS
        run(ECHO.of(VALUES))
    assert cursors == []


OTHER = Statement("SELECT %(number)s::bigint AS id", Key)
ANSWERED = ([VALUES], [Key(1)], [VALUES])


def run_three() -> tuple[list[Any], ...]:
    return run(ECHO.of(VALUES), OTHER(number=1), ECHO.of(VALUES))


def test_several_are_run_together_before_and_after_they_are_prepared(
    cursors: list[object],
) -> None:
    assert [run_three() for _ in range(PREPARED_AFTER)] == [ANSWERED] * PREPARED_AFTER
    cursors.clear()
    assert run_three() == ANSWERED
    assert cursors == []


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


def test_a_short_transaction_with_nothing_to_do_asks_nothing(cursors: list[object]) -> None:
    with short_transaction():
        run_all([], last=True)
    assert cursors == []


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
    """Outside a transaction there is no ROLLBACK, with which psycopg forgets what was prepared."""
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
    assert [one for one in prepared._transformers if one.closed] == []
