"""The OpenAPI document is one for tools: a validator takes it, and a client is made of it."""

import importlib
import json
import subprocess
import sys
from collections.abc import Iterator
from io import BytesIO
from typing import Any

import pytest
from django.core.signals import request_finished, request_started
from django.db import close_old_connections
from drf_spectacular.generators import SchemaGenerator

from msh.protocol.reason import Refusal
from msh.wsgi import application
from tests.api.application import Application, order
from tests.api.conftest import shop, token, world
from tests.flows.world import World

__all__ = ["shop", "token", "world"]

METHODS = ("get", "post")


@pytest.fixture(scope="module")
def document() -> Any:
    generator: Any = SchemaGenerator()  # type: ignore[no-untyped-call]
    return json.loads(json.dumps(generator.get_schema(request=None, public=True)))


def test_a_validator_takes_it(document: Any) -> None:
    importlib.import_module("openapi_spec_validator").validate(document)


def test_examples_are_of_their_schemas(document: Any) -> None:
    jsonschema = importlib.import_module("jsonschema")

    def check(value: Any, schema: Any) -> None:
        whole = {**schema, "components": document["components"]}
        jsonschema.Draft202012Validator(whole).validate(value)

    seen = 0
    for name, component in document["components"]["schemas"].items():
        if "example" in component:
            check(component["example"], {"$ref": f"#/components/schemas/{name}"})
            seen += 1
    for path in document["paths"].values():
        for operation in path.values():
            places = [operation.get("requestBody", {}), *operation["responses"].values()]
            for body in (body for one in places for body in one.get("content", {}).values()):
                if "example" in body:
                    check(body["example"], body["schema"])
                    seen += 1
    assert seen >= 7


def test_lines_of_bulk_have_schemas(document: Any) -> None:
    bulk = document["paths"]["/api/v1/messages/bulk"]["post"]
    kind = "application/x-ndjson"
    asked = bulk["requestBody"]["content"][kind]["schema"]
    answered = bulk["responses"]["200"]["content"][kind]["schema"]
    assert (asked["type"], answered["type"]) == ("array", "array")
    schemas = document["components"]["schemas"]
    line = schemas[asked["items"]["$ref"].rpartition("/")[2]]
    assert {"message_id", "tpa_id", "action", "service_interface"} == set(line["required"])
    assert line["properties"]["message_id"]["maxLength"] == 255
    answer = schemas[answered["items"]["$ref"].rpartition("/")[2]]
    assert set(answer["properties"]) >= {"line", "message_id", "result", "reason", "code", "field"}


def test_every_answer_names_its_headers(document: Any) -> None:
    assert document["servers"]
    for path in document["paths"].values():
        for operation in path.values():
            for status, answer in operation["responses"].items():
                names = set(answer["headers"])
                assert "X-Request-Id" in names
                assert ("Retry-After" in names) == (status in ("429", "503"))
                assert ("Location" in names) == (status == "201")


def test_what_a_request_may_hold_is_bounded(document: Any) -> None:
    """As text without NUL, at most so many elements, within the years that are taken."""
    for name, component in document["components"]["schemas"].items():
        if name.endswith("Request"):
            assert component["additionalProperties"] is False
            for field, schema in component["properties"].items():
                is_free = schema.get("type") == "string" and not schema.keys() & {"enum", "format"}
                assert not is_free or "pattern" in schema, (name, field)


# --- a client that is made of it ------------------------------------------------------------------
@pytest.fixture(scope="module")
def made(document: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Name of the package."""
    folder = tmp_path_factory.mktemp("made")
    (folder / "openapi.json").write_text(json.dumps(document))
    command = [
        *(sys.executable, "-m", "openapi_python_client", "generate"),
        *("--path", "openapi.json", "--meta", "none", "--output-path", "made_client"),
    ]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    sys.path.insert(0, str(folder))
    yield "made_client"
    sys.path.remove(str(folder))


@pytest.fixture
def client(made: str, shop: Application) -> Iterator[Any]:
    """It speaks to the web application without a socket."""
    httpx = importlib.import_module("httpx")
    signals = (request_started, request_finished)
    for signal in signals:  # as Django's own client does: the connection is the test's
        signal.disconnect(close_old_connections)
    transport = httpx.WSGITransport(app=application)
    yield importlib.import_module(f"{made}.client").AuthenticatedClient(
        base_url="http://testserver", token=shop.secret, httpx_args={"transport": transport}
    )
    for signal in signals:
        signal.connect(close_old_connections)


@pytest.mark.django_db
def test_a_client_made_of_it_submits_and_reads(client: Any, made: str, world: World) -> None:
    def of(module: str) -> Any:
        return importlib.import_module(f"{made}.{module}")

    line = of("models").SubmissionRequest.from_dict(order(world, "m-1"))
    submitted = of("api.messages.submit_message").sync(client=client, body=line)
    assert submitted.message_id == "m-1"
    again = of("api.messages.submit_message").sync_detailed(client=client, body=line)
    assert again.status_code == 200

    lines = [order(world, f"m-{n}") for n in (1, 2)] + [order(world, "m-3", action="")]
    models = [of("models").SubmissionLineRequest.from_dict(one) for one in lines]
    text = b"\n".join(json.dumps(one.to_dict()).encode() for one in models)
    answer = of("api.messages.submit_messages_in_bulk").sync_detailed(
        client=client, body=of("types").File(payload=BytesIO(text))
    )
    assert answer.status_code == 200
    answers = [
        of("models").AnswerLine.from_dict(json.loads(one)) for one in answer.content.splitlines()
    ]
    assert [one.result.value for one in answers] == ["known", "accepted", "refused"]
    assert (answers[2].code.value, answers[2].field) == (Refusal.INVALID, "action")

    listed = of("api.messages.list_messages").sync(client=client, limit=10)
    assert [one.message_id for one in listed.results] == ["m-1", "m-2"]
    one = of("api.messages.get_message").sync("m-2", client=client)
    assert one.state.value == "queued"
    lost = of("api.messages.get_message").sync("m-9", client=client)
    assert (lost.code.value, lost.status) == (Refusal.NOT_FOUND, 404)
    assert of("api.token.get_token").sync(client=client).limits.bulk_lines == 5_000
