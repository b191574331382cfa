"""Places in a feed, given after the commit of its rows, so that none is skipped."""

from dataclasses import dataclass, field

from msh.store.engine import Statement, Write, run

LOCK_SPACE = 0x66656564  # "feed"


@dataclass(frozen=True, slots=True)
class _Listed:
    count: int


@dataclass(frozen=True, slots=True)
class _Last:
    position: int


@dataclass(frozen=True, slots=True)
class Feed:
    """What a feed is at a moment, to who reads a stretch of it."""

    removed: int
    """The highest position that retention has removed, 0 if none: up to it the feed has holes."""
    possible: int
    """No position behind it can have been given."""
    has_seen: bool
    """Whether `seen` was given: to what is there, or it is not behind `removed`."""
    after: int
    """Where the stretch begins: if that is not said, behind `removed`; not before `least`."""
    last: int
    """The highest position that a row of the stretch has, or has had; 0 if there was none."""
    border: int | None
    """The position of the `looked_at`th row of the stretch, None if it has fewer."""


_LOCK = Write("SELECT pg_advisory_xact_lock(%(space)s, %(number)s)")
_LAST_POSITION = """GREATEST(
            (SELECT max(feed_position) FROM {table} WHERE feed_position IS NOT NULL),
            (SELECT {removed} FROM msh_prunerun WHERE id = 1), 0)"""
_CLOCK = "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
# The place is the clock's microsecond, or what follows the last one: after a restore from a
# backup no place is given a second time, whatever had been read. Locked by id, as elsewhere.
_LIST = f"""
    WITH first AS (
        SELECT id, message_id, {{order}} AS place FROM {{table}}
        WHERE feed_position IS NULL AND {{listed}}
        ORDER BY {{order}} LIMIT %(limit)s),
    locked AS (
        SELECT id FROM {{table}} WHERE id IN (SELECT id FROM first)
        ORDER BY id FOR NO KEY UPDATE {{others}}),
    unlisted AS (
        SELECT id, row_number() OVER (ORDER BY place) AS nth
        FROM first JOIN locked USING (id) WHERE {{now}}),
    start AS (
        SELECT GREATEST({{last}}, {_CLOCK}) AS position),
    listed AS (
        UPDATE {{table}} listed SET feed_position = start.position + unlisted.nth
        FROM unlisted, start WHERE listed.id = unlisted.id
        RETURNING 1)
    SELECT count(*) AS count FROM listed
"""
_READ = f"""
    WITH feed AS (
        SELECT {{last}} AS last,
               COALESCE((SELECT {{removed}} FROM msh_prunerun WHERE id = 1), 0) AS removed),
    stretch AS (
        SELECT GREATEST(COALESCE(%(after)s::bigint, removed), %(least)s) AS after FROM feed)
    SELECT removed, GREATEST(last, {_CLOCK}) AS possible, after,
           %(seen)s <= removed OR EXISTS (
               SELECT FROM {{table}} WHERE feed_position = %(seen)s) AS has_seen,
           COALESCE((
               SELECT max(feed_position) FROM {{table}}
               WHERE feed_position <= %(up_to)s), LEAST(last, %(up_to)s)) AS last,
           (SELECT feed_position FROM {{table}}
            WHERE feed_position > after AND feed_position <= %(up_to)s ORDER BY feed_position
            OFFSET %(looked_at)s::bigint - 1 LIMIT CASE WHEN %(looked_at)s IS NULL THEN 0 ELSE 1 END
           ) AS border
    FROM feed, stretch
"""


@dataclass(frozen=True, slots=True)
class Source:
    """A table whose rows have a place in a feed, `feed_position`.

    `number` is that of its lock, `removed` the column of the last prune run that has the highest
    removed position. `listed`: which rows may have a place; `order`: of those that get one
    together; `others`: what becomes of rows that somebody else has locked, by default they are
    waited for; `now`: which of the locked rows get a place now.
    """

    number: int
    table: str
    removed: str
    listed: str = "true"
    order: str = "id"
    others: str = ""
    now: str = "true"
    last_position: str = field(init=False)
    """SQL for the highest position that a row has, or that retention has removed."""
    _list: Statement[_Listed] = field(init=False)
    _read: Statement[Feed] = field(init=False)
    _last: Statement[_Last] = field(init=False)

    def __post_init__(self) -> None:
        parts = {"table": self.table, "removed": self.removed}
        last = _LAST_POSITION.format(**parts)
        listing = {name: getattr(self, name) for name in ("listed", "order", "others", "now")}
        made = {
            "last_position": last,
            "_list": Statement(_LIST.format(**parts, **listing, last=last), _Listed),
            "_read": Statement(_READ.format(**parts, last=last), Feed),
            "_last": Statement(f"SELECT {last} AS position", _Last),
        }
        for name, value in made.items():
            object.__setattr__(self, name, value)

    def read(
        self, *, after: int | None, up_to: int, seen: int, least: int, looked_at: int | None
    ) -> Feed:
        asked = {"after": after, "up_to": up_to, "seen": seen}
        ((feed,),) = run(self._read(**asked, least=least, looked_at=looked_at))
        return feed

    def last_given(self) -> int:
        ((last,),) = run(self._last())
        return last.position

    def list(self, limit: int) -> int:
        """Give at most `limit` committed rows their place: how many there were. In a transaction.

        One at a time: another waits, and then sees what the first has listed, so that nothing that
        was committed before it asked is missing from what it reads.
        """
        run(_LOCK(space=LOCK_SPACE, number=self.number))
        ((listed,),) = run(self._list(limit=limit))
        return listed.count


# What is held is not in the feed before it is released.
INBOUND = Source(
    0,
    "msh_inboundmessage",
    "feed_removed",
    listed="state <> 'held'",
    order="COALESCE(turn, id)",
)
# The handler of events may take long, and has its event locked meanwhile. That event gets its place
# later, and so do those of its message that follow it.
EVENTS = Source(
    1,
    "msh_partyevent",
    "events_removed",
    others="SKIP LOCKED",
    now="""NOT EXISTS (
            SELECT FROM msh_partyevent earlier
            WHERE earlier.message_id = first.message_id AND earlier.id < first.id
              AND earlier.feed_position IS NULL AND earlier.id NOT IN (SELECT id FROM locked))""",
)
