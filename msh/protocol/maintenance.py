"""Maintenance windows of a partner: when its link is suspended and resumed."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum


class WindowState(StrEnum):
    PLANNED = "planned"
    RUNNING = "running"
    ENDED = "ended"
    CANCELLED = "cancelled"
    MISSED = "missed"
    """The MSH was down from its beginning to its end."""


class WindowAct(StrEnum):
    BEGIN = "begin"
    END = "end"
    MISS = "miss"


LONG = timedelta(days=7)
"""A window that is longer is likely to be a mistake, and nobody is called meanwhile."""
OPEN = (WindowState.PLANNED, WindowState.RUNNING)


@dataclass(frozen=True, slots=True)
class Window:
    state: WindowState
    starts_at: datetime
    ends_at: datetime

    @property
    def is_long(self) -> bool:
        return self.ends_at - self.starts_at > LONG

    def due_act(self, now: datetime) -> WindowAct | None:
        """Return what is due now, however late it is noticed. None: nothing."""
        if self.state is WindowState.RUNNING:
            return WindowAct.END if now >= self.ends_at else None
        if self.state is not WindowState.PLANNED or now < self.starts_at:
            return None
        return WindowAct.BEGIN if now < self.ends_at else WindowAct.MISS

    def keeps_quiet(self, now: datetime) -> bool:
        """Whether nobody is called about its partner: also before the clock has begun it, and until
        the link was resumed."""
        if self.state is WindowState.RUNNING:
            return True
        return self.state is WindowState.PLANNED and self.starts_at <= now < self.ends_at

    def overlaps(self, starts_at: datetime, ends_at: datetime) -> bool:
        """Two that touch do not."""
        return self.state in OPEN and self.starts_at < ends_at and starts_at < self.ends_at
