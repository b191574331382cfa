"""The parts of the OpenAPI document that cannot be derived from the views."""

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

from drf_spectacular.extensions import OpenApiAuthenticationExtension

from .framework.problems import TYPES, FeedProblem, Problem
from .submission import TEXTS

ALWAYS = (401, 403, 429, 503)


def problems(*codes: int) -> dict[tuple[int, str], type[Problem]]:
    """Responses that are problem documents: these, and those that every address has."""
    return {(code, "application/problem+json"): Problem for code in sorted({*codes, *ALWAYS})}


def feed_problems(*codes: int) -> dict[tuple[int, str], type[Problem]]:
    """As `problems`, of an address of the feed: 410 says where to go on."""
    return problems(*codes) | {(410, "application/problem+json"): FeedProblem}


FORM: dict[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "description": "As in JSON, a field each, and a file `payload` for each payload.",
    "required": ["tpa_id", "service_interface", "action"],
    "properties": {"payload": {"type": "array", "items": {"type": "string", "format": "binary"}}},
}
"""`complete` adds the fields of a submission."""

_TEXT = r"^[^\u0000]*$"
_YEARS = r"^(190[1-9]|19[1-9][0-9]|[2-8][0-9]{3})-"
"""Of the times that `moment` takes, as far as a pattern can say it."""


def _header(description: str, kind: str = "string", *, always: bool = True) -> dict[str, Any]:
    return {"description": description, "required": always, "schema": {"type": kind}}


_HEADERS: dict[str, Any] = {
    "X-Request-Id": _header("Of the request, or a new one. The log of the MSH has it."),
    "RateLimit-Policy": _header(
        'Of the token, in each web process: `"token";q=200;w=1` are 200 requests a second.',
        always=False,
    ),
    "RateLimit": _header(
        '`"token";r=150;t=1`: 150 requests are left, and it begins anew in 1 second.',
        always=False,
    ),
    "Retry-After": _header("Seconds to wait before the next try.", "integer"),
    "WWW-Authenticate": _header("Bearer"),
    "Accept-Encoding": _header("The Content-Encodings that are taken.", always=False),
    "Location": _header("The address of what was created."),
}
_ON_EVERY = ("X-Request-Id", "RateLimit-Policy", "RateLimit")
_BY_STATUS = {
    "201": ("Location",),
    "401": ("WWW-Authenticate",),
    "415": ("Accept-Encoding",),
    "429": ("Retry-After",),
    "503": ("Retry-After",),
}

_LINE: Mapping[str, Any] = {
    "tpa_id": "tpa-4711",
    "service_interface": "Orders",
    "action": "New",
    "message_id": "order-1",
    "payloads": [{"content": "<order/>", "label": "order.xml"}],
}
_REQUESTS: Mapping[str, Any] = {
    "submit_message": _LINE,
    "submit_messages_in_bulk": [_LINE, {**_LINE, "message_id": "order-2"}],
    "take_deliveries": {"consumer": "orders", "limit": 10},
    "settle_delivery": {"attempt": 1, "outcome": "completed", "external_id": "4500017"},
    "resume_link": {"reason": "they are back"},
}
"""Examples by operation."""
_ANSWERS: Mapping[str, Any] = {
    "submit_messages_in_bulk": [
        {"line": 1, "message_id": "order-1", "result": "accepted"},
        {
            "line": 2,
            "message_id": "order-2",
            "result": "refused",
            "reason": "action is required",
            "code": "invalid",
            "field": "action",
        },
    ],
}
_PROBLEM = {
    "type": f"{TYPES}#invalid",
    "title": "Rejected: do not retry without changes",
    "status": 422,
    "code": "invalid",
    "detail": "action is required",
    "field": "action",
    "request_id": "5f0c7a1d9b3e4f62a8d4c1e7b6f3a290",
}


def complete(result: dict[str, Any], **_: object) -> dict[str, Any]:
    """Hook of drf-spectacular: bounds, headers and examples."""
    schemas = result["components"]["schemas"]
    schemas["Problem"]["example"] = _PROBLEM
    for name, component in schemas.items():
        if name.endswith("Request"):
            component["additionalProperties"] = False  # an unknown field is refused
            for one in component.get("properties", {}).values():
                _bound(one)
    submission = schemas["SubmissionRequest"]["properties"]
    fields = {name: submission[name] for name in sorted(TEXTS)}
    for path in result["paths"].values():
        for operation in path.values():
            _complete_request(operation, fields)
            _complete_answers(operation)
    result["components"]["headers"] = _HEADERS
    return result


def _complete_request(operation: Mapping[str, Any], fields: Mapping[str, Any]) -> None:
    """`fields`: of a submission by form."""
    for parameter in operation.get("parameters", ()):
        _bound(parameter["schema"])
    for kind, body in operation.get("requestBody", {}).get("content", {}).items():
        if kind == "multipart/form-data":
            body["schema"]["properties"] |= deepcopy(fields)
        elif kind.endswith("json") and operation["operationId"] in _REQUESTS:
            body["example"] = _REQUESTS[operation["operationId"]]


def _complete_answers(operation: Mapping[str, Any]) -> None:
    for status, answer in operation["responses"].items():
        headers = answer.setdefault("headers", {})
        for name in (*_ON_EVERY, *_BY_STATUS.get(status, ())):
            headers[name] = {"$ref": f"#/components/headers/{name}"}
    if (example := _ANSWERS.get(operation["operationId"])) is not None:
        for body in operation["responses"]["200"]["content"].values():
            body["example"] = example


def _bound(schema: dict[str, Any]) -> None:
    """What the server refuses of any text: PostgreSQL stores no NUL, and years far away are
    mistakes."""
    if schema.get("type") != "string" or {"enum", "pattern"} & schema.keys():
        return
    if schema.get("format") == "date-time":
        schema["pattern"] = _YEARS
    elif "format" not in schema:
        schema["pattern"] = _TEXT


class TokenScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    target_class = "msh.api.framework.access.TokenAuthentication"
    name = "token"

    def get_security_definition(self, auto_schema: object) -> dict[str, str]:
        return {"type": "http", "scheme": "bearer", "description": "manage.py token NAME"}
