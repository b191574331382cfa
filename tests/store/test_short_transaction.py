# ruff: noqa: PT012  what is raised in the middle of a transaction is the subject
"""A transaction whose BEGIN and COMMIT have no round trip of their own."""

import pytest
from django.db import DatabaseError, IntegrityError, ProgrammingError, connection, transaction

from msh.store.engine import Call, Key, Statement, Write, run, run_all
from msh.store.transactions import short_transaction
from tests.sessions import in_another_session
from tests.sql import execute

pytestmark = pytest.mark.django_db(transaction=True)

INSERT = Write("INSERT INTO short_one (id) VALUES (%(key)s)")
READ = Statement("SELECT id FROM short_one ORDER BY id", Key)
BROKEN = Write("SELECT 1 / %(zero)s")


@pytest.fixture(autouse=True)
def _table() -> None:
    """What names no short_other is refused at COMMIT."""
    execute("DROP TABLE IF EXISTS short_one, short_other")
    execute("CREATE TABLE short_other (id int PRIMARY KEY)")
    execute(
        "CREATE TABLE short_one (id int PRIMARY KEY, other int REFERENCES short_other"
        " DEFERRABLE INITIALLY DEFERRED)"
    )


def keys() -> list[int]:
    """What others see."""
    return in_another_session(lambda: [row.id for row in run(READ())[0]])


def insert(*new: int) -> list[Call[object]]:
    return [INSERT(key=key) for key in new]


@pytest.mark.parametrize("count", [1, 2, 20])
def test_it_is_committed_with_its_last_writes(count: int) -> None:
    with short_transaction():
        assert run(READ()) == ([],)
        run_all(insert(*range(count)), last=True)
        assert keys() == list(range(count))
    run(INSERT(key=100))
    assert len(keys()) == count + 1


def test_it_is_committed_at_its_end() -> None:
    with short_transaction():
        run(*insert(1, 2))
        assert keys() == []
    assert keys() == [1, 2]


def test_last_writes_may_be_the_only_ones() -> None:
    with short_transaction():
        run_all(insert(1), last=True)
    with short_transaction():
        run_all([], last=True)
    assert keys() == [1]


def test_nothing_is_written_after_an_error_of_ours() -> None:
    with pytest.raises(RuntimeError), short_transaction():
        run(*insert(1, 2))
        raise RuntimeError
    run(INSERT(key=3))
    assert keys() == [3]


@pytest.mark.parametrize("at", [0, 1, 2])
def test_nothing_is_written_after_an_error_of_the_last_writes(at: int) -> None:
    calls = insert(1, 2)
    calls.insert(at, BROKEN(zero=0))
    with pytest.raises(DatabaseError), short_transaction():
        run(INSERT(key=3))
        run_all(calls, last=True)
    run(INSERT(key=4))
    assert keys() == [4]


def test_commit_that_is_refused_raises() -> None:
    dangling = Write("INSERT INTO short_one (id, other) VALUES (%(key)s, 7)")
    for last in (True, False):
        after = False
        with pytest.raises(IntegrityError), short_transaction():
            run_all([dangling(key=1)], last=last)
            after = True
        assert after is not last, "what follows the commit did not happen"
    assert keys() == []


def test_lost_session_is_an_error_and_the_next_one_works() -> None:
    with pytest.raises(DatabaseError), short_transaction():
        run(INSERT(key=1))
        pid = connection.connection.info.backend_pid
        in_another_session(lambda: execute("SELECT pg_terminate_backend(%s)", pid))
        run_all(insert(2), last=True)
    with short_transaction():
        run_all(insert(3), last=True)
    assert keys() == [3]


def test_within_another_it_is_a_savepoint() -> None:
    with transaction.atomic():
        run(INSERT(key=1))
        with pytest.raises(RuntimeError), short_transaction():
            run_all(insert(2), last=True)
            raise RuntimeError
        with short_transaction():
            run_all(insert(3), last=True)
        assert keys() == []
    assert keys() == [1, 3]


def test_atomic_block_in_it_is_refused() -> None:
    """It would commit, or roll back, what is not its own."""
    with pytest.raises(ProgrammingError), short_transaction():
        run(INSERT(key=1))
        with transaction.atomic():
            pass
    assert keys() == []
