"""The history: what happened, to which message or link, by whom. Append-only."""

from collections.abc import Mapping
from dataclasses import KW_ONLY, MISSING, dataclass, fields
from datetime import datetime

from msh.models.history import SYSTEM
from msh.protocol.four_eyes import Approval

from .engine import Call, Order, Write, run

__all__ = ["ITSELF", "LINK", "MESSAGE", "SYSTEM", "Actor", "HistoryRow"]

MESSAGE, LINK = "message", "link"


@dataclass(frozen=True, slots=True)
class Actor:
    """The actor of an event, and why: a person by user name, or the MSH itself. `approval`: of a
    second person, for an act that needs one. `by_command`: given by who ran it, and proven by
    nothing."""

    name: str = SYSTEM
    reason: str = ""
    approval: Approval | None = None
    by_command: bool = False


ITSELF = Actor()


@dataclass(frozen=True)
class HistoryRow:
    """One event of a message, or of the link to (`out`) or from (`in`) a partner.

    The fields are the columns, and their defaults those of `insert_one`: a column added here is
    in every statement that writes the history.
    """

    partner_id: int
    direction: str
    event: str
    message_id: str = ""
    _: KW_ONLY
    from_state: str = ""
    to_state: str = ""
    code: str = ""
    detail: str = ""
    subject: str = MESSAGE
    actor: str = SYSTEM
    at: datetime | None = None
    """None: now, by the database's clock."""


_SQL_TYPES: Mapping[object, str] = {int: "int8", str: "text", datetime | None: "timestamptz"}
COLUMNS: Mapping[str, str] = {field.name: _SQL_TYPES[field.type] for field in fields(HistoryRow)}
"""Name and type of each column that is written, in the order of the fields."""
_NAMES = ", ".join(COLUMNS)
_DEFAULTS = {
    field.name: f"'{field.default}'" for field in fields(HistoryRow) if field.default is not MISSING
} | {"at": "clock_timestamp()"}
_INSERT_INTO = f"INSERT INTO msh_history ({_NAMES})"


def insert_one(**values: str) -> str:
    """The INSERT of one row, for a statement that writes other tables too. A FROM may follow.

    `values` are expressions of SQL by column; a column that is left out has its default. Raises
    KeyError for one that has none, ValueError for a name that is no column.
    """
    return f"{_INSERT_INTO} SELECT {_select(values)}"


def _select(values: Mapping[str, str]) -> str:
    if unknown := values.keys() - COLUMNS.keys():
        raise ValueError(f"no columns of the history: {unknown}")
    row = {**_DEFAULTS, **values}
    # Of a type, for a parameter of several places has one type in all of them.
    return ", ".join(f"{row[name]}::{kind}" for name, kind in COLUMNS.items())


def parameters(prefix: str = "") -> dict[str, str]:
    """Every column as the parameter of its name, such as `%(prefix_event)s`."""
    return {name: f"%({prefix}{name})s" for name in COLUMNS}


# Two rows that differ in nothing else are a repetition.
_ALIKE = ", ".join(name for name in COLUMNS if name not in ("at", "message_id"))


def insert_or_count_one(**values: str) -> str:
    """Like `insert_one`, for a statement after WITH or after another expression of it. A repetition
    within a minute is counted in the row of the first one.

    A partner may repeat a message a million times. Only the newest rows of the message are
    searched, so that the cost does not grow with their number; and only the newest blocks of the
    history, as its index has them: with more than 196,608 rows a minute, one may not be counted.
    """
    return f"""
    new ({_NAMES}) AS (SELECT {_select(values)}),
    counted AS (
        UPDATE msh_history
        SET times = times + 1, last_at = GREATEST(at, last_at, (SELECT at FROM new))
        WHERE id = (
            SELECT id FROM (
                SELECT * FROM msh_history
                WHERE (id >> 16) = ANY(ARRAY(
                    SELECT ((SELECT max(id) FROM msh_history) >> 16) - back
                    FROM generate_series(0, 3) back))
                  AND message_id = (SELECT message_id FROM new)
                ORDER BY (id >> 16) DESC, id DESC LIMIT 20) recent
            WHERE ({_ALIKE}) = (SELECT {_ALIKE} FROM new)
              AND at >= date_trunc('minute', (SELECT at FROM new))
            ORDER BY id DESC LIMIT 1)
        RETURNING id)
    {_INSERT_INTO} SELECT * FROM new WHERE NOT EXISTS (SELECT FROM counted)
    """


_ROW = parameters() | {"at": "COALESCE(%(at)s::timestamptz, clock_timestamp())"}
_TYPED = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())
_COLUMN = {name: name for name in COLUMNS} | {"at": "COALESCE(at, clock_timestamp())"}
_INSERT_MANY = Write(
    f"{insert_one(**_COLUMN)} FROM json_to_recordset(%(rows)s::json) AS new ({_TYPED})",
    order=Order.HISTORY,
)
INSERT = Write(insert_one(**_ROW), order=Order.HISTORY, many=_INSERT_MANY)
COUNT = Write(f"WITH {insert_or_count_one(**_ROW)}", order=Order.HISTORY)


def insert(row: HistoryRow) -> Call[None]:
    return INSERT.of(row)


def insert_or_count(row: HistoryRow) -> Call[None]:
    """Like `insert`, but a repetition of the row within a minute is counted in it."""
    return COUNT.of(row)


def record(row: HistoryRow) -> None:
    run(insert(row))


def with_reason(detail: str, actor: Actor) -> str:
    return "; ".join(part for part in (detail, actor.reason) if part)


def link_row(
    partner_id: int,
    direction: str,
    event: str,
    actor: Actor,
    *,
    from_state: str = "",
    to_state: str = "",
    detail: str = "",
) -> HistoryRow:
    return HistoryRow(
        partner_id,
        direction,
        event,
        from_state=from_state,
        to_state=to_state,
        detail=with_reason(detail, actor),
        subject=LINK,
        actor=actor.name,
    )
