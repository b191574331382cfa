"""Removal of what has ended and is old enough, a batch at a time."""

from dataclasses import dataclass
from datetime import timedelta

from msh.models import hot, retention
from msh.models.retention import Removal


@dataclass(frozen=True, slots=True)
class Retention:
    """How long what has ended is kept."""

    messages: timedelta
    payloads: timedelta


def count(removal: Removal, kept: Retention) -> int:
    """How many rows may go now."""
    (rows,) = hot.run((retention.count_of(removal), (_age(removal, kept),)))
    return int(rows[0].rows)


def remove(removal: Removal, kept: Retention, limit: int) -> int:
    """Remove at most `limit` of them, with what depends on them, and none that is held; how
    many. Needs a transaction."""
    (rows,) = hot.run((retention.find(removal), (_age(removal, kept), limit)))
    keys = [row.key for row in rows]
    if keys:
        hot.run(*((statement, (keys,)) for statement in retention.deletions(removal)))
    return len(keys)


def _age(removal: Removal, kept: Retention) -> timedelta:
    return kept.payloads if removal.payload else kept.messages
