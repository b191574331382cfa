"""What schemathesis asks, by the OpenAPI document alone.

With MSH_EXAMPLES=12 in the environment it asks so many drawn questions of each operation, and each
boundary of each parameter: some 3,000 in all, which take a minute.
"""

import json
import os
from collections.abc import Iterator
from typing import Any

import schemathesis
from django.db import transaction
from drf_spectacular.generators import SchemaGenerator
from hypothesis import HealthCheck, Phase, settings
from schemathesis.core.result import Ok
from schemathesis.pytest.lazy import get_all_tests
from schemathesis.specs.openapi.checks import (
    negative_data_rejection,
    positive_data_acceptance,
)

from msh.wsgi import application
from tests.api.application import Application


def document() -> Any:
    generator: Any = SchemaGenerator()  # type: ignore[no-untyped-call]
    return generator.get_schema(request=None, public=True)


@schemathesis.serializer("application/x-ndjson")
def as_lines(context: Any, value: Any) -> bytes:
    """The document shows lines as the items of an array."""
    items = value if isinstance(value, list) else [value]
    return b"\n".join(json.dumps(item).encode() for item in items)


@schemathesis.deserializer("application/x-ndjson")
def of_lines(context: Any, response: Any) -> Any:
    return [json.loads(line) for line in response.content.splitlines()]


def _without_gzip(environ: Any, start_response: Any) -> Any:
    """Checks of schemathesis accept it, and do not unpack it."""
    environ.pop("HTTP_ACCEPT_ENCODING", None)
    return application(environ, start_response)


SCHEMA = schemathesis.openapi.from_dict(document())
SCHEMA.app = _without_gzip
EXAMPLES = int(os.environ.get("MSH_EXAMPLES", "0"))
SCHEMA.config.phases.coverage.enabled = EXAMPLES > 0


def operations() -> Iterator[tuple[str, Any]]:
    """Each with its operationId."""
    for found in SCHEMA.get_all_operations():
        assert isinstance(found, Ok)
        operation = found.ok()
        yield str(operation.definition.raw["operationId"]), operation


def ask(case: schemathesis.Case[Any], api: Application) -> int:
    """The status. What the document cannot say (which TPAIds there are) may be refused, and a line
    of bulk that is wrong is refused in its own line of the answer."""
    is_bulk = case.operation.path.endswith("/bulk")
    response = case.call_and_validate(
        headers={"Authorization": f"Bearer {api.secret}"},
        excluded_checks=[positive_data_acceptance, *([negative_data_rejection] * is_bulk)],
    )
    return int(response.status_code)


def ask_each(api: Application) -> None:
    """Of each operation many cases. Each finds what the test has made."""
    for found in get_all_tests(schema=SCHEMA, test_func=_ask, settings=None, given_kwargs={}):
        assert isinstance(found, Ok)
        operation, test = found.ok()
        try:
            test(api=api)
        except Exception as error:
            error.add_note(operation.label)
            raise


@settings(
    max_examples=EXAMPLES or 12,
    deadline=None,
    derandomize=True,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
def _ask(case: schemathesis.Case[Any], api: Application) -> None:
    before = transaction.savepoint()
    try:
        ask(case, api)
    finally:
        transaction.savepoint_rollback(before)
