"""The MSH works through PgBouncer as docs/connections.md says."""

import json
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.exchange.pair import PairFactory
from tests.hosts.conftest import DATABASE, Servers
from tests.hosts.machine import Hosts
from tests.hosts.network import HostsMissing
from tests.hosts.pooler import pooler
from tests.hosts.traffic import Traffic

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "connections.md"


@pytest.fixture
def pooled(servers: Servers) -> Iterator[str]:
    """The DATABASE_URL of a PgBouncer, whose role has the settings of the document."""
    with psycopg.connect(servers.database.url(), autocommit=True) as session:
        for line in DOCUMENT.read_text().splitlines():
            if line.startswith("ALTER ROLE msh "):
                session.execute(line.replace(" msh ", " postgres ").encode())
    try:
        with pooler(servers.database, DATABASE) as url:
            yield url
    except HostsMissing as missing:
        pytest.fail(str(missing), pytrace=False)


def test_msh_works_through_a_pooler_of_transactions(
    msh: Hosts, pair: PairFactory, pooled: str
) -> None:
    """The processes, a flow of the application, a command that reads with a cursor, the check."""
    silent = pair(timeout=1, retries=99, retry_interval=1)
    talking = pair(timeout=60, acknowledges=True)
    with msh.through(f"{pooled}?prepare_threshold=none"):
        message = silent.submit()
        traffic = Traffic(msh, talking)
        for _ in range(8):  # more often than a statement runs before it is prepared
            traffic.submit()
            traffic.receive()
        traffic.wait_until_acknowledged(60)
        traffic.assert_once()
        silent.wait_for_copies(message, 2)
        listed = _manage(msh, "messages", "--json")
        assert message.message_id in {row["message_id"] for row in json.loads(listed)}
        _manage(msh, "check", "--database", "default", "--fail-level", "WARNING")


def _manage(msh: Hosts, *words: str) -> str:
    process = msh.start_python("manage.py", *words)
    said, _ = process.communicate()
    assert process.returncode == 0, said
    return said.decode()
