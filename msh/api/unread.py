"""What is left of the body of a request that is refused."""

from contextlib import suppress
from threading import Thread

from django.http import HttpRequest

UNREAD_LIMIT = 64 * 1024 * 1024
"""Bytes that are read and thrown away: more than any address takes by default."""
UNREAD_PATIENCE = 5.0
"""Seconds that this may take: somebody who sends nothing must not hold a thread of ours."""

_PIECE = 1 << 18  # bytes read at a time


def throw_away(request: HttpRequest) -> None:
    """Read it, so that who sends it gets to see the refusal.

    The usual client sends all, then reads. Where the connection is closed before, it sees that,
    never the refusal, and sends the same for ever. One that waits for `100 Continue` does not.
    """
    announced = int(request.META.get("CONTENT_LENGTH") or 0)
    if 0 < announced <= UNREAD_LIMIT and "HTTP_EXPECT" not in request.META:
        # No read can be given a time. The thread ends with the connection, at the latest.
        thread = Thread(target=_read_to_the_end, args=(request,), daemon=True)
        thread.start()
        thread.join(UNREAD_PATIENCE)


def _read_to_the_end(request: HttpRequest) -> None:
    with suppress(OSError):
        while request.read(_PIECE):
            pass
