"""`/api/schema`: the OpenAPI document. It is built once in a process: that takes a while."""

from hashlib import sha256
from threading import Lock
from typing import Any, NamedTuple

from django.http import HttpRequest, HttpResponse
from django.utils.cache import patch_vary_headers
from django.views.decorators.http import condition, require_safe
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.renderers import OpenApiJsonRenderer, OpenApiYamlRenderer

JSON, YAML = "application/vnd.oai.openapi+json", "application/vnd.oai.openapi"


class _Text(NamedTuple):
    content: bytes
    tag: str


_building = Lock()
_built: dict[str, _Text] = {}


def forget() -> None:
    _built.clear()


def _text(content_type: str) -> _Text:
    with _building:
        if not _built:
            generator: Any = SchemaGenerator()  # type: ignore[no-untyped-call]
            schema = generator.get_schema(request=None, public=True)
            for renderer in (OpenApiJsonRenderer(), OpenApiYamlRenderer()):
                content: bytes = renderer.render(schema, renderer_context={})
                tag = f'"{sha256(content).hexdigest()[:16]}"'
                _built[str(renderer.media_type)] = _Text(content, tag)
        return _built[content_type]


def _asked_for(request: HttpRequest) -> str:
    is_json = request.GET.get("format") == "json" or "json" in request.headers.get("Accept", "")
    return JSON if is_json else YAML


def _tag(request: HttpRequest) -> str:
    return _text(_asked_for(request)).tag


@require_safe
@condition(etag_func=_tag)
def schema(request: HttpRequest) -> HttpResponse:
    """Return the OpenAPI document as YAML, or as JSON for `Accept: application/json` and
    `?format=json`."""
    content_type = _asked_for(request)
    content = _text(content_type).content
    if "application/json" in request.headers.get("Accept", ""):
        content_type = "application/json"
    name = "MSH.json" if "json" in content_type else "MSH.yaml"
    headers = {"Content-Disposition": f'inline; filename="{name}"', "Cache-Control": "no-cache"}
    answer = HttpResponse(content, content_type, headers=headers)
    patch_vary_headers(answer, ["Accept"])
    return answer
