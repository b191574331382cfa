"""The full exchange between two complete MSHs: submit, store, Ack, next."""

import statistics
import time
from typing import Any

from . import prototype, wire
from .figure import wait_until
from .producer import Producer
from .stage import Stage

SETTLED = """
SELECT NOT EXISTS (SELECT FROM msh_outboundlink WHERE state <> 'idle')
   AND NOT EXISTS (SELECT FROM msh_outboundmessage
                   WHERE state = 'queued' AND semantics = 'OnceAndOnlyOnce')
"""
LANES = "SELECT json_object_agg(state, lanes) FROM (\
SELECT state, count(*) AS lanes FROM msh_outboundlink GROUP BY state)"
ACKNOWLEDGED = "SELECT count(*) FROM msh_outboundmessage WHERE state = 'acknowledged'"
ATTEMPTS = "SELECT count(*) FROM msh_attempt"
STORED = "SELECT count(*) FROM msh_inboundmessage"


class Exchange:
    """Messages from the first submit to the last Ack, against the bare prototype.

    `messages` and `prototype_messages` are those of each pair in one round.
    """

    def __init__(
        self,
        stage: Stage,
        pairs: int,
        messages: int,
        prototype_messages: int,
        minimum: float = 0,
    ) -> None:
        self.name = f"exchange_{pairs}"
        self.minimum = minimum
        self._stage = stage
        self._pairs = pairs
        self._messages = messages
        self._prototype_messages = prototype_messages
        self._submitted: list[float] = []

    def product(self) -> float:
        before = self._counts()
        total = self._pairs * self._messages
        with Producer(self._stage.sender, pairs=self._pairs, messages=self._messages) as producer:
            started = time.monotonic()
            self._submitted.append(total / producer.submit())
            wait_until(self._settled, "acknowledged", self._lanes)
            seconds = time.monotonic() - started
        counts = tuple(now - then for now, then in zip(self._counts(), before, strict=True))
        if counts != (total, total, total):
            raise RuntimeError(f"{total} submitted, but acknowledged, sent and stored: {counts}")
        return total / seconds

    def floor(self) -> float:
        return prototype.run(
            self._stage.sender.beside("prototype"),
            self._stage.receiver.beside("prototype"),
            pairs=self._pairs,
            messages=self._prototype_messages,
            body=wire.sample().encode(),
        )

    def facts(self) -> dict[str, Any]:
        return {
            "submitted_per_second": statistics.median(self._submitted),
            "messages": self._pairs * self._messages * len(self._submitted),
        }

    def _settled(self) -> bool:
        return bool(self._stage.sender.value(SETTLED))

    def _lanes(self) -> object:
        return self._stage.sender.value(LANES)

    def _counts(self) -> tuple[int, ...]:
        sender, receiver = self._stage.sender, self._stage.receiver
        return sender.value(ACKNOWLEDGED), sender.value(ATTEMPTS), receiver.value(STORED)
