"""New messages by COPY: the rows that `submissions.insert_message` writes, by the thousand."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from django.db import connection

from msh.store import history
from msh.store.engine import Statement, fetch_binary
from msh.store.history import HistoryRow

from . import message_sql
from .submissions import NewMessage


@dataclass(frozen=True, slots=True)
class _Keys:
    keys: Sequence[int]
    now: datetime


_NEW_KEYS = Statement(
    """
    SELECT array_agg(nextval('msh_outboundmessage_id_seq')) AS keys, statement_timestamp() AS now
    FROM generate_series(1, %(count)s)
    """,
    _Keys,
)
_COLUMNS: Mapping[str, Mapping[str, str]] = {
    "msh_outboundmessage": {
        "id": "int8",
        "link_id": "int8",
        "agreement_id": "int8",
        "message_id": "text",
        "semantics": "text",
        "state": "text",
        "conversation_id": "text",
        "service_interface": "text",
        "action": "text",
        "ref_to_message_id": "text",
        "submitted_at": "int8",
        "content_digest": "bytea",
        "size": "int4",
        "boundary": "text",
    },
    "msh_outboundpayload": {
        "message_id": "int8",
        "position": "int2",
        "content_type": "text",
        "content_id": "text",
        "label": "text",
        "description": "text",
        "wire": "bytea",
    },
    "msh_history": {**history.COLUMNS, "at": "int8"},
}
"""Types as they are written; a time is an int8 in COPY's binary format: see `_time`."""

_EPOCH: Final = datetime(2000, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


def insert_messages(new: Sequence[NewMessage], links: Mapping[int, int]) -> None:
    """Write them in this order, in the caller's transaction. `links`: partner id to link id.

    Raises IntegrityError if a MessageId is known: then the transaction is at its end.
    """
    (row,) = fetch_binary(_NEW_KEYS(count=len(new)))
    messages = list(zip(row.keys, new, strict=True))
    now = _time(row.now)
    _copy("msh_outboundmessage", (_message(key, one, links, now) for key, one in messages))
    _copy("msh_outboundpayload", (row for key, one in messages for row in _payloads(key, one)))
    _copy("msh_history", (_history(one, now) for one in new))


def find_known(asked: Sequence[tuple[int, str]]) -> dict[tuple[int, str], bytes]:
    links, message_ids = [link for link, _ in asked], [message_id for _, message_id in asked]
    rows = fetch_binary(message_sql.FIND_KNOWN(links=links, message_ids=message_ids))
    return {(row.link_id, row.message_id): row.content_digest for row in rows}


def _copy(table: str, rows: Iterable[Sequence[object]]) -> None:
    columns = _COLUMNS[table]
    statement = f"COPY {table} ({', '.join(columns)}) FROM STDIN (FORMAT BINARY)"
    with (
        connection.cursor() as cursor,
        connection.wrap_database_errors,
        cursor.copy(statement) as copy,
    ):
        copy.set_types(list(columns.values()))
        for row in rows:
            copy.write_row(row)


def _message(key: int, new: NewMessage, links: Mapping[int, int], now: int) -> tuple[object, ...]:
    return (
        key,
        links[new.agreement.partner_id],
        new.agreement.pk,
        new.message_id,
        new.semantics,
        "queued",
        new.conversation_id,
        new.service_interface,
        new.action,
        new.ref_to_message_id,
        now,
        new.content_digest,
        new.size,
        new.boundary,
    )


def _payloads(key: int, new: NewMessage) -> Iterator[tuple[object, ...]]:
    for position, (payload, part) in enumerate(zip(new.payloads, new.parts, strict=True), start=1):
        yield (
            key,
            position,
            payload.content_type,
            payload.content_id,
            payload.label,
            payload.description,
            part,
        )


def _history(new: NewMessage, now: int) -> tuple[object, ...]:
    row = HistoryRow(
        new.agreement.partner_id, "out", "MessageSubmitted", new.message_id, to_state="queued"
    )
    return tuple((vars(row) | {"at": now}).values())


def _time(at: datetime) -> int:
    """As PostgreSQL has it: microseconds since 2000."""
    return (at - _EPOCH) // _MICROSECOND
