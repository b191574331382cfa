"""What is under way with a partner, and whether all see what was committed: asked before it is
moved to another MSH."""

from django.db import connection

from .moving import OF_RECEIVED, RECEIVED, SENT


def mark_now() -> str:
    """A transaction of this moment, for `is_seen_by_all`."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_current_xact_id()::xid::text")
        return str(cursor.fetchone()[0])


def is_seen_by_all(mark: str) -> bool:
    """Whether nothing that writes still goes by what was committed before the mark: no statement
    that began before, and no transaction that had locked or written a row before.

    A transaction that had only read is not waited for between its statements: what decides by a
    partner locks a row of it first, or asks in the statement that writes. Standbys and replication
    slots only read, so they do not count (their senders are in no database, or have no snapshot);
    nor do prepared transactions: we make none. `pg_dump` and VACUUM of this database do count, to
    no harm: the answer is false until they end. Call it outside a transaction, in which
    PostgreSQL reads `pg_stat_activity` once. A role without rights sees both columns of all.
    """
    with connection.cursor() as cursor:
        cursor.execute(_OLDER, {"mark": mark})
        return not cursor.fetchall()


_OLDER = """
SELECT pid FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid()
  AND (age(backend_xmin) >= age(%(mark)s::xid) OR age(backend_xid) >= age(%(mark)s::xid))
"""

_LOCK = """
SELECT link.id FROM msh_outboundlink link WHERE partner_id = %(partner)s FOR UPDATE
"""
_LOCK_IN = "SELECT id FROM msh_inboundlink WHERE partner_id = %(partner)s FOR UPDATE"
_STILL = {
    "a copy is being sent": f"""
        SELECT FROM msh_attempt WHERE ended_at IS NULL
        AND claimed_at > clock_timestamp() - %(seconds)s * interval '1 second'
        AND message_id IN (SELECT id FROM msh_outboundmessage
                           WHERE state IN ('in_flight', 'flying', 'queued') AND {SENT})
        LIMIT 1""",
    "a BestEffort message is being sent": f"""
        SELECT FROM msh_outboundmessage
        WHERE semantics = 'BestEffort' AND state IN ('queued', 'in_flight') AND {SENT} LIMIT 1""",
    "a message is being delivered": f"""
        SELECT FROM msh_delivery WHERE state = 'processing' AND {OF_RECEIVED} LIMIT 1""",
}
_ROUTED = f"""
SELECT FROM msh_inboundmessage
WHERE state IN ('routed', 'withheld', 'forwarding') AND {RECEIVED}
UNION ALL
SELECT FROM msh_outboundmessage WHERE forwards_id IS NOT NULL AND {SENT}
LIMIT 1
"""


def lock(partner: int) -> None:
    with connection.cursor() as cursor:
        for statement in (_LOCK, _LOCK_IN):
            cursor.execute(statement, {"partner": partner})


def still_at_work(partner: int, seconds: float) -> str:
    """What is under way with this partner; empty if nothing is. `seconds`: after which a copy
    that has not ended belongs to a worker that died."""
    for what, statement in _STILL.items():
        if _finds(statement, partner, seconds=seconds):
            return what
    return ""


def is_routed(partner: int) -> bool:
    """Whether messages of it belong to another partner's too."""
    return _finds(_ROUTED, partner)


def _finds(statement: str, partner: int, **values: float) -> bool:
    with connection.cursor() as cursor:
        cursor.execute(statement.format(partner=int(partner)), values)
        return bool(cursor.fetchall())
