"""The database's clock: the one clock for all due times (D13)."""

from dataclasses import dataclass
from datetime import datetime

from .engine import Statement, run


@dataclass(frozen=True, slots=True)
class Clock:
    now: datetime


CLOCK = Statement("SELECT clock_timestamp() AS now", Clock)


def read_clock() -> datetime:
    ((clock,),) = run(CLOCK())
    return clock.now
