"""No request is kept by what refers to itself: Python's collector counts objects, not bytes."""

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
from rest_framework.response import Response

from msh.endpoint import EndpointApplication
from msh.flows import tokens


def left_behind(environ: dict[str, Any]) -> list[object]:
    """Requests and responses that only the collector of cycles would take away."""
    application = EndpointApplication(WSGIHandler())
    gc.collect()
    gc.disable()
    try:
        _answer(application, environ)
        return [thing for thing in gc.get_objects() if isinstance(thing, Request | Response)]
    finally:
        gc.enable()


def _answer(application: EndpointApplication, environ: dict[str, Any]) -> None:
    answer = application(environ, lambda status, headers: None)
    for _ in answer:
        pass
    if hasattr(answer, "close"):
        answer.close()


@pytest.fixture(autouse=True)
def open_connection() -> Iterator[None]:
    """Django closes it around each request; that of a test is the test's."""
    request_started.disconnect(close_old_connections)
    request_finished.disconnect(close_old_connections)
    yield
    request_started.connect(close_old_connections)
    request_finished.connect(close_old_connections)


@pytest.fixture
def secret(db: None) -> str:
    return tokens.make("shop", ["send", "read"])[1]


@pytest.mark.django_db
def test_partners_post_goes_with_its_answer() -> None:
    request = RequestFactory().post("/ebxml/", b"no MIME", "text/plain")

    assert left_behind(request.environ) == []


@pytest.mark.parametrize(
    ("path", "content_type"),
    [("messages/bulk", "application/x-ndjson"), ("messages", "application/json")],
)
def test_applications_post_goes_with_its_answer(path: str, content_type: str, secret: str) -> None:
    body = json.dumps({"message_id": "1"}).encode()
    headers = {"Authorization": f"Bearer {secret}"}
    request = RequestFactory().post(f"/api/v1/{path}", body, content_type, headers=headers)

    assert left_behind(request.environ) == []


@pytest.mark.parametrize("path", ["messages", "messages/nobody"])
def test_what_an_application_reads_goes_with_its_request(path: str, secret: str) -> None:
    headers = {"Authorization": f"Bearer {secret}"}
    request = RequestFactory().get(f"/api/v1/{path}", headers=headers)

    assert left_behind(request.environ) == []
