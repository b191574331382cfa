"""Applications that submit over the REST API, each to the cluster that serves its partner now."""

import asyncio
import base64
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import Any

from demo.http11 import HOST, NotUnderstoodError, Request, Response, exchange
from demo.machines import DemoFailed, Machine
from demo.pairs import Pair

RETRY_AFTER = 0.5
NOT_NOW = (429, 503)
STORED, KNOWN = 201, 200


@dataclass
class Application:
    """Submits files of one pair, one after the other, and keeps the record of a producer."""

    pair: Pair
    files: Sequence[str]
    record: Path
    dice: Random
    longest_pause: float
    serving: Callable[[], Machine]
    """Asked before each request: where the partner is served."""
    tokens: Mapping[str, str]
    """Of the API, by machine."""
    may_submit: Callable[[float], bool]
    """Whether it is time for what follows this share of the files."""
    refused: int = field(default=0, init=False)
    """Requests that were asked to come later."""

    async def work(self) -> None:
        """In the end every request is repeated, as if no answer had come: all are known, wherever
        the partner was when they were made."""
        for order in range(len(self.files)):
            await self._wait_for_turn(order)
            await self._submit(order)
        for order in range(len(self.files)):
            if await self._store(order) != KNOWN:
                raise DemoFailed(f"{self._message_id(order)} was not known when it was repeated")

    async def _wait_for_turn(self, order: int) -> None:
        while True:
            await asyncio.sleep(self.dice.uniform(0, self.longest_pause))
            if self.may_submit(order / len(self.files)):
                return

    async def _submit(self, order: int) -> None:
        await self._store(order)
        self._write(order)

    def _write(self, order: int) -> None:
        line = {
            "pair": self.pair.name,
            "conversation": self.pair.name,
            "message_id": self._message_id(order),
            "order": order,
            "file": self.files[order],
            "sha256": sha256(Path(self.files[order]).read_bytes()).hexdigest(),
        }
        with self.record.open("a") as record:
            record.write(json.dumps(line) + "\n")

    async def _store(self, order: int) -> int:
        """The same request until it is answered: the status."""
        while True:
            machine = self.serving()
            answer = await self._post(machine, order)
            if answer is not None and answer.status in (STORED, KNOWN):
                return answer.status
            if answer is not None and answer.status not in NOT_NOW:
                raise DemoFailed(f"{machine.name}: {answer.status} {answer.body.decode()}")
            self.refused += 1
            await asyncio.sleep(RETRY_AFTER)

    async def _post(self, machine: Machine, order: int) -> Response | None:
        """None: no answer came."""
        body = json.dumps(self._message(order)).encode()
        headers = (
            ("Authorization", f"Bearer {self.tokens[machine.name]}"),
            ("Content-Type", "application/json"),
            ("Content-Length", str(len(body))),
        )
        try:
            request = Request("POST", "/api/v1/messages", headers, body)
            return await exchange(HOST, machine.port, request)
        except (OSError, NotUnderstoodError):
            return None

    def _message(self, order: int) -> dict[str, Any]:
        file = Path(self.files[order])
        content = base64.b64encode(file.read_bytes()).decode()
        return {
            "tpa_id": self.pair.tpa_id,
            "service_interface": "Purchasing",
            "action": "NewDocument",
            "message_id": self._message_id(order),
            "conversation_id": self.pair.name,
            "payloads": [
                {"content_base64": content, "content_type": "text/xml", "label": file.name}
            ],
        }

    def _message_id(self, order: int) -> str:
        return f"{self.pair.name}.{order}@applications.example"
