"""An application as the API sees it: requests with a token, answers as JSON."""

import gzip
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.test import Client

from msh.api.framework.slashes import EncodedSlashes
from tests.flows.world import World

Line = Mapping[str, Any] | bytes


class _Client(Client):
    """With the path as it comes from the web server."""

    def request(self, **request: Any) -> Any:
        EncodedSlashes(lambda environ, start_response: ())(request, lambda *_: lambda _: None)
        return super().request(**request)


@dataclass(frozen=True, slots=True)
class Answer:
    """`json` of a problem document or a result; None where the body is none."""

    status: int
    content_type: str
    headers: Mapping[str, str]
    content: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.content)

    @property
    def lines(self) -> list[Any]:
        return [json.loads(line) for line in self.content.splitlines()]


@dataclass(frozen=True, slots=True)
class Application:
    """Holds a token; its user is called as the token is."""

    secret: str
    name: str = ""

    def get(self, path: str, **query: Any) -> Answer:
        return self.ask("GET", path, query=query)

    def post(self, path: str, body: Any, **headers: str) -> Answer:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        return self.ask("POST", path, content, "application/json", headers=headers)

    def bulk(self, lines: Iterable[Line], **query: str) -> Answer:
        text = b"\n".join(
            line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines
        )
        return self.bulk_body(gzip.compress(text), "gzip", **query)

    def bulk_body(self, body: bytes, encoding: str = "identity", **query: str) -> Answer:
        asked = {"headers": {"Content-Encoding": encoding}, "query": query}
        return self.ask("POST", "messages/bulk", body, "application/x-ndjson", **asked)

    def ask(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        content_type: str = "",
        *,
        query: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        response: Any = _Client().generic(
            method,
            f"/api/v1/{path}",
            body,
            content_type,
            headers={"Authorization": f"Bearer {self.secret}", **(headers or {})},
            query_params=dict(query or {}),
            RAW_URI=f"/api/v1/{path}",
        )
        content = b"".join(response.streaming_content) if response.streaming else response.content
        return Answer(
            response.status_code, response.get("Content-Type", ""), response.headers, content
        )


def order(world: World, message_id: str | None = None, **fields: Any) -> dict[str, Any]:
    """A submission under the world's agreement."""
    named = {} if message_id is None else {"message_id": message_id}
    return {
        "tpa_id": "tpa-1",
        "partner": world.there.name,
        "service_interface": "Orders",
        "action": "New",
        "payloads": [{"content": "<order/>", "label": "order.xml"}],
        **named,
        **fields,
    }


def results(answer: Answer) -> Sequence[str]:
    """How each line of a bulk request was answered."""
    assert answer.status == 200, answer.content
    return [line["result"] for line in answer.lines]
