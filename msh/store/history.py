"""The history: what happened, to which message or link, by whom. Append-only."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from msh.models.history import SYSTEM

from .engine import Call, Order, Write, run

__all__ = ["ITSELF", "LINK", "MESSAGE", "SYSTEM", "Actor", "HistoryRow"]

MESSAGE, LINK = "message", "link"


@dataclass(frozen=True, slots=True)
class Actor:
    """Who did it, and why: a person by user name, or the MSH itself."""

    name: str = SYSTEM
    reason: str = ""


ITSELF = Actor()


@dataclass(frozen=True)
class HistoryRow:
    """One event of a message, or of the link to (`out`) or from (`in`) a partner."""

    partner_id: int
    direction: str
    event: str
    message_id: str = ""
    from_state: str = ""
    to_state: str = ""
    detail: str = ""
    subject: str = MESSAGE
    actor: str = SYSTEM
    at: datetime | None = None
    """None: now, by the database's clock."""


INSERT = Write(
    """
    INSERT INTO msh_history
        (at, actor, partner_id, direction, subject, message_id, event, from_state, to_state, detail)
    VALUES (COALESCE(%(at)s::timestamptz, clock_timestamp()), %(actor)s, %(partner_id)s,
            %(direction)s, %(subject)s, %(message_id)s, %(event)s, %(from_state)s, %(to_state)s,
            %(detail)s)
""",
    order=Order.HISTORY,
)

# A partner may repeat a message a million times: a repetition within a minute is counted in the
# row of the first one. Only the newest rows of the message are searched, so that the cost does not
# grow with their number.
COUNT = Write(
    """
    WITH new (at, actor, partner_id, direction, subject, message_id, event, from_state, to_state,
              detail)
    AS (VALUES (COALESCE(%(at)s::timestamptz, clock_timestamp()), %(actor)s::text,
                %(partner_id)s::bigint, %(direction)s::text, %(subject)s::text,
                %(message_id)s::text, %(event)s::text, %(from_state)s::text, %(to_state)s::text,
                %(detail)s::text)),
    counted AS (
        UPDATE msh_history
        SET times = times + 1, last_at = GREATEST(at, last_at, (SELECT at FROM new))
        WHERE id = (
            SELECT id FROM (
                SELECT * FROM msh_history
                WHERE message_id = (SELECT message_id FROM new) ORDER BY id DESC LIMIT 20) recent
            WHERE (partner_id, direction, subject, event, actor, from_state, to_state, detail)
                = (SELECT partner_id, direction, subject, event, actor, from_state, to_state,
                          detail
                   FROM new)
              AND at >= date_trunc('minute', (SELECT at FROM new))
            ORDER BY id DESC LIMIT 1)
        RETURNING id)
    INSERT INTO msh_history
        (at, actor, partner_id, direction, subject, message_id, event, from_state, to_state, detail)
    SELECT * FROM new WHERE NOT EXISTS (SELECT FROM counted)
""",
    order=Order.HISTORY,
)


def insert(row: HistoryRow) -> Call[None]:
    return INSERT.of(row)


def insert_or_count(row: HistoryRow) -> Call[None]:
    """As `insert`; a repetition of the row within a minute is counted in it."""
    return COUNT.of(row)


def record(row: HistoryRow) -> None:
    """Write it now, in the caller's transaction."""
    run(insert(row))


def with_reason(detail: str, actor: Actor) -> str:
    """The detail of what an operator did: what, and why."""
    return "; ".join(part for part in (detail, actor.reason) if part)


def link_row(
    partner_id: int, direction: str, event: str, actor: Actor, **fields: Any
) -> HistoryRow:
    """What an operator did to a link; `detail` gets the actor's reason."""
    detail = with_reason(fields.pop("detail", ""), actor)
    return HistoryRow(
        partner_id, direction, event, subject=LINK, actor=actor.name, detail=detail, **fields
    )
