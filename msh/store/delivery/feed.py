"""Places in the feed of accepted messages, given after their commit, so that none is skipped."""

from dataclasses import dataclass

from msh.store.engine import Statement, Write, run

LOCK_SPACE = 0x66656564  # "feed"

_LOCK = Write("SELECT pg_advisory_xact_lock(%(space)s, 0)")
# The place is the clock's microsecond, or what follows the last one: after a restore from a
# backup no place is given a second time, whatever had been read.
# What is held is not in the feed before it is released. Locked by id, as elsewhere.
_LIST = """
    WITH first AS (
        SELECT id, COALESCE(turn, id) AS place FROM msh_inboundmessage
        WHERE feed_position IS NULL AND state <> 'held'{}
        ORDER BY COALESCE(turn, id) LIMIT %(limit)s),
    locked AS (
        SELECT id FROM msh_inboundmessage WHERE id IN (SELECT id FROM first)
        ORDER BY id FOR NO KEY UPDATE),
    unlisted AS (
        SELECT id, row_number() OVER (ORDER BY place) AS nth FROM first JOIN locked USING (id)),
    start AS (
        SELECT GREATEST(
            (SELECT max(feed_position) FROM msh_inboundmessage WHERE feed_position IS NOT NULL),
            (extract(epoch FROM clock_timestamp()) * 1000000)::bigint) AS position)
    UPDATE msh_inboundmessage message SET feed_position = start.position + unlisted.nth
    FROM unlisted, start WHERE message.id = unlisted.id
"""
_LIST_ANY = Write(_LIST.format(""))
_LIST_OF_LINK = Write(_LIST.format(" AND link_id = %(link_id)s"))


@dataclass(frozen=True, slots=True)
class _Last:
    position: int


_LAST = Statement(
    """
    SELECT GREATEST(
        (SELECT max(feed_position) FROM msh_inboundmessage WHERE feed_position IS NOT NULL),
        (extract(epoch FROM clock_timestamp()) * 1000000)::bigint) AS position
    """,
    _Last,
)


def last_possible() -> int:
    """No position behind it can have been given."""
    ((last,),) = run(_LAST())
    return last.position


def list_in_feed(limit: int, link_id: int | None = None) -> None:
    """Give at most `limit` committed messages, perhaps of one link, their place. In a transaction.

    One at a time: another waits, and then sees what the first has listed, so that nothing that was
    committed before it asked is missing from what it reads.
    """
    run(_LOCK(space=LOCK_SPACE))
    if link_id is None:
        run(_LIST_ANY(limit=limit))
    else:
        run(_LIST_OF_LINK(limit=limit, link_id=link_id))
