"""All reads of one page see the database as it was at one moment."""

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connection, transaction

from .engine import Write, run_all

_READ_ONLY = Write("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")


@contextmanager
def snapshot() -> Iterator[None]:
    """Nothing can be written in it. In a transaction that has begun already it changes nothing."""
    if connection.in_atomic_block:
        yield
        return
    with transaction.atomic():
        run_all([_READ_ONLY()])
        yield
