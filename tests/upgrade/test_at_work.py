"""A web process of the version before answers while each kind of migration is applied."""

import http.client
import json
import os
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.core.management import call_command
from django.db import connections

from msh.flows.operations import tokens
from msh.models import InboundMessage, OutboundMessage, Scope
from msh.store import migrating
from partners.models import Agreement, Credential, Partner, digest_of
from tests.peer import Peer, normal
from tests.waiting import wait_until
from tests.web import web_process

OUTBOUND = "LOCK TABLE msh_outboundmessage IN SHARE UPDATE EXCLUSIVE MODE"
INBOUND = "LOCK TABLE msh_inboundmessage IN SHARE UPDATE EXCLUSIVE MODE"
ROW = "SELECT 1 FROM msh_outboundmessage LIMIT 1 FOR UPDATE"
WAITS = "SELECT 1 FROM pg_locks WHERE NOT granted AND relation = %s::regclass"
REST_IS_FILLED = "SELECT 1 FROM msh_outboundmessage WHERE note IS NULL HAVING count(*) = 1"
ORDER = {
    "tpa_id": "tpa-4711",
    "partner": "acme",
    "service_interface": "Orders",
    "action": "New",
    "payloads": [{"content": "<order/>", "label": "order.xml"}],
}
STEPS = (
    ("0002_columns", OUTBOUND, "msh_outboundmessage"),
    ("0003_index", OUTBOUND, "msh_outboundmessage"),
    ("0004_not_valid", INBOUND, "msh_inboundmessage"),
    ("0005_validate", INBOUND, "msh_inboundmessage"),
    ("0006_fill", ROW, ""),
)
"""Migration, what another session holds meanwhile, the table for which the migration waits."""


@pytest.fixture
def partner(older: str) -> Partner:
    partner = Partner.objects.create(name="acme", uri="http://acme.example/")
    Credential.objects.create(partner=partner, sha256=digest_of("token"))
    Agreement.objects.create(
        partner=partner, tpa_id="tpa-4711", our_party="111111111", their_party="222222222"
    )
    return partner


@contextmanager
def _session(database: str) -> Iterator["psycopg.Connection[Any]"]:
    url = urlsplit(os.environ["DATABASE_URL"])._replace(path=f"/{database}").geturl()
    with psycopg.connect(url, autocommit=True) as session:
        yield session


class Users:
    """The partner, and an application."""

    def __init__(self, port: int, peer: Peer, secret: str) -> None:
        self._port = port
        self._peer = peer
        self._headers = {"Authorization": f"Bearer {secret}", "Content-Type": "application/json"}
        self.rounds = 0

    def work(self) -> None:
        """Each kind of request once; each is answered."""
        self.rounds += 1
        names = {"message_id": f"m-{self.rounds}", "sequence_number": self.rounds}
        assert self._peer.send(normal(**names)).status == 204
        assert self._ask("POST", "/api/v1/messages", json.dumps(ORDER)) == 201
        assert self._ask("GET", "/api/v1/messages?limit=5") == 200

    def _ask(self, method: str, path: str, body: str | None = None) -> int:
        with closing(http.client.HTTPConnection("127.0.0.1", self._port, timeout=30)) as there:
            there.request(method, path, body, self._headers)
            return there.getresponse().status


@pytest.fixture
def users(older: str, partner: Partner, tmp_path: Path) -> Iterator[Users]:
    _, secret = tokens.make("shop", [Scope.READ, Scope.SEND], User.objects.create_superuser("u"))
    with ExitStack() as stack:
        port = stack.enter_context(web_process(tmp_path))
        url = f"http://127.0.0.1:{port}/ebxml/"
        peer = Peer(url, msh_uri=settings.MSH_URI, uri=partner.uri, token="token")
        yield Users(port, stack.enter_context(peer), secret)


def test_answered_before_while_and_after_each_migration(
    older: str, users: Users, monkeypatch: pytest.MonkeyPatch
) -> None:
    users.work()
    for name, held, table in STEPS:
        monkeypatch.setattr(migrating, "call_command", partial(_migrate_to, name))
        with _session(older) as other, _session(older) as looking:
            with other.transaction():
                other.execute(held.encode())
                migration = threading.Thread(target=_migrate, daemon=True)
                migration.start()
                query, given = (WAITS, [table]) if table else (REST_IS_FILLED, [])
                wait_until(partial(_is_found, looking, query, given), what=name)
                users.work()
                assert migration.is_alive()
            migration.join(60)
            applied = "SELECT 1 FROM django_migrations WHERE name = %s"
            assert looking.execute(applied, [name]).fetchone(), name
        users.work()
    assert InboundMessage.objects.count() == OutboundMessage.objects.count() == users.rounds


def _migrate() -> None:
    try:
        migrating.migrate(lambda line: None)
    finally:
        connections.close_all()


def _migrate_to(name: str, command: str, **options: Any) -> None:
    call_command(command, "msh", name, **options)


def _is_found(session: "psycopg.Connection[Any]", query: str, given: list[str]) -> bool:
    return session.execute(query.encode(), given).fetchone() is not None
