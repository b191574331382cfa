"""Whoever sends slowly holds up nobody else."""

import os
import time
from collections.abc import Iterator
from http.client import HTTPConnection

import pytest
from django.conf import settings

from msh.flows.operations import tokens
from partners.models import Agreement, Credential, Partner, digest_of
from tests.peer import Peer, normal
from tests.web import web_process
from tests.web.slow import kinds, slow_clients

pytestmark = pytest.mark.django_db(transaction=True)

PATIENCE = float(os.environ.get("SLOW_CLIENTS_LIMIT", "5"))
"""Seconds for an answer. `make slow-clients` allows one, on a machine that does nothing else."""
SECONDS = float(os.environ.get("SLOW_CLIENTS_SECONDS", "0"))
"""How long to look, at least."""
ROUNDS = 3


@pytest.fixture(scope="module")
def web(django_db_setup: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    with web_process(tmp_path_factory.mktemp("web"), threads=8) as port:
        yield port


@pytest.fixture
def hostile(transactional_db: None) -> str:
    """The token of a partner."""
    partner = Partner.objects.create(name="hostile", uri="http://hostile.example/")
    Credential.objects.create(partner=partner, sha256=digest_of("hostile"))
    return "hostile"


@pytest.fixture
def peer(web: int, transactional_db: None) -> Iterator[Peer]:
    """A partner that waits for nobody."""
    partner = Partner.objects.create(name="acme", uri="http://peer.example/ebxml/")
    Credential.objects.create(partner=partner, sha256=digest_of("token"))
    Agreement.objects.create(
        partner=partner, tpa_id="tpa-4711", our_party="111111111", their_party="222222222"
    )
    url = f"http://127.0.0.1:{web}/ebxml/"
    with Peer(url, msh_uri=settings.MSH_URI, uri=partner.uri, token="token") as peer:
        yield peer


def get(port: int, path: str) -> int:
    connection = HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        response.read()
        return response.status
    finally:
        connection.close()


def assert_served(web: int, peer: Peer) -> None:
    """A message, the health page and the console's log-in page are answered in time."""
    number = 0

    def send() -> None:
        nonlocal number
        number += 1
        draft = peer.complete(normal(sequence_number=number))
        response = peer.send(draft, timeout=PATIENCE)
        assert response.status == 204, response

    def look(path: str) -> None:
        assert get(web, path) == 200

    longest = 0.0
    began = time.monotonic()
    while number < ROUNDS or time.monotonic() < began + SECONDS:
        for act in (send, lambda: look("/health/live"), lambda: look("/admin/login/")):
            asked = time.monotonic()
            act()
            longest = max(longest, time.monotonic() - asked)
    print(f"{number} rounds, the longest answer took {longest:.3f} s")  # noqa: T201  asked by make
    assert longest < PATIENCE


@pytest.fixture
def beginnings(hostile: str) -> dict[str, bytes]:
    _, application = tokens.make("slow", ["send"])
    return kinds(partner=hostile, application=application, csrf_cookie=settings.CSRF_COOKIE_NAME)


@pytest.mark.parametrize(
    "kind",
    [
        *("partner's body", "stranger's body", "log-in form", "expecting"),
        *("upload with a token", "upload without a token"),
        *("head without an end", "nothing at all"),
    ],
)
def test_slow_clients_of_one_kind_do_not_delay_others(
    web: int, peer: Peer, beginnings: dict[str, bytes], kind: str
) -> None:
    with slow_clients(web, [beginnings[kind]], 16):
        assert_served(web, peer)


@pytest.mark.parametrize("count", [200, 1000])
def test_many_slow_clients_do_not_delay_others(
    web: int, peer: Peer, beginnings: dict[str, bytes], count: int
) -> None:
    with slow_clients(web, list(beginnings.values()), count):
        assert_served(web, peer)
