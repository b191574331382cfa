"""Removal of what has ended and is old enough, a batch at a time."""

from dataclasses import dataclass, replace
from datetime import timedelta
from uuid import UUID

from axes.models import AccessAttempt
from django.contrib.sessions.models import Session
from django.db.models import Count
from django.db.models.functions import Now

from msh.models import InboundMessage, OutboundMessage, PruneRun
from msh.store.engine import USE_INDEX_ORDER, Key, Statement, Write, run

from . import retention_sql
from .retention_sql import Age, Removal

WINDOW = 10
"""Rows that a batch looks at, for each that it may remove."""


@dataclass(frozen=True, slots=True)
class Retention:
    """How long what has ended is kept."""

    messages: timedelta
    payloads: timedelta
    changes: timedelta
    ids: timedelta = timedelta()
    """Of submitted messages, also after these have gone."""

    def longer_by(self, time: timedelta) -> "Retention":
        times = (self.messages, self.payloads, self.changes, self.ids)
        return Retention(*(kept + time for kept in times))

    def at_least(self, age: timedelta) -> "Retention":
        """Nothing of messages goes that is younger."""
        return replace(self, messages=max(self.messages, age), payloads=max(self.payloads, age))

    def of(self, removal: Removal) -> timedelta:
        match removal.age:
            case Age.MESSAGES:
                return self.messages
            case Age.PAYLOADS:
                return self.payloads
            case Age.CHANGES:
                return self.changes
            case Age.IDS:
                return self.ids


@dataclass(frozen=True, slots=True)
class Batch:
    """How many rows went, and the key, or the time, after which the next batch begins; None if it
    was the last one."""

    count: int
    last: int | None


def count(removal: Removal, kept: Retention) -> int:
    ((row,),) = run(retention_sql.count(removal)(age=kept.of(removal)))
    return row.rows


def unfinished(kept: Retention) -> tuple[dict[str, int], dict[str, int]]:
    """How many messages are older than is kept and stay, because they have not ended: by state,
    those to partners and those that were received."""
    sent = OutboundMessage.objects.filter(completed_at=None, submitted_at__lt=Now() - kept.messages)
    received = InboundMessage.objects.filter(
        delivered_at=None, received_at__lt=Now() - kept.messages
    )
    to_partners, of_partners = (
        dict(rows.order_by("state").values_list("state").annotate(n=Count("pk")))
        for rows in (sent, received)
    )
    return to_partners, of_partners


def remove(removal: Removal, kept: Retention, after: int, limit: int) -> Batch:
    """Remove at most `limit` of them whose key is higher than `after`, with what depends on them,
    and none that is held; or that ended at this time or later. Needs a transaction."""
    if removal.ended:
        return _remove_oldest(removal, kept, after, limit)
    ((window,),) = run(retention_sql.window(removal)(after=after, limit=limit * WINDOW))
    if window.last is None:
        return Batch(0, None)
    find = retention_sql.find(removal)
    _, rows = run(
        USE_INDEX_ORDER(),  # all rows would be read while the table is small, and by a plan of then
        find(age=kept.of(removal), after=after, last=window.last, limit=limit),
    )
    keys = _free(removal, [row.id for row in rows])
    _delete(removal, keys)
    return Batch(len(keys), rows[-1].id if len(rows) == limit else window.last)


def _remove_oldest(removal: Removal, kept: Retention, after: int, limit: int) -> Batch:
    find = retention_sql.find_oldest(removal)
    _, rows = run(USE_INDEX_ORDER(), find(age=kept.of(removal), after=after, limit=limit))
    _delete(removal, [row.id for row in rows])
    return Batch(len(rows), rows[-1].at if len(rows) == limit else None)


def _delete(removal: Removal, keys: list[int]) -> None:
    if keys:
        run(*(delete(keys=keys) for delete in retention_sql.deletions(removal)))


# A lease, not a lock of the session: behind a pooler of transactions the session is not ours. One
# that ends later than any lease can was taken before the clock was set back. Given by the time at
# which a statement begins and compared with the time now, for a statement may have waited.
_CLAIM_RUN = Statement(
    """
    INSERT INTO msh_prunerun (id, holder, leased_until)
    VALUES (1, %(holder)s, statement_timestamp() + %(lease)s)
    ON CONFLICT (id) DO UPDATE
    SET holder = EXCLUDED.holder, leased_until = EXCLUDED.leased_until
    WHERE msh_prunerun.holder IS NULL
       OR msh_prunerun.leased_until
          NOT BETWEEN clock_timestamp() AND clock_timestamp() + %(lease)s
    RETURNING id
    """,
    Key,
)
_RENEW_RUN = Statement(
    """
    UPDATE msh_prunerun SET leased_until = statement_timestamp() + %(lease)s
    WHERE id = 1 AND holder = %(holder)s
    RETURNING id
    """,
    Key,
)
_RELEASE_RUN = Write("""
    UPDATE msh_prunerun SET holder = NULL, leased_until = NULL
    WHERE id = 1 AND holder = %(holder)s
""")


def claim_run(holder: UUID, lease: timedelta) -> bool:
    """False if another run holds its lease. Needs no transaction."""
    return bool(run(_CLAIM_RUN(holder=holder, lease=lease))[0])


def renew_run(holder: UUID, lease: timedelta) -> bool:
    """False if the lease has passed and another run has claimed it."""
    return bool(run(_RENEW_RUN(holder=holder, lease=lease))[0])


def release_run(holder: UUID) -> None:
    run(_RELEASE_RUN(holder=holder))


def note_run() -> None:
    PruneRun.objects.update_or_create(pk=1, defaults={"at": Now()})


def remove_log_ins(kept: Retention) -> None:
    """Sessions that are over, and failed log-ins, of which a stranger can make as many as he
    likes."""
    Session.objects.filter(expire_date__lt=Now()).delete()
    AccessAttempt.objects.filter(attempt_time__lt=Now() - kept.payloads).delete()


def _free(removal: Removal, keys: list[int]) -> list[int]:
    """Return the rows of which no dependent row is locked: the holder of such a lock may want the
    row that we hold, so waiting could be a deadlock. The next run finds those left out."""
    if not removal.held_by or not keys:
        return keys
    (locked,) = run(retention_sql.lock_holders(removal)(keys=keys))
    ours = [row.id for row in locked]
    (held,) = run(retention_sql.find_held(removal)(keys=keys, ours=ours))
    others = {row.message_id for row in held}
    return [key for key in keys if key not in others]
