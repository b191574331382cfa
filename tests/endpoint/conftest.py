"""The endpoint behind a real granian, on the test's database: no worker, no beat, no Redis."""

import os
import signal
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.conf import settings

from msh import processes
from partners.models import Agreement, Credential, Partner, digest_of
from tests.peer import Peer
from tests.waiting import wait_until

ROOT = Path(__file__).resolve().parent.parent.parent
MESSAGE_LIMIT = 100_000  # bytes


@pytest.fixture(scope="package")
def web(django_db_setup: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Its address."""
    port = _free_port()
    database = settings.DATABASES["default"]
    server = "{USER}:{PASSWORD}@{HOST}:{PORT}/{NAME}".format(**database)
    process = processes.spawn(
        [
            *(sys.executable, "-m", "granian", "--interface", "wsgi", "msh.wsgi:application"),
            *("--host", "127.0.0.1", "--port", str(port), "--http", "1", "--no-ws"),
            *("--workers", "1", "--blocking-threads", "4", "--log-level", "warning"),
        ],
        log=tmp_path_factory.mktemp("web") / "web.log",
        death_signal=signal.SIGTERM,
        cwd=ROOT,
        env={
            **os.environ,
            "DATABASE_URL": f"postgres://{server}",
            "MSH_MESSAGE_LIMIT": str(MESSAGE_LIMIT),
        },
    )
    wait_until(lambda: _answers(port), what="granian")
    yield f"http://127.0.0.1:{port}/ebxml/"
    processes.stop(process)


@pytest.fixture
def partner(transactional_db: None) -> Partner:
    """Known by the token "token", with one agreement."""
    partner = Partner.objects.create(name="acme", uri="http://peer.example/ebxml/")
    Credential.objects.create(partner=partner, sha256=digest_of("token"))
    Agreement.objects.create(
        partner=partner, tpa_id="tpa-4711", our_party="111111111", their_party="222222222"
    )
    return partner


@pytest.fixture
def peer(web: str, partner: Partner) -> Iterator[Peer]:
    """The partner; it sends, and nothing is sent to it."""
    with Peer(web, msh_uri=settings.MSH_URI, uri=partner.uri, token="token") as peer:
        yield peer


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True
