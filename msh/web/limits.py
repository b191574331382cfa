"""The limits of the web server. All numbers are for one process."""

from dataclasses import dataclass
from typing import Self

from django.conf import settings


@dataclass(frozen=True, slots=True)
class Limits:
    """Numbers of connections and bodies, bytes, and seconds."""

    connections: int = 2000
    uploads: int = 512
    """Bodies under way, of all senders together; of unknown ones at most half of them."""
    known: int = 16
    """Bodies under way of one partner, API token or user."""
    unknown: int = 8
    """Bodies under way of one address whose sender is not known."""
    waiting: float = 5.0
    """Seconds that a body may wait for its turn."""
    memory: int = 64 << 20
    """Bytes of bodies and answers that are kept in memory; what is more goes to files."""
    disk: int = 2 << 30
    """Bytes in those files."""
    head: float = 10.0
    """Seconds for a request without its body."""
    grace: float = 20.0
    """Seconds after which a body, and an answer, has to have come on at `rate`."""
    rate: int = 8 * 1024
    """Bytes a second."""
    idle: float = 75.0
    """Seconds that a connection is kept between two requests."""
    unread: int = 64 << 20
    """Bytes of a refused request that are read, so that its sender gets to see the refusal."""
    unread_seconds: float = 5.0

    @classmethod
    def of_settings(cls) -> Self:
        return cls(
            connections=settings.MSH_WEB_CONNECTIONS,
            uploads=settings.MSH_UPLOADS,
            known=settings.MSH_UPLOADS_KNOWN,
            unknown=settings.MSH_UPLOADS_UNKNOWN,
            memory=settings.MSH_WEB_MEMORY,
            grace=settings.MSH_BODY_GRACE,
            rate=settings.MSH_BODY_RATE,
        )

    def deadline(self, began: float, transferred: int) -> float:
        """When so many bytes that began to move at `began` are too slow, if no more follow."""
        return began + self.grace + transferred / self.rate


HEAD_LIMIT = 64 * 1024
"""Bytes of the request line and headers."""
UNKNOWN_BODY_LIMIT = 64 * 1024
"""Bytes of a body whose sender is not known, such as a log-in form."""
CONSOLE_BODY_LIMIT = 16 << 20
"""Bytes of a form that a user who is logged in sends."""
