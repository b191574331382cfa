"""The REST API, from its OpenAPI document."""

from collections.abc import Iterator, Mapping
from http import HTTPStatus
from typing import Any

from drf_spectacular.generators import SchemaGenerator

from tools.site.markdown import table

_HEAD = """\
# API

Every path of the [REST API](../api.md), from its OpenAPI document, which is [here](openapi.json)
and on every MSH at `/api/schema`. A running MSH shows it at `/api/docs`, where it can be tried.
Errors are problem documents: [which status means what](codes.md#api).
"""
_METHODS = ("get", "post", "put", "patch", "delete")
_Document = Mapping[str, Any]


def schema() -> dict[str, Any]:
    document: dict[str, Any] = SchemaGenerator().get_schema(request=None, public=True)  # type: ignore[no-untyped-call]
    return document


def page(document: _Document) -> str:
    parts = [_HEAD]
    for path, methods in document["paths"].items():
        for method in _METHODS:
            if method in methods:
                parts += _operation(document, f"{method.upper()} {path}", methods[method])
    parts.append("## Documents\n")
    for name, component in sorted(document["components"]["schemas"].items()):
        parts += _component(name, component)
    return "\n".join(parts)


def _operation(document: _Document, title: str, operation: _Document) -> Iterator[str]:
    yield f"## {title}\n"
    yield f"{operation.get('description', '')}\n"
    parameters = [
        [f"`{one['name']}`", one["in"], _type(one["schema"]), one.get("description", "")]
        for one in operation.get("parameters", [])
    ]
    if parameters:
        yield table(["parameter", "in", "type", "meaning"], parameters)
    content = operation.get("requestBody", {}).get("content", {})
    if content:
        bodies = [[f"`{kind}`", _type(body.get("schema", {}))] for kind, body in content.items()]
        yield table(["request body", "type"], bodies)
    answers = [
        [status, HTTPStatus(int(status)).phrase, _types(answer), answer.get("description", "")]
        for status, answer in operation["responses"].items()
    ]
    yield table(["status", "", "body", "meaning"], answers)


def _types(answer: _Document) -> str:
    content = answer.get("content", {})
    return ", ".join(sorted({_type(body.get("schema", {})) for body in content.values()}))


def _component(name: str, component: _Document) -> Iterator[str]:
    yield f"### {name}\n"
    if said := component.get("description"):
        yield f"{said}\n"
    if "enum" in component:
        yield ", ".join(f"`{value}`" for value in component["enum"]) + "\n"
    required = component.get("required", [])
    rows = [
        [f"`{field}`", _type(of), "yes" if field in required else "", of.get("description", "")]
        for field, of in component.get("properties", {}).items()
    ]
    if rows:
        yield table(["field", "type", "always", "meaning"], rows)


def _type(of: _Document) -> str:
    if reference := of.get("$ref"):
        name = reference.rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if parts := of.get("allOf") or of.get("oneOf") or of.get("anyOf"):
        return " or ".join(map(_type, parts))
    if of.get("type") == "array":
        return f"list of {_type(of.get('items', {}))}"
    kind = of.get("format") or of.get("type", "")
    return f"{kind} or null" if of.get("nullable") else str(kind)
