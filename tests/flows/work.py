"""What an act costs the database: statements, round trips, transactions and rows, by phases.

Counted in what libpq sends and receives, so that nothing is missed: not what Django asks, not a
BEGIN, and not what will be asked by other means one day. Rows are PostgreSQL's own count.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from django.db import connection
from psycopg.pq import Trace

COUNTS = ("statements", "round trips", "transactions", "rows")
_ANSWER = re.compile(rb"^B\t\d+\t(CommandComplete|ReadyForQuery)\t (.*)$", re.MULTILINE)
_ROWS = "SELECT relname, n_tup_ins + n_tup_upd + n_tup_del FROM pg_stat_user_tables"

Counts = dict[str, int]


@dataclass
class Work:
    """Add phases by `with work.of("submit"):`."""

    phases: dict[str, Counts] = field(default_factory=dict)

    @contextmanager
    def of(self, phase: str) -> Iterator[None]:
        """What this connection does meanwhile; transactions that only read are counted too."""
        session: Any = connection.connection
        before = sum(rows_by_table().values())
        with TemporaryDirectory() as folder:
            path = Path(folder) / "trace"
            with path.open("wb") as trace:
                session.pgconn.trace(trace.fileno())
                session.pgconn.set_trace_flags(Trace.SUPPRESS_TIMESTAMPS)
                try:
                    yield
                finally:
                    session.pgconn.untrace()
            assert session is connection.connection, "a connection of its own is not counted"
            seen = _count(path.read_bytes())
        seen["rows"] = sum(rows_by_table().values()) - before
        counts = self.phases.setdefault(phase, dict.fromkeys(COUNTS, 0))
        for name, count in seen.items():
            counts[name] += count

    def total(self) -> Counts:
        return {name: sum(each[name] for each in self.phases.values()) for name in COUNTS}

    def as_table(self, share: int) -> str:
        """For a person: each phase, divided by `share`."""
        lines = [" " * 24 + "".join(f"{name:>14}" for name in COUNTS)]
        for phase, counts in {**self.phases, "in all": self.total()}.items():
            cells = (f"{counts[name] / share:14.4g}" for name in COUNTS)
            lines.append(f"{phase:24}" + "".join(cells))
        return "\n".join(lines)

    def require(self, share: int, bounds: Mapping[str, float]) -> None:
        """AssertionError, with the table, if the total divided by `share` exceeds a bound."""
        total = self.total()
        over = [name for name, most in bounds.items() if total[name] / share > most]
        assert not over, f"more than {dict(bounds)}: {', '.join(over)}\n{self.as_table(share)}"


def _count(trace: bytes) -> Counts:
    counts = dict.fromkeys(COUNTS, 0)
    unfinished = 0
    for kind, rest in _ANSWER.findall(trace):
        if kind == b"CommandComplete":
            counts["statements"] += 1
            unfinished += 1
            continue
        counts["round trips"] += 1
        if rest.strip() == b"I" and unfinished:
            counts["transactions"] += 1
            unfinished = 0
    return counts


def rows_by_table() -> dict[str, int]:
    """Inserted, updated and deleted so far."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_stat_force_next_flush()")
        cursor.execute(_ROWS)
        return dict(cursor.fetchall())
