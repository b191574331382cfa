"""Places in the feed of accepted messages, given after their commit, so that none is skipped."""

from dataclasses import dataclass

from msh.store.engine import Statement, Write, run

LOCK_SPACE = 0x66656564  # "feed"


@dataclass(frozen=True, slots=True)
class _Listed:
    count: int


_LOCK = Write("SELECT pg_advisory_xact_lock(%(space)s, 0)")
LAST_POSITION = """GREATEST(
            (SELECT max(feed_position) FROM msh_inboundmessage WHERE feed_position IS NOT NULL),
            (SELECT feed_removed FROM msh_prunerun WHERE id = 1), 0)"""
"""The highest position that a message has, or that retention has removed."""
_CLOCK = "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
# The place is the clock's microsecond, or what follows the last one: after a restore from a
# backup no place is given a second time, whatever had been read.
# What is held is not in the feed before it is released. Locked by id, as elsewhere.
_LIST = f"""
    WITH first AS (
        SELECT id, COALESCE(turn, id) AS place FROM msh_inboundmessage
        WHERE feed_position IS NULL AND state <> 'held'{{}}
        ORDER BY COALESCE(turn, id) LIMIT %(limit)s),
    locked AS (
        SELECT id FROM msh_inboundmessage WHERE id IN (SELECT id FROM first)
        ORDER BY id FOR NO KEY UPDATE),
    unlisted AS (
        SELECT id, row_number() OVER (ORDER BY place) AS nth FROM first JOIN locked USING (id)),
    start AS (
        SELECT GREATEST({LAST_POSITION}, {_CLOCK}) AS position),
    listed AS (
        UPDATE msh_inboundmessage message SET feed_position = start.position + unlisted.nth
        FROM unlisted, start WHERE message.id = unlisted.id
        RETURNING 1)
    SELECT count(*) AS count FROM listed
"""
_LIST_ANY = Statement(_LIST.format(""), _Listed)
_LIST_OF_LINK = Statement(_LIST.format(" AND link_id = %(link_id)s"), _Listed)


@dataclass(frozen=True, slots=True)
class Feed:
    """What the feed is at a moment, to who reads a stretch of it."""

    removed: int
    """The highest position that retention has removed, 0 if none: up to it the feed has holes."""
    possible: int
    """No position behind it can have been given."""
    has_seen: bool
    """Whether `seen` was given: to what is there, or it is not behind `removed`."""
    after: int
    """Where the stretch begins: if that is not said, behind `removed`; not before `least`."""
    last: int
    """The highest position that a message of the stretch has, or has had; 0 if there was none."""
    border: int | None
    """The position of the `looked_at`th message of the stretch, None if it has fewer."""


_FEED = Statement(
    f"""
    WITH feed AS (
        SELECT {LAST_POSITION} AS last,
               COALESCE((SELECT feed_removed FROM msh_prunerun WHERE id = 1), 0) AS removed),
    stretch AS (
        SELECT GREATEST(COALESCE(%(after)s::bigint, removed), %(least)s) AS after FROM feed)
    SELECT removed, GREATEST(last, {_CLOCK}) AS possible, after,
           %(seen)s <= removed OR EXISTS (
               SELECT FROM msh_inboundmessage WHERE feed_position = %(seen)s) AS has_seen,
           COALESCE((
               SELECT max(feed_position) FROM msh_inboundmessage
               WHERE feed_position <= %(up_to)s), LEAST(last, %(up_to)s)) AS last,
           (SELECT feed_position FROM msh_inboundmessage
            WHERE feed_position > after AND feed_position <= %(up_to)s ORDER BY feed_position
            OFFSET %(looked_at)s::bigint - 1 LIMIT CASE WHEN %(looked_at)s IS NULL THEN 0 ELSE 1 END
           ) AS border
    FROM feed, stretch
    """,
    Feed,
)


@dataclass(frozen=True, slots=True)
class _Last:
    position: int


_LAST_GIVEN = Statement(f"SELECT {LAST_POSITION} AS position", _Last)


def read_feed(
    *, after: int | None, up_to: int, seen: int, least: int, looked_at: int | None
) -> Feed:
    values = {"after": after, "up_to": up_to, "seen": seen, "least": least, "looked_at": looked_at}
    ((feed,),) = run(_FEED(**values))
    return feed


def last_given() -> int:
    ((last,),) = run(_LAST_GIVEN())
    return last.position


def list_in_feed(limit: int, link_id: int | None = None) -> int:
    """Give at most `limit` committed messages, perhaps of one link, their place: how many there
    were. In a transaction.

    One at a time: another waits, and then sees what the first has listed, so that nothing that was
    committed before it asked is missing from what it reads.
    """
    run(_LOCK(space=LOCK_SPACE))
    if link_id is None:
        ((listed,),) = run(_LIST_ANY(limit=limit))
    else:
        ((listed,),) = run(_LIST_OF_LINK(limit=limit, link_id=link_id))
    return listed.count
