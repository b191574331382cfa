"""The database as start-up checks and health see it: does it answer, is it ours, our session."""

from collections.abc import Sequence
from dataclasses import dataclass

from msh.models import Delivery

from .engine import Statement, run


@dataclass(frozen=True, slots=True)
class _Found:
    found: bool


@dataclass(frozen=True, slots=True)
class _Settings:
    values: Sequence[str]


# As a transaction that writes would find it. A standby is read-only as well.
_TAKES_WRITES = Statement(
    "SELECT NOT current_setting('transaction_read_only')::boolean AS found", _Found
)
_HAS_TABLE = Statement("SELECT to_regclass(%(table)s) IS NOT NULL AS found", _Found)
_SETTINGS = Statement(
    """
    SELECT array_agg(current_setting(name) ORDER BY place) AS values
    FROM unnest(%(names)s::text[]) WITH ORDINALITY asked (name, place)
    """,
    _Settings,
)


SNAPSHOT_OLD = 300.0  # seconds


@dataclass(frozen=True, slots=True)
class SnapshotHolder:
    """A session that keeps dead rows of our tables from being removed. `seconds` since it began;
    infinite where the server does not say since when. `name` is for those who may know who works
    with the database."""

    name: str
    seconds: float

    @property
    def old(self) -> bool:
        """Whether it is so old that dead rows slow the queues down."""
        return self.seconds >= SNAPSHOT_OLD

    def __str__(self) -> str:
        since = f" for {self.seconds / 60:.0f} min" if self.seconds < float("inf") else ""
        return f"held{since} by {self.name}"


# As the server shows: a session, a prepared transaction, a replication slot that nobody reads.
# Of sessions of other users a role without pg_read_all_stats sees nothing but the names.
_HOLDER = Statement(
    """
    SELECT name, seconds
    FROM (
        SELECT concat_ws(' ', 'session', pid, 'of', usename, NULLIF(application_name, ''),
                         host(client_addr)) AS name,
               EXTRACT(epoch FROM now() - xact_start)::float8 AS seconds
        FROM pg_stat_activity
        WHERE backend_xmin IS NOT NULL AND datname = current_database()
          AND backend_type = 'client backend' AND pid <> pg_backend_pid()
          AND xact_start IS NOT NULL
        UNION ALL
        SELECT 'prepared transaction ' || gid, EXTRACT(epoch FROM now() - prepared)::float8
        FROM pg_prepared_xacts WHERE database = current_database()
        UNION ALL
        SELECT 'replication slot ' || slot_name, 'infinity'::float8
        FROM pg_replication_slots WHERE xmin IS NOT NULL AND NOT active) holder
    ORDER BY seconds DESC LIMIT 1
    """,
    SnapshotHolder,
)


def oldest_snapshot() -> SnapshotHolder | None:
    """Whoever holds the oldest snapshot of our database but this session: while it is held, polls
    read the dead rows of every message that was sent meanwhile. Raises DatabaseError."""
    (rows,) = run(_HOLDER())
    return rows[0] if rows else None


def takes_writes() -> bool:
    """Raises DatabaseError if the server does not answer."""
    ((row,),) = run(_TAKES_WRITES())
    return row.found


def has_tables() -> bool:
    """Whether the store was migrated. Raises DatabaseError if it cannot be reached."""
    ((row,),) = run(_HAS_TABLE(table=Delivery._meta.db_table))  # noqa: SLF001  public
    return row.found


def session_settings(names: Sequence[str]) -> Sequence[str]:
    """The values of these settings of PostgreSQL in our session, in its own units."""
    ((row,),) = run(_SETTINGS(names=list(names)))
    return row.values
