"""The demo's operator: many suspended links, a few requests."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from demo.crew import REASON, Operator
from demo.http11 import HOST, read_request, read_start
from demo.machines import Machine
from tests.demo.link import runs, until


class Api:
    """The API's links, as far as the operator uses it. `broken` answers are a closed connection."""

    def __init__(self, suspended: int, broken: int = 0) -> None:
        self.links = {n: f"pair-{n}" for n in range(1, suspended + 1)}
        self.broken = broken
        self.reasons: set[str] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await read_request(await read_start(reader), reader)
        assert ("Authorization", "Bearer secret") in request.headers
        if self.broken:
            self.broken -= 1
        else:
            body = json.dumps(self._answer(request.method, request.path, request.body)).encode()
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        writer.close()

    def _answer(self, method: str, path: str, body: bytes) -> dict[str, Any]:
        if method == "GET":
            assert path.startswith("/api/v1/links?state=suspended")
            page = [{"id": n, "partner": name} for n, name in self.links.items()][:100]
            return {"results": page, "next": None}
        link = int(path.split("/")[4])
        assert path == f"/api/v1/links/{link}/resume"
        self.reasons.add(json.loads(body)["reason"])
        return {"id": link, "partner": self.links.pop(link), "state": "idle"}


@pytest.mark.parametrize("broken", [0, 3])
@runs
async def test_all_suspended_links_are_resumed_by_requests(
    broken: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands: list[tuple[str, ...]] = []

    async def manage(_: Machine, *words: str) -> str:
        commands.append(words)
        return "secret\n"

    monkeypatch.setattr(Machine, "manage", manage)
    monkeypatch.setattr("demo.crew.LOOK_PAUSE", 0.01)
    api = Api(suspended=130, broken=broken)
    async with await asyncio.start_server(api.serve, HOST, 0) as server:
        machine = Machine("a", Path("unused"), server.sockets[0].getsockname()[1])
        operator = Operator([machine], lambda _: bool(api.links))
        working = asyncio.create_task(operator.work())
        await until(lambda: working.done() or len(operator.resumes) == 130)
        working.cancel()
    assert sorted(operator.resumes) == sorted(f"a/pair-{n}" for n in range(1, 131))
    assert len(operator.refusals) == broken
    assert api.reasons == {REASON}
    assert [words[0] for words in commands] == ["token"]
