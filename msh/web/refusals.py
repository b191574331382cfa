"""Refusals of input that never became a request: they are explained, counted, and logged.

They are recorded nowhere else, because no partner is known yet. The numbers are in shared memory
that is made before the web processes fork; each process writes its own.
"""

import logging
import mmap
import time
from collections.abc import Callable, Mapping
from http import HTTPStatus

from msh.protocol.reason import Refusal, refusal_of

from .limits import HEAD_LIMIT

logger = logging.getLogger(__name__)

EVERY = 60.0
"""Seconds between two lines of the log about the same address and reason."""
MOST = 200
"""The number of addresses and reasons that are kept, and so of lines in the log in that time."""
FOLDED = "line folding in a header is not supported (RFC 9112 5.2): send each header in one line"
TOO_LONG = f"the request line and headers are limited to {HEAD_LIMIT} bytes"
CODES = (Refusal.REQUEST, Refusal.INCOMPLETE, Refusal.TOO_LARGE)
"""Of what is refused here."""
_PROCESSES = 256
_numbers = memoryview(mmap.mmap(-1, 8 * _PROCESSES * len(CODES))).cast("q")


def totals() -> Mapping[Refusal, int]:
    """The number of refusals of all processes that share the numbers, since their parent began."""
    return {code: sum(_numbers[place :: len(CODES)]) for place, code in enumerate(CODES)}


def explain(text: str) -> tuple[int, str]:
    """The status and the reason for what aiohttp's parser says. It names the rule, then quotes the
    line that breaks it."""
    rule, _, quoted = text.removeprefix("Bad status line:\n  ").partition(":\n\n  ")
    if text.startswith("Got more than ") or rule == "Too many headers received":
        return 431, TOO_LONG
    line = quoted.strip().removeprefix("b").lstrip("'\"")
    if line.startswith((" ", "\\t")) and "header value" in rule:
        return 400, FOLDED
    return 400, f"this is not HTTP/1.1: {rule.splitlines()[0] if rule else 'unreadable'}"


class Refusals:
    """The refusals of one process. `place`: its own among those that share the numbers."""

    def __init__(self, place: int, now: Callable[[], float] = time.monotonic) -> None:
        self._place = place % _PROCESSES * len(CODES)
        self._now = now
        self._logged: dict[tuple[str, str], tuple[float, int]] = {}
        """When a line was written for an address and a reason, and how many it has left out."""

    def note(self, address: str, status: int, reason: str) -> None:
        code = refusal_of(status)
        _numbers[self._place + CODES.index(code)] += 1
        key, now = (address, reason), self._now()
        at, left_out = self._logged.get(key, (-EVERY, 0))
        if key in self._logged and now - at < EVERY:
            self._logged[key] = at, left_out + 1
            return
        if key not in self._logged and len(self._logged) >= MOST and not self._forget(now):
            return
        self._logged[key] = now, 0
        more = f", and {left_out} times since the last such line" if left_out else ""
        logger.warning(
            "%s %s to %s before it was a request: %s%s",
            *(status, HTTPStatus(status).phrase, address, reason, more),
            extra={"code": code},
        )

    def _forget(self, now: float) -> bool:
        """Forget old refusals. Returns whether there were any."""
        old = [key for key, (at, _) in self._logged.items() if now - at >= EVERY]
        for key in old:
            del self._logged[key]
        return bool(old)
