"""The full exchange between two complete MSHs: submit, store, Ack, next."""

import statistics
import time
from contextlib import AbstractContextManager
from typing import Any

from . import chain, floor, prototype, wire
from .figure import wait_until
from .msh import Msh
from .producer import Producer
from .spent import Spent
from .stage import Stage

SETTLED = """
SELECT NOT EXISTS (SELECT FROM msh_outboundlink link JOIN partners_partner partner
                   ON partner.id = link.partner_id
                   WHERE link.state <> 'idle' AND partner.name LIKE 'pair-%')
   AND NOT EXISTS (SELECT FROM msh_outboundmessage message JOIN partners_agreement agreement
                   ON agreement.id = message.agreement_id
                   WHERE message.state = 'queued' AND message.semantics = 'OnceAndOnlyOnce'
                     AND agreement.tpa_id LIKE 'pair-%')
   AND NOT EXISTS (SELECT FROM msh_flight)
"""
LANES = "SELECT json_object_agg(state, lanes) FROM (\
SELECT state, count(*) AS lanes FROM msh_outboundlink GROUP BY state)"
ACKNOWLEDGED = """
SELECT count(*) FROM msh_outboundmessage WHERE id > {last} AND state = 'acknowledged'
"""
ATTEMPTS = """
SELECT count(*) FROM msh_attempt AS attempt
JOIN msh_outboundmessage AS message ON message.id = attempt.message_id
JOIN partners_agreement AS agreement ON agreement.id = message.agreement_id
WHERE attempt.id > {last} AND tpa_id LIKE 'pair-%' AND NOT (
    attempt.outcome = '' AND EXISTS (
        SELECT FROM msh_attempt AS later
        WHERE later.message_id = attempt.message_id AND later.number > attempt.number))
"""
"""Without those that were promised and never begun: no retry is spent, a poll made another."""
STORED = "SELECT count(*) FROM msh_inboundmessage WHERE id > {last}"
LAST = "SELECT coalesce(max(id), 0) FROM {table}"
LATENCIES = """
SELECT percentile_cont(ARRAY[0.5, 0.99])
    WITHIN GROUP (ORDER BY 1000 * extract(epoch FROM completed_at - first_sent_at))
FROM msh_outboundmessage WHERE id > {last}
"""
"""Milliseconds from the first copy to the Acknowledgement. Waiting behind others is not in it."""
COMMITS = 4
"""Of one message: submitted, stored, completed with the next sent, Acknowledgement sent."""


class Exchange:
    """Messages from the first submit to the last Ack, against the bare prototype.

    `messages` and `prototype_messages` are those of each pair in one round. `size`: bytes of a
    payload, 0 for the usual order.
    """

    def __init__(
        self,
        stage: Stage,
        pairs: int,
        messages: int,
        prototype_messages: int,
        minimum: float = 0,
        size: int = 0,
    ) -> None:
        self.name = f"exchange_{pairs}"
        self.minimum = minimum
        self._size = size
        self._stage = stage
        self._pairs = pairs
        self._messages = messages
        self._prototype_messages = prototype_messages
        self.rates: list[float] = []
        self._submitted: list[float] = []
        self._latencies: list[tuple[float, float]] = []
        self._spent = Spent(stage.sender, stage.receiver)

    def quiet(self) -> AbstractContextManager[None]:
        return self._stage.only(self._stage.sender, self._stage.receiver)

    def product(self) -> float:
        last = self._last()
        total = self._pairs * self._messages
        with Producer(
            self._stage.sender, pairs=self._pairs, messages=self._messages, size=self._size
        ) as producer:
            self._spent.begin()
            started = time.monotonic()
            self._submitted.append(total / producer.submit())
            wait_until(self._settled, "acknowledged", self._lanes)
            seconds = time.monotonic() - started
            self._spent.end(total)
        counts = self._counts(last)
        if counts != (total, total, total):
            raise RuntimeError(f"{total} submitted, but acknowledged, sent and stored: {counts}")
        latencies = self._stage.sender.value(LATENCIES.format(last=last[0]))
        self._latencies.append((latencies[0], latencies[1]))
        self.rates.append(total / seconds)
        return self.rates[-1]

    def floor(self) -> float:
        return prototype.run(
            self._stage.sender.beside("prototype"),
            self._stage.receiver.beside("prototype"),
            pairs=self._pairs,
            messages=self._prototype_messages,
            body=self.body(),
        )

    def body(self) -> bytes:
        """What one message of the floors has."""
        return wire.payload_of(self._size) if self._size else wire.sample().encode()

    def facts(self) -> dict[str, Any]:
        return {
            "latency_median_ms": statistics.median(each[0] for each in self._latencies),
            "latency_p99_ms": statistics.median(each[1] for each in self._latencies),
            "submitted_per_second": statistics.median(self._submitted),
            "messages": self._pairs * self._messages * len(self._submitted),
            **self._spent.facts(),
        }

    def _settled(self) -> bool:
        return bool(self._stage.sender.value(SETTLED))

    def _lanes(self) -> object:
        return self._stage.sender.value(LANES)

    def _last(self) -> tuple[int, int, int]:
        """Ids of what was there before: messages sent, attempts, messages received."""
        sender, receiver = self._stage.sender, self._stage.receiver
        return (
            sender.value(LAST.format(table="msh_outboundmessage")),
            sender.value(LAST.format(table="msh_attempt")),
            receiver.value(LAST.format(table="msh_inboundmessage")),
        )

    def _counts(self, last: tuple[int, int, int]) -> tuple[int, int, int]:
        """Acknowledged, attempted and stored since then."""
        sender, receiver = self._stage.sender, self._stage.receiver
        return (
            sender.value(ACKNOWLEDGED.format(last=last[0])),
            sender.value(ATTEMPTS.format(last=last[1])),
            receiver.value(STORED.format(last=last[2])),
        )


class ToChain:
    """The exchange just measured, against the bare chain: what of the distance to the prototype is
    the shape of an MSH, and what is ours. `messages` are those of each pair in one round."""

    minimum = 0.0

    def __init__(self, exchange: Exchange, stage: Stage, pairs: int, messages: int) -> None:
        self.name = f"{exchange.name}_to_chain"
        self._exchange = exchange
        self._stage = stage
        self._pairs = pairs
        self._messages = messages

    def quiet(self) -> AbstractContextManager[None]:
        return self._exchange.quiet()

    def product(self) -> float:
        """As just measured."""
        return self._exchange.rates[-1]

    def floor(self) -> float:
        return chain.run(
            _beside(self._stage.sender),
            _beside(self._stage.receiver),
            pairs=self._pairs,
            messages=self._messages,
            body=self._exchange.body(),
        )

    def facts(self) -> dict[str, Any]:
        return {}


def _beside(msh: Msh) -> chain.Servers:
    return chain.Servers(msh.beside("chain"), msh.valkey_url)


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
