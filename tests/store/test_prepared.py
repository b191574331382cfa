"""A statement that psycopg has prepared is run without psycopg's cursor, and nobody can tell."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import psycopg
import pytest
from django.db import IntegrityError, OperationalError, connection, transaction

from msh.store.engine import Statement, Write, run
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


def test_in_a_transaction_psycopg_begins_it(cursors: list[object]) -> None:
    run_often(lambda: run(ECHO.of(VALUES)))
    cursors.clear()
    with transaction.atomic():
        run(ECHO.of(VALUES))
        assert len(cursors) == 1
        status = connection.connection.info.transaction_status
        assert status is psycopg.pq.TransactionStatus.INTRANS
        run(ECHO.of(VALUES))
        assert len(cursors) == 1
