"""/health/ready: messages can be taken, or not. What else is down is reported, not refused over."""

import http
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.core.checks import CheckMessage
from django.db import connection, transaction
from django.test import Client
from django.test.utils import CaptureQueriesContext

from msh import checks, health, metrics
from msh.store import capacity, server
from msh.store.incidents import note_clock_doubtful, note_retention_too_short
from tests.flows.world import make_world
from tests.sessions import in_another_session

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(health, "_migrated", False)
    monkeypatch.setattr(health, "ASKED_EVERY", 0.0)
    health._redis.cache_clear()
    health._redis().delete(health._SWEPT)
    yield
    health._redis().connection_pool.disconnect()
    health._redis.cache_clear()


def answer() -> tuple[int, dict[str, Any]]:
    response = Client().get("/health/ready")
    return response.status_code, response.json()


def test_ready_when_migrated_whether_swept_or_not() -> None:
    expected = {
        "ready": True,
        "database": "ok",
        "broker": "ok",
        "disk": "ok",
        "clock": "ok",
        "retention": "ok",
        "tokens": "ok",
        "snapshot": "ok",
    }
    assert answer() == (http.HTTPStatus.OK, expected | {"sweep": "late"})
    health._redis().set(health._SWEPT, 1, ex=health._REMEMBERED)
    assert answer() == (http.HTTPStatus.OK, expected | {"sweep": "ok"})


def test_a_sign_of_life_grows_old_by_the_clock_of_redis() -> None:
    """That of the machine that gave it, or of the one that asks, may be wrong."""
    health._redis().set(health._SWEPT, 1, ex=health._REMEMBERED)
    health._redis().expire(health._SWEPT, health._REMEMBERED - 6)
    assert answer()[1]["sweep"] == "late"


def test_broker_that_is_down_leaves_it_ready(settings: Any) -> None:
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    health._redis.cache_clear()
    report = {"ready": True, "database": "ok", "broker": "unreachable", "sweep": "unknown"}
    assert answer() == (
        http.HTTPStatus.OK,
        report | {"disk": "ok", "clock": "ok", "retention": "ok", "tokens": "ok", "snapshot": "ok"},
    )


def test_disk_that_is_nearly_full_is_reported_and_stays_ready(
    settings: Any, tmp_path: Path
) -> None:
    settings.MSH_DISK_PATH = str(tmp_path)
    settings.MSH_DISK_WATERMARK = 1 << 60
    status, report = answer()
    assert (status, report["disk"]) == (http.HTTPStatus.OK, "nearly full")


def test_short_retention_is_reported_and_stays_ready() -> None:
    partner = make_world().here
    note_retention_too_short({partner.pk: "tpa-1: set MSH_KEEP_MESSAGES to 1020"})
    status, report = answer()
    assert (status, report["ready"]) == (http.HTTPStatus.OK, True)
    assert report["retention"] == "too short"
    note_clock_doubtful("it has jumped")
    assert answer()[1]["retention"] == "stopped: the clock jumped"
    note_clock_doubtful("")
    note_retention_too_short({})
    assert answer()[1]["retention"] == "ok"


@pytest.mark.django_db(transaction=True)
def test_who_holds_an_old_snapshot_is_named_to_those_who_may_know(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Every poll reads the dead rows that it keeps. Strangers learn no name and no address."""

    def look() -> tuple[dict[str, Any], str, list[CheckMessage]]:
        page = metrics._written().decode()
        return answer()[1], page, checks.check_deployment(None)

    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            cursor.execute("SET LOCAL application_name = 'night report'")
            cursor.execute("SELECT pg_backend_pid()")
            (session,) = cursor.fetchone()
        young, page, cautions = in_another_session(look)
        assert (young["snapshot"], cautions) == ("ok", [])
        assert 'msh_database_snapshot_seconds{holder=""}' in page
        monkeypatch.setattr(server, "SNAPSHOT_OLD", 0.0)
        old, page, cautions = in_another_session(look)
    assert old == young | {"snapshot": "held for too long"}, "it stays ready"
    (caution,) = cautions
    assert f"held for 0 min by session {session} of " in caution.msg
    assert "night report" in caution.msg
    assert f'msh_database_snapshot_seconds{{holder="session {session} of ' in page


def test_missing_migration_makes_it_unready() -> None:
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM django_migrations WHERE app = 'axes'")
    status, report = answer()
    assert status == http.HTTPStatus.SERVICE_UNAVAILABLE
    assert (report["ready"], report["database"]) == (False, "migrations missing")
    assert report["retention"] == "unknown", "its table may be one of those that are missing"


@pytest.mark.parametrize("migrated", [False, True])
@pytest.mark.django_db(transaction=True)
def test_database_that_is_down_makes_it_unready(
    monkeypatch: pytest.MonkeyPatch, *, migrated: bool
) -> None:
    monkeypatch.setattr(health, "_migrated", migrated)
    connection.close()
    monkeypatch.setitem(connection.settings_dict, "PORT", 1)
    status, report = answer()
    assert status == http.HTTPStatus.SERVICE_UNAVAILABLE
    assert (report["ready"], report["database"]) == (False, "unreachable")
    assert report["retention"] == "unknown"


@pytest.mark.django_db(transaction=True)
def test_database_that_takes_no_writes_makes_it_unready() -> None:
    """A standby after a failover, or a disk that was full: partners would be refused."""
    with connection.cursor() as cursor:
        cursor.execute("SET default_transaction_read_only = on")
    try:
        status, report = answer()
    finally:
        with connection.cursor() as cursor:
            cursor.execute("SET default_transaction_read_only = off")
    assert status == http.HTTPStatus.SERVICE_UNAVAILABLE
    assert (report["ready"], report["database"]) == (False, "read-only")
    assert answer()[1]["database"] == "ok"


def test_store_at_its_limit_is_reported(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a short disk: who sends a message is asked to wait."""
    settings.MSH_STORE_LIMIT = 1
    monkeypatch.setattr(capacity, "_measured_at", 0.0)
    status, report = answer()
    assert (status, report["disk"]) == (http.HTTPStatus.OK, "MSH_STORE_LIMIT reached")


def test_who_asks_often_costs_the_database_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The page is public."""
    monkeypatch.setattr(health, "ASKED_EVERY", 1000.0)
    monkeypatch.setattr(health, "_asked_at", 0.0)
    first = answer()
    with CaptureQueriesContext(connection) as statements:
        assert answer() == first
    assert len(statements) == 0


def test_live_queries_nothing(settings: Any) -> None:
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    response = Client().get("/health/live")
    assert (response.status_code, response.json()) == (http.HTTPStatus.OK, {"live": True})
