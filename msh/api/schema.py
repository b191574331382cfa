"""The parts of the OpenAPI document that cannot be derived from the views."""

from typing import Any

from drf_spectacular.extensions import OpenApiAuthenticationExtension

from .framework.problems import FeedProblem, Problem
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
    "properties": {
        **{name: {"type": "string"} for name in sorted(TEXTS)},
        "payload": {"type": "array", "items": {"type": "string", "format": "binary"}},
    },
}


def close_requests(result: dict[str, Any], **_: object) -> dict[str, Any]:
    """Hook of drf-spectacular: a body with an unknown field is refused."""
    for name, component in result["components"]["schemas"].items():
        if name.endswith("Request"):
            component["additionalProperties"] = False
    return result


class TokenScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    target_class = "msh.api.framework.access.TokenAuthentication"
    name = "token"

    def get_security_definition(self, auto_schema: object) -> dict[str, str]:
        return {"type": "http", "scheme": "bearer", "description": "manage.py token NAME"}
