"""Whether a new message may be stored: what the partner's messages use of us, what all use, and
what an error of the database says about it."""

import logging
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import psycopg
from django.conf import settings
from django.db import DataError, IntegrityError, InterfaceError, InternalError, OperationalError
from django.db import Error as DatabaseError

from msh.protocol.admission import Limits, Postponed, Usage, admission, store_short
from msh.protocol.message import Payload

from .cache import Cache
from .engine import Statement, run

logger = logging.getLogger(__name__)

MEASURED_EVERY = 10.0
"""Seconds between two measurements of the size of the database, by each process."""

MOST = 100_000
"""Messages that are counted at most: no limit is higher."""

_UNWRITABLE = (psycopg.errors.ReadOnlySqlTransaction, psycopg.errors.DiskFull)

_GONE = ("08", "57P", "53100", "53300", "25006", "25P03", "25P04")
"""SQLSTATEs of a server that cannot be reached, is ending, takes nothing, or has ended a session
whose process stood still: how they begin."""
_LIMIT = "54"
"""SQLSTATEs of what is too large for the server: how they begin."""


COUNTED_EVERY = 5.0
"""Seconds between two counts of what waits from a partner, by each process. In between it adds what
it takes itself; what others take, and what is delivered, is seen with the next count."""


@dataclass(frozen=True, slots=True)
class _Waiting:
    messages: int
    bytes: int


@dataclass(frozen=True, slots=True)
class _Counted:
    """`at`: by the monotonic clock."""

    at: float
    waiting: _Waiting


@dataclass(frozen=True, slots=True)
class _Size:
    bytes: int


_COUNT_WAITING = Statement(
    """
    SELECT count(*) AS messages, COALESCE(sum(part.bytes), 0)::bigint AS bytes
    FROM (
        (SELECT id FROM msh_inboundmessage
         WHERE link_id = %(link_id)s AND state = 'accepted' AND ordered_in_id IS NULL
         ORDER BY id LIMIT %(most)s)
        UNION ALL
        (SELECT id FROM msh_inboundmessage
         WHERE link_id = %(link_id)s AND state = 'accepted' AND ordered_in_id IS NOT NULL
         LIMIT %(most)s)
        UNION ALL
        (SELECT id FROM msh_inboundmessage
         WHERE %(held)s AND link_id = %(link_id)s AND state = 'held'
           AND ordered_in_id IS NOT NULL
         LIMIT %(most)s)) message
    LEFT JOIN LATERAL (
        SELECT sum(octet_length(content)) AS bytes FROM msh_inboundpayload
        WHERE %(sizes)s AND message_id = message.id) part ON true
    """,
    _Waiting,
)
_counted: Cache[tuple[int, bool], _Counted] = Cache()
_DATABASE_SIZE = Statement("SELECT pg_database_size(current_database()) AS bytes", _Size)

_measured_at = 0.0
_size = 0


def postponed(
    limits: Limits,
    link_id: int,
    payloads: Sequence[Payload],
    rate_reached_at: datetime | None,
    now: datetime,
    *,
    held: bool = False,
) -> Postponed | None:
    """Return why a new message of a partner is not stored now, None if it is. `rate_reached_at`:
    when the message was accepted that stands `rate` messages before it. `held`: what waits for a
    message before it counts too."""
    if (short := shortage()) or not limits.any:
        return short
    waiting = _Waiting(0, 0)
    if limits.undelivered_messages or limits.undelivered_bytes:
        size = sum(len(payload.content) for payload in payloads)
        waiting = _waiting(link_id, limits, size, held=held)
    return admission(limits, Usage(waiting.messages, waiting.bytes, rate_reached_at), now)


def _waiting(link_id: int, limits: Limits, size: int, *, held: bool) -> _Waiting:
    """How much of a partner waits for its consumer, before `size` bytes are added.

    It is counted at most every COUNTED_EVERY seconds, and before a message is refused: counting for
    each message would cost the backlog each time.
    """
    counted = _counted.get((link_id, held))
    if (
        counted is None
        or time.monotonic() - counted.at > COUNTED_EVERY
        or _is_reached(limits, counted.waiting)
    ):
        counted = _Counted(time.monotonic(), _count_waiting(link_id, limits, held=held))
        _counted.put((link_id, held), counted)
    for key in ((link_id, False), (link_id, True)):
        if one := _counted.get(key):
            more = _Waiting(one.waiting.messages + 1, one.waiting.bytes + size)
            _counted.put(key, _Counted(one.at, more))
    return counted.waiting


def _is_reached(limits: Limits, waiting: _Waiting) -> bool:
    return (
        0 < limits.undelivered_messages <= waiting.messages
        or 0 < limits.undelivered_bytes <= waiting.bytes
    )


def _count_waiting(link_id: int, limits: Limits, *, held: bool) -> _Waiting:
    sizes = limits.undelivered_bytes > 0
    most = limits.undelivered_messages or MOST
    ((row,),) = run(_COUNT_WAITING(link_id=link_id, most=most, held=held, sizes=sizes))
    return row


def database_size() -> int:
    """Bytes of our database on its disk."""
    ((row,),) = run(_DATABASE_SIZE())
    return row.bytes


def shortage() -> Postponed | None:
    """Why nothing new is to be stored, None if there is room."""
    if is_disk_short():
        return store_short("this MSH's disk is nearly full, send this later")
    if settings.MSH_STORE_LIMIT and _database_size() >= settings.MSH_STORE_LIMIT:
        return store_short("this MSH's store is full, send this later")
    return None


def free_disk() -> int | None:
    """Bytes on the disk of MSH_DISK_PATH; None if none is named or it cannot be measured, which a
    start-up check has warned of."""
    if not settings.MSH_DISK_PATH:
        return None
    try:
        return shutil.disk_usage(settings.MSH_DISK_PATH).free
    except OSError as problem:
        logger.warning("MSH_DISK_PATH is not watched: %s", problem)
        return None


def is_disk_short() -> bool:
    free = free_disk()
    return free is not None and free < settings.MSH_DISK_WATERMARK


def is_unwritable(error: DatabaseError) -> bool:
    """True if the database answers, and takes nothing: read-only, or its disk is full."""
    return isinstance(error.__cause__, _UNWRITABLE)


def is_gone(error: Exception) -> bool:
    """True if the database cannot be used now, whatever was asked of it: it is all tried again."""
    if isinstance(error, InterfaceError):
        return True
    state = _sqlstate(error)
    if state is None:
        return isinstance(error, OperationalError)
    return state.startswith(_GONE)


def is_lasting(error: Exception) -> bool:
    """True if what was done raises the same error again, because of its own rows or of a defect.

    False for a lock that was not had, a table that a migration is changing, a lack of memory.
    """
    if isinstance(error, (DataError, IntegrityError, InternalError)):
        return not is_gone(error)
    if isinstance(error, DatabaseError):
        return (_sqlstate(error) or "").startswith(_LIMIT)
    return not isinstance(error, MemoryError)


def _sqlstate(error: Exception) -> str | None:
    return getattr(error.__cause__, "sqlstate", None)


def _database_size() -> int:
    global _measured_at, _size
    if not _measured_at or time.monotonic() - _measured_at > MEASURED_EVERY:
        _size = database_size()
        _measured_at = time.monotonic()
    return _size
