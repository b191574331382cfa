"""The proxy's log: JSON lines, several for a request. The last one with the same `at` is complete.

A line is written before a request, or a copy of it, is passed on, so that nothing reaches an MSH
that the log does not have; and once more, `ended`, when the request has been dealt with.
`at` and each copy's `at` are positions in the order of all events the proxy saw, `time` is
UTC; `pair` names sender and receiver of the message transmitted or acknowledged; `row_found` is
true or false at the first sight of an Acknowledgement, else null; `fault` is what was done;
A signal that came in the answer to a request has lines of its own, with the other direction.
`copies` are the bodies passed on with the status that came back, null for none; `answered`
is the status the client got, or how its connection ended without one.
"""

import json
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime

from .faults import Fault
from .sighting import Sighting


@dataclass(slots=True)
class Copy:
    at: int
    status: int | None = None


@dataclass(slots=True)
class Record:
    at: int
    direction: str
    sighting: Sighting
    bytes: int
    time: datetime = field(default_factory=lambda: datetime.now(UTC))
    row_found: bool | None = None
    fault: str = Fault.PASS
    copies: list[Copy] = field(default_factory=list)
    answered: int | str = ""
    ended: bool = False

    def line(self) -> str:
        values = asdict(self)
        seen = values.pop("sighting")
        values |= {"pair": seen.pop("lane"), "time": self.time.isoformat()} | seen
        return json.dumps(values)
