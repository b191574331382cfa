"""Migrations give way to those who use the tables, and may be repeated."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest
from django.core.management import CommandError, call_command
from django.db import connection

from msh.store import migrating
from partners.models import Agreement, Partner
from tests.waiting import wait_until

MESSAGES = """
INSERT INTO msh_outboundlink (partner_id, state)
    SELECT id, 'idle' FROM partners_partner;
INSERT INTO msh_outboundmessage
    (link_id, agreement_id, message_id, semantics, state, conversation_id, service_interface,
     action, ref_to_message_id, submitted_at, content_digest, size, boundary, completed_at)
SELECT link.id, agreement.id, 'm-' || n, 'BestEffort', 'acknowledged', 'c', 'Orders', 'New', '',
       now(), '\\x00', 1, 'b', now()
FROM generate_series(1, 2500) n, msh_outboundlink link, partners_agreement agreement
"""


@pytest.fixture
def others(older: str) -> Iterator["psycopg.Connection[Any]"]:
    """A session of the version before, which has 2,500 messages."""
    partner = Partner.objects.create(name="acme", uri="http://acme.example/")
    Agreement.objects.create(partner=partner, tpa_id="tpa", our_party="1", their_party="2")
    with _session(older) as session:
        session.execute(MESSAGES)
        yield session


@contextmanager
def _session(database: str) -> Iterator["psycopg.Connection[Any]"]:
    url = urlsplit(os.environ["DATABASE_URL"])._replace(path=f"/{database}").geturl()
    with psycopg.connect(url, autocommit=True) as session:
        yield session


def _value(query: str) -> Any:
    with connection.cursor() as cursor:
        cursor.execute(query)
        return cursor.fetchone()[0]


def _execute(statement: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement)


@contextmanager
def _holding(session: "psycopg.Connection[Any]", statement: str) -> Iterator[None]:
    with session.transaction():
        session.execute(statement.encode())
        yield


WAITING = "SELECT 1 FROM pg_locks WHERE NOT granted AND relation = 'msh_outboundmessage'::regclass"
LOCKED = "LOCK TABLE msh_outboundmessage IN ROW EXCLUSIVE MODE"
UNFINISHED = "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'later_size'::regclass"


def test_every_allowed_operation(others: "psycopg.Connection[Any]") -> None:
    migrating.migrate(print)
    assert _value("SELECT count(*) FROM msh_outboundmessage WHERE note = message_id") == 2500
    assert _value("SELECT indisvalid FROM pg_index WHERE indexrelid = 'later_size'::regclass")
    assert _value("SELECT convalidated FROM pg_constraint WHERE conname = 'later_named'")
    assert _value("SELECT current_setting('lock_timeout')") == "2s"


def test_table_in_use_is_left_to_its_users_and_tried_again(
    others: "psycopg.Connection[Any]", older: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who comes after the migration waits for it only as long as it waits itself."""
    monkeypatch.setattr(migrating, "LOCK_WAITS", (0.3,))
    said: list[str] = []
    held, answered = threading.Event(), threading.Event()
    _execute("SET lock_timeout = 0")

    def use() -> None:
        with _session(older) as first, _session(older) as second, _holding(first, LOCKED):
            held.set()
            wait_until(lambda: first.execute(WAITING).fetchone(), what="the migration waits")
            second.execute("SET statement_timeout = '30s'")
            second.execute("SELECT count(*) FROM msh_outboundmessage")
            answered.set()
            wait_until(lambda: len(said) > 1, what="two attempts")

    user = threading.Thread(target=use, daemon=True)
    user.start()
    assert held.wait(60)
    migrating.migrate(said.append)
    user.join(60)
    assert "canceling statement due to lock timeout" in said[0]
    assert answered.is_set()
    _execute("RESET lock_timeout")
    assert _value("SELECT count(*) FROM msh_outboundmessage WHERE note IS NOT NULL") == 2500


def test_who_is_in_the_way_is_named(
    others: "psycopg.Connection[Any]", older: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not whose transaction is only older."""
    monkeypatch.setattr(migrating, "PAUSE", 0.0)
    others.execute("SET application_name = 'nightly report'")
    named = rf"locked by nightly report \(pid {others.info.backend_pid}\)"
    with (
        _session(older) as innocent,
        _holding(innocent, "SELECT count(*) FROM partners_partner"),
        _holding(others, LOCKED),
        pytest.raises(migrating.NotMigrated, match=named),
    ):
        migrating.migrate(print, gives_up_after=0.0)
    migrating.migrate(print)


def test_nobody_is_named_whom_nobody_saw(
    others: "psycopg.Connection[Any]", monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(migrating, "PAUSE", 0.0)
    monkeypatch.setattr(migrating, "_BLOCKING", "SELECT no_such_column, %s")
    with _holding(others, LOCKED), pytest.raises(migrating.NotMigrated) as raised:
        migrating.migrate(print, gives_up_after=0.0)
    assert "pid" not in str(raised.value)


def test_prepare_says_it_in_a_line(
    others: "psycopg.Connection[Any]", monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(say: object) -> None:
        raise migrating.NotMigrated("A table is locked.")

    monkeypatch.setattr(migrating, "migrate", refuse)
    with pytest.raises(CommandError, match=r"^A table is locked\.$"):
        call_command("prepare")


def test_unfinished_index_is_replaced(others: "psycopg.Connection[Any]") -> None:
    """As an attempt leaves it that was killed."""
    call_command("migrate", "msh", "0003", verbosity=0)
    others.execute(UNFINISHED)
    others.execute("DELETE FROM django_migrations WHERE name = '0003_index'")
    migrating.migrate(print)
    assert _value("SELECT indisvalid FROM pg_index WHERE indexrelid = 'later_size'::regclass")


def test_finished_index_is_kept(others: "psycopg.Connection[Any]") -> None:
    """The process was killed before it had written down that it is done."""
    call_command("migrate", "msh", "0003", verbosity=0)
    made = _value("SELECT 'later_size'::regclass::oid")
    others.execute("DELETE FROM django_migrations WHERE name = '0003_index'")
    migrating.migrate(print)
    assert _value("SELECT 'later_size'::regclass::oid") == made


def test_rows_that_others_have_locked_are_filled_when_they_are_free(
    others: "psycopg.Connection[Any]", older: str
) -> None:
    """Nobody is waited for: the others are filled meanwhile."""
    call_command("migrate", "msh", "0005", verbosity=0)
    worker = threading.Thread(target=_migrate_and_close)
    filled = "SELECT count(*) FROM msh_outboundmessage WHERE note IS NOT NULL"
    with _holding(others, "SELECT FROM msh_outboundmessage WHERE message_id = 'm-7' FOR UPDATE"):
        worker.start()
        wait_until(lambda: _value(filled) == 2499, what="all but the locked row")
        assert worker.is_alive()
    worker.join()
    assert _value(filled) == 2500


def _migrate_and_close() -> None:
    try:
        migrating.migrate(print)
    finally:
        connection.close()
