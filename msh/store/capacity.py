"""Whether a new message may be stored: what the partner's messages use of us, what all use, and
what an error of the database says about it."""

import logging
import shutil
import time
from dataclasses import dataclass
from datetime import datetime

import psycopg
from django.conf import settings
from django.db import DataError, IntegrityError, InterfaceError, InternalError, OperationalError
from django.db import Error as DatabaseError

from msh.protocol.admission import Limits, Postponed, Usage, store_short
from msh.protocol.receiver import ReceivingLink

from .engine import Statement, run

logger = logging.getLogger(__name__)

MEASURED_EVERY = 10.0
"""Seconds between two measurements of the size of the database, by each process."""

MOST = 100_000
"""Messages that are counted at most: no limit is higher."""

_UNWRITABLE = (psycopg.errors.ReadOnlySqlTransaction, psycopg.errors.DiskFull)

_GONE = ("08", "57P", "53100", "53300", "25006")
"""SQLSTATEs of a server that cannot be reached, is ending, or takes nothing: how they begin."""
_LIMIT = "54"
"""SQLSTATEs of what is too large for the server: how they begin."""


@dataclass(frozen=True, slots=True)
class _Usage:
    messages: int
    bytes: int
    rate_reached_at: datetime | None


@dataclass(frozen=True, slots=True)
class _Size:
    bytes: int


_USAGE = Statement(
    """
    SELECT waiting.messages, waiting.bytes, (
        SELECT received_at FROM msh_inboundmessage
        WHERE link_id = %(link_id)s AND epoch = %(epoch)s
          AND sequence_number = %(number)s) AS rate_reached_at
    FROM (
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
            WHERE message_id = message.id) part ON true) waiting
    """,
    _Usage,
)
_DATABASE_SIZE = Statement("SELECT pg_database_size(current_database()) AS bytes", _Size)

_measured_at = 0.0
_size = 0


def usage_of(link_id: int, link: ReceivingLink, limits: Limits, *, held: bool = False) -> Usage:
    """What waits for its consumer, and when the message was accepted that is `rate` back. `held`:
    what waits for a message before it counts too."""
    back = (link.last_number or 0) - limits.rate + 1
    most = limits.undelivered_messages or (MOST if limits.undelivered_bytes else 0)
    values = {"epoch": link.epoch, "number": back, "most": most, "held": held}
    ((row,),) = run(_USAGE(link_id=link_id, **values))
    return Usage(row.messages, row.bytes, row.rate_reached_at if limits.rate else None)


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
