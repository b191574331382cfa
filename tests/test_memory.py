"""Bodies that were answered do not pile up until Python's collector has counted enough objects."""

import gc
import json
from collections.abc import Iterator
from typing import Any

import pytest
from django.core.handlers.wsgi import WSGIHandler
from django.core.signals import request_finished, request_started
from django.db import close_old_connections
from django.test import RequestFactory
from rest_framework.request import Request

from msh.endpoint import EndpointApplication
from msh.flows.operations import tokens
from msh.memory import BYTES_A_COLLECTION
from partners.models import Credential, Partner, digest_of

BODY = 1024 * 1024  # bytes
AT_MOST = BYTES_A_COLLECTION // BODY
POSTS = 2 * AT_MOST


@pytest.fixture(autouse=True)
def open_connection() -> Iterator[None]:
    """Django closes it around each request; that of a test is the test's."""
    request_started.disconnect(close_old_connections)
    request_finished.disconnect(close_old_connections)
    yield
    request_started.connect(close_old_connections)
    request_finished.connect(close_old_connections)


@pytest.fixture(autouse=True)
def idle_collector() -> Iterator[None]:
    """It never has enough objects to come by itself."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def most_kept(path: str, body: bytes, content_type: str, secret: str) -> int:
    """Requests of its own that were still there after one of `POSTS`, at most."""
    before = count_requests()  # of other tests, which something keeps
    application = EndpointApplication(WSGIHandler())
    headers = {"Authorization": f"Bearer {secret}"}
    kept = []
    for _ in range(POSTS):
        _answer(application, RequestFactory().post(path, body, content_type, headers=headers))
        kept.append(count_requests() - before)
    return max(kept)


def count_requests() -> int:
    return sum(type(thing) is Request for thing in gc.get_objects())


def _answer(application: EndpointApplication, request: Any) -> None:
    answer = application(request.environ, lambda *started: lambda written: None)
    for _ in answer:
        pass
    if hasattr(answer, "close"):
        answer.close()


def test_bodies_of_partners(transactional_db: None) -> None:
    partner = Partner.objects.create(name="acme", uri="http://acme.example/ebxml/")
    Credential.objects.create(partner=partner, sha256=digest_of("secret"))

    assert most_kept("/ebxml/", bytes(BODY), "text/plain", "secret") <= AT_MOST + 1


@pytest.mark.parametrize(
    ("path", "content_type"),
    [("messages", "application/json"), ("messages/bulk", "application/x-ndjson")],
)
def test_bodies_of_applications(path: str, content_type: str, db: None) -> None:
    _, secret = tokens.make("shop", ["send"])
    body = json.dumps({"message_id": "1", "action": "x" * BODY}).encode()

    assert most_kept(f"/api/v1/{path}", body, content_type, secret) <= AT_MOST + 1
