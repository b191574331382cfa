"""How fast a backlog is sent: a long queue beside a short one, and retries that are due at once."""

import time
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from .crowd import Crowd
from .figure import wait_until

ACKNOWLEDGED = "SELECT count(*) FROM msh_outboundmessage WHERE state = 'acknowledged'"
QUEUED = """
SELECT count(*) FROM msh_outboundmessage
WHERE state = 'queued' AND semantics = 'OnceAndOnlyOnce'
"""
WAITING = """
SELECT count(*) FROM msh_outboundlink link
WHERE state = 'waiting' AND NOT EXISTS (
    SELECT FROM msh_attempt WHERE message_id = link.in_flight_id AND ended_at IS NULL)
"""
"""The end of a POST gives the Timeout a new end, so it has to be recorded before."""
OPEN = "SELECT count(*) FROM msh_outboundlink WHERE state IN ('waiting', 'transient')"


class Drain:
    """Acknowledged messages in so many seconds while the queue is as long as it is."""

    minimum = 0.0

    def __init__(self, name: str, crowd: Crowd, seconds: float) -> None:
        self.name = name
        self._crowd = crowd
        self._seconds = seconds
        self._queued = 0

    def quiet(self) -> AbstractContextManager[None]:
        return nullcontext()

    def product(self) -> float:
        msh = self._crowd.msh
        self._queued = self._queued or msh.value(QUEUED)
        before, started = msh.value(ACKNOWLEDGED), time.monotonic()
        wait_until(lambda: time.monotonic() - started > self._seconds, "over", lambda: "")
        acknowledged, seconds = msh.value(ACKNOWLEDGED) - before, time.monotonic() - started
        if not msh.value(QUEUED):
            raise RuntimeError(f"{msh.folder.name} had too few messages queued")
        return float(acknowledged / seconds)

    def floor(self) -> float:
        raise NotImplementedError  # only against another one

    def facts(self) -> dict[str, Any]:
        return {"queued": self._queued, "partners": self._crowd.partners}


class RetryStorm:
    """One message for each partner, none of which has acknowledged: then all Timeouts pass at once,
    and the partners are back. Floor: the first copies of as many messages."""

    name = "retry_storm"
    minimum = 0.0

    def __init__(self, crowd: Crowd) -> None:
        self._crowd = crowd

    def quiet(self) -> AbstractContextManager[None]:
        return nullcontext()

    def product(self) -> float:
        crowd, msh = self._crowd, self._crowd.msh
        crowd.acknowledge(False)
        with crowd.still():
            crowd.queue(1)
        # The message that was copied waits behind the copy of its own link.
        wait_until(lambda: msh.value(WAITING) == crowd.partners, "sent", self._open)
        crowd.acknowledge(True)
        before = msh.value(ACKNOWLEDGED)
        msh.execute("UPDATE msh_outboundlink SET due = now() WHERE state = 'waiting'")
        return self._settled(before)

    def floor(self) -> float:
        before = self._crowd.msh.value(ACKNOWLEDGED)
        with self._crowd.still():
            self._crowd.queue(1)
        return self._settled(before)

    def facts(self) -> dict[str, Any]:
        return {"partners": self._crowd.partners}

    def _settled(self, before: int) -> float:
        """Messages per second from now until all are acknowledged."""
        msh, started = self._crowd.msh, time.monotonic()
        wait_until(lambda: not (msh.value(OPEN) or msh.value(QUEUED)), "acknowledged", self._open)
        seconds = time.monotonic() - started
        acknowledged = msh.value(ACKNOWLEDGED) - before
        if acknowledged != self._crowd.partners + 1:
            raise RuntimeError(f"{self._crowd.partners} + 1 queued, acknowledged: {acknowledged}")
        return float(acknowledged / seconds)

    def _open(self) -> object:
        return self._crowd.msh.value(OPEN)
