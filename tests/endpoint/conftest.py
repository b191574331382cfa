"""The endpoint behind the real web server, on the test's database: no worker, no beat, no Redis."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings

from partners.models import Agreement, Credential, Partner, digest_of
from tests.keys import decrypting, environment, new_key
from tests.peer import Peer
from tests.web import web_process

MESSAGE_LIMIT = 100_000  # bytes


@contextmanager
def serving(folder: Path, **given: Any) -> Iterator[str]:
    """The endpoint's address; `given` is for `web_process`."""
    keys = environment(folder, [new_key("us")])
    keys |= decrypting(folder, [new_key("our next"), new_key("us")])
    with web_process(folder, MSH_MESSAGE_LIMIT=str(MESSAGE_LIMIT), **keys, **given) as port:
        yield f"http://127.0.0.1:{port}/ebxml/"


@pytest.fixture(scope="package")
def web(django_db_setup: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Its address."""
    with serving(tmp_path_factory.mktemp("web")) as address:
        yield address


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
