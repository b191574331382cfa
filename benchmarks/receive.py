"""The receive path with all checks, through the web process of a complete MSH."""

import statistics
import time
from contextlib import AbstractContextManager
from typing import Any

from . import floor, wire
from .figure import wait_until
from .load import Load, post_for
from .spent import Spent
from .stage import Stage
from .tls import TlsProxy

LAST = "SELECT coalesce(max(id), 0) FROM msh_inboundmessage"
STORED = "SELECT count(*) FROM msh_inboundmessage WHERE id > {last}"
PENDING = "SELECT coalesce(sum(pending), 0)::bigint FROM msh_signal WHERE pending > 0"


class Receive:
    """POSTs answered 204, against pgbench. The worker stands still meanwhile: transmitting the Acks
    is not the receive path. Then it goes on, and all of them must have been transmitted. With a
    `proxy` they come through it, over TLS."""

    def __init__(
        self,
        stage: Stage,
        connections: int,
        seconds: int,
        minimum: float = 0,
        proxy: TlsProxy | None = None,
    ) -> None:
        self.name = f"receive_{connections}"
        self.minimum = minimum
        self._proxy = proxy
        self._stage = stage
        self._connections = connections
        self._seconds = seconds
        self.loads: list[Load] = []
        self._acknowledged: list[float] = []
        self._sent_again = 0
        self._spent = Spent(stage.receiver)

    def quiet(self) -> AbstractContextManager[None]:
        return self._stage.only(self._stage.receiver)

    def product(self) -> float:
        stage = self._stage
        last, acks = stage.receiver.value(LAST), stage.sink.acks
        shares = [stage.pairs[n :: self._connections] for n in range(self._connections)]
        started = time.monotonic()
        with stage.receiver.paused("worker", "beat"):
            self._spent.begin()
            if self._proxy:
                load = post_for(self._seconds, self._proxy.port, shares, self._proxy.authority)
            else:
                load = post_for(self._seconds, stage.receiver.port, shares)
            self._spent.end(load.accepted)
        stage.pairs = sorted(load.pairs, key=lambda pair: pair.name)
        wait_until(lambda: self._pending() == 0, "acknowledged", self._pending)
        self._acknowledged.append(load.accepted / (time.monotonic() - started))
        stored = stage.receiver.value(STORED.format(last=last))
        sent, refused = stage.sink.acks - acks, stage.sink.others
        # A worker that was stopped between a POST and its record may send an Ack twice.
        if stored != load.accepted or sent < load.accepted or refused:
            raise RuntimeError(
                f"{load.accepted} answered 204, but {stored} stored, {sent} Acknowledgements sent, "
                f"{refused} other requests"
            )
        self._sent_again += sent - load.accepted
        self.loads.append(load)
        return load.rate

    def floor(self) -> float:
        with self._stage.receiver.paused("worker", "beat"):
            return floor.run(
                self._stage.receiver.beside("floor"),
                clients=self._connections,
                pairs=len(self._stage.pairs),
                body=wire.sample(),
                seconds=self._seconds,
            )

    def facts(self) -> dict[str, Any]:
        return {
            "latency_median_ms": statistics.median(load.latency_median for load in self.loads),
            "latency_p99_ms": statistics.median(load.latency_p99 for load in self.loads),
            "acknowledged_per_second": statistics.median(self._acknowledged),
            "messages": sum(load.accepted for load in self.loads),
            "acknowledgements_sent_again": self._sent_again,
            **self._spent.facts(),
        }

    def _pending(self) -> int:
        return int(self._stage.receiver.value(PENDING))
