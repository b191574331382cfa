"""The store all partners share: is there room in it for a new message, can it be written at all?"""

import logging
import math
import shutil
import time

import psycopg
from django.conf import settings
from django.db import DataError, IntegrityError, InterfaceError, InternalError, OperationalError
from django.db import Error as DatabaseError

from msh.models.usage import database_size
from msh.protocol.admission import Postponed, store_short

logger = logging.getLogger(__name__)

MEASURED_EVERY = 10.0
"""Seconds between two looks at the size of the database, by each process."""

_UNWRITABLE = (psycopg.errors.ReadOnlySqlTransaction, psycopg.errors.DiskFull)

_GONE = ("08", "57P", "53100", "53300", "25006")
"""SQLSTATEs of a server that cannot be reached, is ending, or takes nothing: how they begin."""
_LIMIT = "54"
"""SQLSTATEs of what is too large for the server: how they begin."""

_measured_at = 0.0
_size = 0


def shortage() -> Postponed | None:
    """Why nothing new is to be stored, None if there is room."""
    if settings.MSH_DISK_PATH and _free() < settings.MSH_DISK_WATERMARK:
        return store_short("this MSH's disk is nearly full, send this later")
    if settings.MSH_STORE_LIMIT and _database_size() >= settings.MSH_STORE_LIMIT:
        return store_short("this MSH's store is full, send this later")
    return None


def cannot_be_written(error: DatabaseError) -> bool:
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


def _free() -> float:
    """Bytes; without bound where they cannot be measured, which a start-up check has warned of."""
    try:
        return shutil.disk_usage(settings.MSH_DISK_PATH).free
    except OSError as problem:
        logger.warning("MSH_DISK_PATH is not watched: %s", problem)
        return math.inf


def _database_size() -> int:
    global _measured_at, _size
    if not _measured_at or time.monotonic() - _measured_at > MEASURED_EVERY:
        _size = database_size()
        _measured_at = time.monotonic()
    return _size
