"""What schemathesis asks, by the OpenAPI document alone.

With MSH_EXAMPLES=12 in the environment it asks so many drawn questions of each operation, and each
boundary of each parameter: some 3,000 in all, which take a minute.
"""

import os
from collections.abc import Iterator
from typing import Any

import schemathesis
from django.db import transaction
from drf_spectacular.generators import SchemaGenerator
from hypothesis import HealthCheck, Phase, settings
from schemathesis.core.result import Ok
from schemathesis.pytest.lazy import get_all_tests
from schemathesis.specs.openapi.checks import positive_data_acceptance

from msh.wsgi import application
from tests.api.application import Application


def document() -> Any:
    generator: Any = SchemaGenerator()  # type: ignore[no-untyped-call]
    return generator.get_schema(request=None, public=True)


@schemathesis.serializer("application/x-ndjson")
def as_it_is(context: Any, value: Any) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode()


SCHEMA = schemathesis.openapi.from_dict(document())
SCHEMA.app = application
EXAMPLES = int(os.environ.get("MSH_EXAMPLES", "0"))
SCHEMA.config.phases.coverage.enabled = EXAMPLES > 0


def operations() -> Iterator[tuple[str, Any]]:
    """Each with its operationId."""
    for found in SCHEMA.get_all_operations():
        assert isinstance(found, Ok)
        operation = found.ok()
        yield str(operation.definition.raw["operationId"]), operation


def ask(case: schemathesis.Case[Any], api: Application) -> int:
    """The status. What the document cannot say (which TPAIds there are) may be refused."""
    response = case.call_and_validate(
        headers={"Authorization": f"Bearer {api.secret}"},
        excluded_checks=[positive_data_acceptance],
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
