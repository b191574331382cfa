"""The OpenAPI document says what the API does: schemathesis asks, by the document alone."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from django.core.signals import request_finished, request_started
from django.db import close_old_connections, connection
from django.test import Client
from drf_spectacular.generators import SchemaGenerator
from hypothesis import HealthCheck, Phase, settings
from schemathesis.specs.openapi.checks import positive_data_acceptance

from msh.models import ConsumerKind
from msh.wsgi import application
from tests.api.application import Application, order
from tests.api.conftest import Tokens
from tests.api.test_access import NEEDS
from tests.delivery.desk import consumer, receive
from tests.flows.world import World, make_world

pytestmark = pytest.mark.django_db


def document() -> Any:
    generator: Any = SchemaGenerator()  # type: ignore[no-untyped-call]
    return generator.get_schema(request=None, public=True)


def test_every_address_is_in_the_document() -> None:
    paths = document()["paths"]
    told = {
        (method.upper(), path.removeprefix("/api/v1/"))
        for path, methods in paths.items()
        for method in methods
    }
    asked = {(m, re.sub(r"(?<=/)(1|m-1)(?=/|$)", "{}", path)) for m, path, _ in NEEDS}
    assert {(m, re.sub(r"{\w+}", "{}", path)) for m, path in told} == asked


def test_page_of_the_document_asks_nobody_else(client: Client) -> None:
    page = client.get("/api/docs").content.decode()
    sources = re.findall(r'(?:src|href)="([^"]+)"', page)
    assert len(sources) >= 3
    for source in sources:
        assert source.startswith("/static/"), source
    assert "//" not in re.sub(r"/static/\S+|//# .*|// .*", "", page), "no address of another host"
    assert client.get("/api/schema").status_code == 200


@pytest.fixture
def api(world: World, token: Tokens) -> Iterator[Application]:
    """With something behind each address."""
    consumer(ConsumerKind.PULL, name="orders")
    receive(make_world(), 2)
    permissions = ("suspend", "resume", "send_now")
    holder = token(
        *("send", "read", "read_payload", "consume", "operate"),
        may=(
            *("view_outboundlink", "view_incident", "resolve_incident"),
            *(f"{verb}_outboundlink" for verb in permissions),
        ),
    )
    holder.bulk([order(world, "m-1"), order(world, "m-2")])
    with connection.cursor() as cursor:  # between two requests the test thinks
        cursor.execute("SET LOCAL idle_in_transaction_session_timeout = 0")
    signals = (request_started, request_finished)
    for signal in signals:  # as Django's own client does: the connection is the test's
        signal.disconnect(close_old_connections)
    yield holder
    for signal in signals:
        signal.connect(close_old_connections)


@schemathesis.serializer("application/x-ndjson")
def as_it_is(context: Any, value: Any) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode()


SCHEMA = schemathesis.openapi.from_dict(document())
SCHEMA.app = application


@SCHEMA.parametrize()
@settings(
    max_examples=12,
    deadline=None,
    derandomize=True,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
def test_answers_are_those_of_the_document(case: schemathesis.Case[Any], api: Application) -> None:
    """Nor a 500. What the document cannot say (which TPAIds there are) may be refused."""
    case.call_and_validate(
        headers={"Authorization": f"Bearer {api.secret}"},
        excluded_checks=[positive_data_acceptance],
    )
