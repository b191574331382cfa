"""Single submits through the REST API, each answered after its commit."""

import json
import statistics
import time
from contextlib import AbstractContextManager
from http.client import HTTPConnection
from typing import Any
from uuid import uuid4

from . import floor, wire
from .spent import Spent
from .stage import Stage, loaded_name

KEPT = "SELECT count(*) FROM msh_outboundmessage"
PATH = "/api/v1/messages"


class Submit:
    """POSTs of one client with one keep-alive connection, one after the other, against pgbench with
    one client. Worker and beat stand still meanwhile, for both."""

    def __init__(self, stage: Stage, seconds: int) -> None:
        self.name = "submit_1"
        self.minimum = 0.0
        self._stage = stage
        self._msh = stage.loaded
        self._seconds = seconds
        self._latencies: list[tuple[float, float]] = []
        self._messages = 0
        self._spent = Spent(stage.loaded)

    def quiet(self) -> AbstractContextManager[None]:
        return self._stage.only(self._msh)

    def product(self) -> float:
        before = self._msh.value(KEPT)
        with self._msh.paused("worker", "beat"):
            self._spent.begin()
            started = time.monotonic()
            latencies = self._submit_until(started + self._seconds)
            seconds = time.monotonic() - started
            self._spent.end(len(latencies))
        kept = self._msh.value(KEPT) - before
        if kept != len(latencies):
            raise RuntimeError(f"{len(latencies)} answered 201, but kept are {kept}")
        self._messages += kept
        p99 = statistics.quantiles(latencies, n=100)[98]
        self._latencies.append((1000 * statistics.median(latencies), 1000 * p99))
        return len(latencies) / seconds

    def floor(self) -> float:
        with self._msh.paused("worker", "beat"):
            return floor.run(
                self._msh.beside("floor"),
                clients=1,
                pairs=8,
                body=wire.sample(),
                seconds=self._seconds,
            )

    def facts(self) -> dict[str, Any]:
        return {
            "latency_median_ms": statistics.median(each[0] for each in self._latencies),
            "latency_p99_ms": statistics.median(each[1] for each in self._latencies),
            "messages": self._messages,
            **self._spent.facts(),
        }

    def _submit_until(self, end: float) -> list[float]:
        connection = HTTPConnection("127.0.0.1", self._msh.port)
        headers = {
            "Authorization": f"Bearer {self._stage.api_token}",
            "Content-Type": "application/json",
        }
        latencies: list[float] = []
        while (sent := time.monotonic()) < end:
            connection.request("POST", PATH, _document(len(latencies)), headers)
            answer = connection.getresponse()
            text = answer.read()
            if answer.status != 201:
                raise RuntimeError(f"not accepted: {answer.status} {text[:500]!r}")
            latencies.append(time.monotonic() - sent)
        connection.close()
        return latencies


def _document(number: int) -> bytes:
    document = {
        "tpa_id": loaded_name(number),
        "service_interface": "QuoteToCollect",
        "action": "NewPurchaseOrder",
        "message_id": str(uuid4()),
        "payloads": [{"content": wire.ORDER, "label": "PurchaseOrder"}],
    }
    return json.dumps(document).encode()
