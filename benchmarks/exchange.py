"""The full exchange between two complete MSHs: submit, store, Ack, next."""

import statistics
import time
from contextlib import AbstractContextManager
from typing import Any

from . import floor, prototype, wire
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
LAST = "SELECT coalesce(max(id), 0) FROM msh_outboundmessage"
LATENCIES = """
SELECT percentile_cont(ARRAY[0.5, 0.99])
    WITHIN GROUP (ORDER BY 1000 * extract(epoch FROM completed_at - first_sent_at))
FROM msh_outboundmessage WHERE id > {last}
"""
"""Milliseconds from the first copy to the Acknowledgement. Waiting behind others is not in it."""
COMMITS = 4
"""Of one message: submitted, stored, completed with the next sent, Acknowledgement sent."""
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
        self.rates: list[float] = []
        self._submitted: list[float] = []
        self._latencies: list[tuple[float, float]] = []

    def quiet(self) -> AbstractContextManager[None]:
        return self._stage.only(self._stage.sender, self._stage.receiver)

    def product(self) -> float:
        before = self._counts()
        last = self._stage.sender.value(LAST)
        total = self._pairs * self._messages
        with Producer(self._stage.sender, pairs=self._pairs, messages=self._messages) as producer:
            started = time.monotonic()
            self._submitted.append(total / producer.submit())
            wait_until(self._settled, "acknowledged", self._lanes)
            seconds = time.monotonic() - started
        counts = tuple(now - then for now, then in zip(self._counts(), before, strict=True))
        if counts != (total, total, total):
            raise RuntimeError(f"{total} submitted, but acknowledged, sent and stored: {counts}")
        latencies = self._stage.sender.value(LATENCIES.format(last=last))
        self._latencies.append((latencies[0], latencies[1]))
        self.rates.append(total / seconds)
        return self.rates[-1]

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
            "latency_median_ms": statistics.median(each[0] for each in self._latencies),
            "latency_p99_ms": statistics.median(each[1] for each in self._latencies),
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


class CommitBound:
    """The same exchange against what two durable commits on each side leave of the rate of bare
    commits: no exchange of one message with one commit each for its store, its Acknowledgement, its
    end and the end of its Acknowledgement can be faster on this disk."""

    minimum = 0.0

    def __init__(self, exchange: Exchange, stage: Stage, clients: int, seconds: int) -> None:
        self.name = f"{exchange.name}_to_commits"
        self._exchange = exchange
        self._stage = stage
        self._clients = clients
        self._seconds = seconds

    def quiet(self) -> AbstractContextManager[None]:
        return self._exchange.quiet()

    def product(self) -> float:
        """As just measured."""
        return self._exchange.rates[-1]

    def floor(self) -> float:
        transactions = floor.run(
            self._stage.receiver.beside("floor"),
            clients=self._clients,
            pairs=self._clients,
            body=wire.sample(),
            seconds=self._seconds,
        )
        return transactions / COMMITS

    def facts(self) -> dict[str, Any]:
        return {}
