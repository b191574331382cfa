"""Places in the feed of accepted messages, given after their commit, so that none is skipped."""

from msh.models import hot

LOCK_SPACE = 0x66656564  # "feed"

_TRY_LOCK = "SELECT pg_try_advisory_xact_lock(%s, 0) AS had"
# The place is the clock's microsecond, or what follows the last one: after a restore from a
# backup no place is given a second time, whatever had been read.
_LIST = """
    WITH unlisted AS (
        SELECT id, row_number() OVER (ORDER BY id) AS nth FROM (
            SELECT id FROM msh_inboundmessage WHERE feed_position IS NULL
            ORDER BY id LIMIT %s FOR NO KEY UPDATE) first),
    start AS (
        SELECT GREATEST(
            (SELECT max(feed_position) FROM msh_inboundmessage WHERE feed_position IS NOT NULL),
            (extract(epoch FROM clock_timestamp()) * 1000000)::bigint) AS position)
    UPDATE msh_inboundmessage message SET feed_position = start.position + unlisted.nth
    FROM unlisted, start WHERE message.id = unlisted.id
    RETURNING message.id
"""


def list_in_feed(limit: int) -> int:
    """Give at most `limit` committed messages their place; how many. In a transaction.

    One process at a time: another that is at it lists for all, then this one does nothing.
    """
    ((lock,),) = hot.run((_TRY_LOCK, (LOCK_SPACE,)))
    if not lock.had:
        return 0
    (rows,) = hot.run((_LIST, (limit,)))
    return len(rows)
