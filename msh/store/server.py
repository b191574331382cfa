"""The database as start-up checks and health see it: does it answer, is it ours, our session."""

from collections.abc import Sequence
from dataclasses import dataclass

from msh.models import Delivery

from .engine import Statement, Write, run


@dataclass(frozen=True, slots=True)
class _Found:
    found: bool


@dataclass(frozen=True, slots=True)
class _Settings:
    values: Sequence[str]


_PING = Write("SELECT 1")
_HAS_TABLE = Statement("SELECT to_regclass(%(table)s) IS NOT NULL AS found", _Found)
_SETTINGS = Statement(
    """
    SELECT array_agg(current_setting(name) ORDER BY place) AS values
    FROM unnest(%(names)s::text[]) WITH ORDINALITY asked (name, place)
    """,
    _Settings,
)


def ping() -> None:
    """Raises DatabaseError if the server does not answer."""
    run(_PING())


def has_tables() -> bool:
    """Whether the store was migrated. Raises DatabaseError if it cannot be reached."""
    ((row,),) = run(_HAS_TABLE(table=Delivery._meta.db_table))  # noqa: SLF001  public
    return row.found


def session_settings(names: Sequence[str]) -> Sequence[str]:
    """The values of these settings of PostgreSQL in our session, in its own units."""
    ((row,),) = run(_SETTINGS(names=list(names)))
    return row.values
