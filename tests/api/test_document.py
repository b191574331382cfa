"""`/api/schema`: the OpenAPI document is built once, whoever asks how often."""

import json
from threading import Thread
from typing import Any

import pytest
from django.test import Client
from drf_spectacular.generators import SchemaGenerator

from msh.api import document


@pytest.fixture(autouse=True)
def built(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """An entry each time that the document is built; none is there yet."""
    built: list[str] = []
    get_schema = SchemaGenerator.get_schema

    def counted(self: Any, *args: Any, **options: Any) -> Any:
        built.append("document")
        return get_schema(self, *args, **options)  # type: ignore[no-untyped-call]

    monkeypatch.setattr(SchemaGenerator, "get_schema", counted)
    document.forget()
    return built


def test_it_is_built_once(built: list[str]) -> None:
    for accept in ("*/*", "application/json", "application/vnd.oai.openapi", "*/*"):
        assert Client().get("/api/schema", headers={"Accept": accept}).status_code == 200
    assert len(built) == 1


def test_it_is_built_once_for_all_who_ask_at_one_moment(built: list[str]) -> None:
    threads = [Thread(target=lambda: Client().get("/api/schema")) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(built) == 1


@pytest.mark.parametrize(
    ("query", "accept", "content_type"),
    [
        ("", "*/*", "application/vnd.oai.openapi"),
        ("", "application/json, */*", "application/json"),
        ("?format=json", "*/*", "application/vnd.oai.openapi+json"),
        ("", "application/vnd.oai.openapi+json", "application/vnd.oai.openapi+json"),
    ],
)
def test_it_comes_as_asked_for(query: str, accept: str, content_type: str) -> None:
    answer = Client().get(f"/api/schema{query}", headers={"Accept": accept})
    assert answer.headers["Content-Type"].partition(";")[0] == content_type
    if "json" in content_type:
        assert json.loads(answer.content)["openapi"].startswith("3.")
    else:
        assert answer.content.startswith(b"openapi: 3.")


def test_unchanged_document_is_304() -> None:
    tag = Client().get("/api/schema").headers["ETag"]
    answer = Client().get("/api/schema", headers={"If-None-Match": tag})
    assert (answer.status_code, answer.content) == (304, b"")


def test_it_is_only_read() -> None:
    assert Client().post("/api/schema").status_code == 405
